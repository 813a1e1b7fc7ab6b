package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"hive-test/pkg/gateway/store"
)

// Resources stay where the first start has put them: in the cluster's NATS, where that can be reached then, or in one of
// the gateway's own.
func TestResourcesStayWhereTheyAre(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	there := &Behind{NATS: store.Server{URLs: []string{s.ClientURL()}}}
	away := &Behind{NATS: store.Server{URLs: []string{"nats://127.0.0.1:1"}}}
	inCluster, inOwn := Place{t.TempDir()}, Place{t.TempDir()}
	for _, start := range []struct {
		place  Place
		behind *Behind
		want   string
	}{
		{inOwn, away, InOwnNATS},
		{inOwn, there, InOwnNATS},
		{inCluster, there, InClusterNATS},
		{inCluster, there, InClusterNATS},
		{Place{t.TempDir()}, nil, InOwnNATS},
	} {
		_, in, end, err := start.place.openStore(t.Context(), start.behind)
		if err != nil || in != start.want {
			t.Fatalf("%q, %v, want %q", in, err, start.want)
		}
		end()
	}
	s.Shutdown()
	s.WaitForShutdown()
	if _, _, _, err := inCluster.openStore(t.Context(), there); err == nil ||
		!strings.Contains(err.Error(), "resources are in the cluster's NATS") {
		t.Errorf("%v", err)
	}
}
