package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// connectTime is how long servers may take that are there.
	connectTime = 3 * time.Second
	// mostReplicas is what JetStream keeps of a bucket in a cluster that may lose a node.
	mostReplicas = 3
)

// Server is a NATS server of somebody else's, with JetStream.
type Server struct {
	URLs  []string // of its cluster's nodes; one is enough
	Token string   // empty: it asks for none
	CA    []byte   // PEM of what its certificate is verified with, where it has one
}

// OpenServer opens a store with the buckets of the kinds in a NATS server, as Open does. Close ends the connection, too. A
// connection that breaks is made again.
func OpenServer(ctx context.Context, s Server, kinds ...string) (kept *Store, closeBoth func(), err error) {
	conn, js, err := s.connect()
	if err != nil {
		return nil, nil, err
	}
	if kept, err = Open(ctx, js, min(mostReplicas, len(s.URLs)), kinds...); err != nil {
		conn.Close()
		return nil, nil, err
	}
	return kept, func() { kept.Close(); conn.Close() }, nil
}

// Wipe deletes the buckets of the kinds in a NATS server, with all that is in them.
func (s Server) Wipe(ctx context.Context, kinds ...string) error {
	conn, js, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, kind := range kinds {
		if err := js.DeleteKeyValue(ctx, kind); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return fmt.Errorf("deleting the KV bucket %s: %w", kind, err)
		}
	}
	return nil
}

func (s Server) connect() (*nats.Conn, jetstream.JetStream, error) {
	options := []nats.Option{nats.Name("hive-test gateway"), nats.Timeout(connectTime), nats.MaxReconnects(-1)}
	if s.Token != "" {
		options = append(options, nats.Token(s.Token))
	}
	if roots := x509.NewCertPool(); roots.AppendCertsFromPEM(s.CA) {
		options = append(options, func(o *nats.Options) error { // used where the server asks for TLS
			o.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			return nil
		})
	}
	conn, err := nats.Connect(strings.Join(s.URLs, ","), options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to NATS at %s: %w", strings.Join(s.URLs, ", "), err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}
