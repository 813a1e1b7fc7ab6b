package proxmox

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

var _ deploy.Relayer = (*Fleet)(nil)

// Relay lets another program make the node's VM.
func (f *Fleet) Relay(ctx context.Context, r *cluster.Record, node cluster.Node, o deploy.RelayOptions) (deploy.Relay, error) {
	at, password := placement.Of(node), rand.Text()
	clone := map[string]string{"name": node.Name, "description": cluster.Description(r.Name, r.Owner)}
	if pool := placement.TargetOf(r.Target).Pool; pool != "" {
		clone["pool"] = pool
	}
	handler, err := f.Client.Relay(api.RelayOptions{
		Password: password, Hypervisor: at.Hypervisor, VMID: at.VMID, Source: o.Source, PublicKey: o.PublicKey, Clone: clone,
		Config: map[string]string{
			"description": cluster.Description(r.Name, r.Owner), "tags": strings.Join(r.Owner.Tags(r.Name), ";"),
			"net0":      placement.NIC(r.Spec.ManagementModel, at.ManagementMAC, r.Spec.ManagementBridge, r.Spec.ManagementVLAN),
			"net1":      placement.NIC(r.Spec.DataModel, at.DataMAC, r.Spec.DataBridge, r.Spec.DataVLAN),
			"ipconfig0": placement.IPConfig(node.StaticManagement, r.Spec.Network.Gateway), "ipconfig1": placement.IPConfig(node.StaticData, ""),
		},
	})
	if err != nil {
		return deploy.Relay{}, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return deploy.Relay{}, fmt.Errorf("a port for the relay: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: CallLimit}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	return deploy.Relay{
		URL: "http://" + listener.Addr().String(), User: api.RelayUser, Password: password,
		Close: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
			served.Wait()
		},
	}, nil
}
