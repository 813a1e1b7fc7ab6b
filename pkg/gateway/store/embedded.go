package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startTime is how long a NATS server of this process may take to start.
const startTime = 30 * time.Second

// Embedded is a NATS server of this process, which nothing can reach over a network.
type Embedded struct {
	JetStream jetstream.JetStream
	server    *server.Server
	conn      *nats.Conn
}

// StartEmbedded starts a NATS server that keeps its data in a directory, which is made where it is not there. What it has
// taken is written to its files before it says so, and synced every two minutes: a killed process loses nothing of it, a
// power cut may.
func StartEmbedded(dir string) (*Embedded, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "hive-test-gateway", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	go s.Start()
	if !s.ReadyForConnections(startTime) {
		s.Shutdown()
		return nil, fmt.Errorf("NATS has not started after %s", startTime)
	}
	e := &Embedded{server: s}
	if e.conn, err = nats.Connect("", nats.InProcessServer(s)); err == nil {
		e.JetStream, err = jetstream.New(e.conn)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if !s.JetStreamEnabled() {
		e.Close()
		return nil, errors.New("NATS keeps nothing: " + dir + " cannot be used")
	}
	return e, nil
}

// OpenEmbedded opens a store with the buckets of the kinds in a NATS server of its own, which keeps its data in a
// directory, and that nobody else can write to. Close ends both.
func OpenEmbedded(ctx context.Context, dir string, kinds ...string) (kept *Store, closeBoth func(), err error) {
	e, err := StartEmbedded(dir)
	if err != nil {
		return nil, nil, err
	}
	if kept, err = open(ctx, e.JetStream, 1, true, kinds); err != nil {
		e.Close()
		return nil, nil, err
	}
	return kept, func() { kept.Close(); e.Close() }, nil
}

// Close ends the server once all is on disk.
func (e *Embedded) Close() {
	if e.conn != nil {
		e.conn.Close()
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
}
