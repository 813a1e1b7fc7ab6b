package store

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"hive-test/pkg/gateway/wire"
)

// A store in somebody else's NATS is shared by all who have its token, outlives them, and is gone once it is wiped.
func TestServer(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), Authorization: "token",
		NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	at := Server{URLs: []string{s.ClientURL()}, Token: "token"}
	one, closeOne, err := OpenServer(t.Context(), at, "vpc")
	if err != nil {
		t.Fatal(err)
	}
	two, closeTwo, err := OpenServer(t.Context(), at, "vpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeTwo)
	if err := one.Create(t.Context(), "vpc", "vpc-1", wire.Object{"VpcId": "vpc-1"}); err != nil {
		t.Fatal(err)
	}
	closeOne()
	if o, err := two.Get(t.Context(), "vpc", "vpc-1"); err != nil || o.Text("VpcId") != "vpc-1" {
		t.Errorf("%v, %v", o, err)
	}
	if _, _, err := OpenServer(t.Context(), Server{URLs: at.URLs, Token: "other"}, "vpc"); err == nil {
		t.Error("a wrong token is taken")
	}
	for range 2 { // what is not there is wiped, too
		if err := at.Wipe(t.Context(), "vpc", "subnet"); err != nil {
			t.Fatal(err)
		}
	}
	three, closeThree, err := OpenServer(t.Context(), at, "vpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeThree)
	if all, err := three.All(t.Context(), "vpc"); err != nil || len(all) > 0 {
		t.Errorf("%v, %v are left", all, err)
	}
}
