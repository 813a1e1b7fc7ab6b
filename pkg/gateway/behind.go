package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/upstream"
	"hive-test/pkg/gateway/wire"
)

// Behind is the cluster that a gateway is in front of.
type Behind struct {
	Name      string
	Endpoints []string // URLs
	Key       awsauth.Key
	Transport http.RoundTripper // verifies the endpoints' certificates
	// Formed tells one forming of the cluster from another: it stands for the version of a hive that does not tell it.
	Formed string
	NATS   store.Server // of the cluster; no URLs: it is not used
	// Answers is who answers actions, ec2.InCluster or ec2.Here, in place of who would.
	Answers map[string]string
}

// HiveInfo is what is told of the hive behind a gateway.
type HiveInfo struct {
	Version string            `json:"version"`    // or when it was formed, where it does not tell its version
	Root    string            `json:"error_root"` // of the errors that it answers with
	Asked   time.Time         `json:"asked"`      // what it implements
	Kept    string            `json:"kept"`       // where what the cluster does not tell is
	Actions map[string]string `json:"actions"`    // who answers each: cluster or gateway
}

// front returns what answers for the cluster, and what is told of it. What the cluster implements is asked of it once for
// each version.
func (p Place) front(ctx context.Context, b *Behind, service *ec2.Service) (*ec2.Front, *upstream.Client, *HiveInfo, error) {
	client := &upstream.Client{Endpoints: b.Endpoints, Key: b.Key, HTTP: &http.Client{Transport: b.Transport}}
	known, err := p.capabilities(ctx, b, client)
	if err != nil {
		return nil, nil, nil, err
	}
	known.Actions = maps.Clone(known.Actions)
	for action, who := range b.Answers {
		known.Actions[action] = who == ec2.InCluster
	}
	client.Use(known)
	front := ec2.NewFront(service, client)
	info := &HiveInfo{
		Version: known.Version, Root: known.Root, Asked: known.Asked, Actions: map[string]string{},
	}
	for _, action := range wire.Actions() {
		info.Actions[action] = front.Answers(action)
	}
	return front, client, info, nil
}

// capabilities are what is known of the cluster's version, or what the cluster is asked for now.
func (p Place) capabilities(ctx context.Context, b *Behind, client *upstream.Client) (known upstream.Capabilities, err error) {
	version := cmp.Or(client.Version(ctx), b.Formed)
	file := filepath.Join(p.Dir, "capabilities.json")
	data, err := os.ReadFile(file)
	if err == nil && json.Unmarshal(data, &known) == nil && known.Version == version {
		return known, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return known, err
	}
	if known, err = client.Learn(ctx, version); err != nil {
		return known, fmt.Errorf("asking cluster %s what it implements: %w", b.Name, err)
	}
	return known, writeJSON(file, known)
}
