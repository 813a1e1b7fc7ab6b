package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
)

// Where a gateway keeps its resources.
const (
	InClusterNATS = "NATS of the cluster"
	InOwnNATS     = "NATS of the gateway"
)

// kept is what is written down of where the resources are: another start finds them there, or does not start.
type kept struct {
	In string `json:"in"`
}

func (p Place) keptFile() string { return filepath.Join(p.Dir, "kept.json") }

// keptIn reads where the resources are; empty: there are none yet.
func (p Place) keptIn() (string, error) {
	data, err := os.ReadFile(p.keptFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	return k.In, err
}

// openStore opens the store of a gateway: in the NATS of the cluster that it is in front of, where that can be reached when
// it starts for the first time, or in one of its own.
func (p Place) openStore(ctx context.Context, behind *Behind) (opened *store.Store, in string, end func(), err error) {
	if in, err = p.keptIn(); err != nil {
		return nil, "", nil, err
	}
	if behind != nil && len(behind.NATS.URLs) > 0 && in != InOwnNATS {
		opened, end, err = store.OpenServer(ctx, behind.NATS, ec2.Kinds()...)
		switch {
		case err == nil:
			return opened, InClusterNATS, end, writeJSON(p.keptFile(), kept{InClusterNATS})
		case in == InClusterNATS:
			return nil, "", nil, fmt.Errorf("the gateway's resources are in the cluster's NATS: %w", err)
		}
	}
	opened, end, err = store.OpenEmbedded(ctx, filepath.Join(p.Dir, "nats"), ec2.Kinds()...)
	if err != nil {
		return nil, "", nil, err
	}
	return opened, InOwnNATS, end, writeJSON(p.keptFile(), kept{InOwnNATS})
}

// Wipe deletes all that a gateway, which does not run, has kept: its resources, keys and log. Where resources are in the
// cluster's NATS, that is server; with nil, which means that the cluster is gone, they are left.
func (p Place) Wipe(ctx context.Context, server *store.Server) error {
	in, err := p.keptIn()
	if err == nil && in == InClusterNATS && server != nil {
		err = server.Wipe(ctx, ec2.Kinds()...)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(p.Dir)
}
