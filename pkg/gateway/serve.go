package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"hive-test/pkg/gateway/ec2"
)

// Serving is what a gateway is served with.
type Serving struct {
	Listen  string // ADDRESS:PORT; port 0 is any that is free
	Region  string
	Account string
	Lag     time.Duration // see ec2.Options
	// CertFile and KeyFile hold the certificate of an endpoint that is not on this machine alone, and CAFile those that have
	// signed it. Empty: HTTP, on loopback addresses only.
	CertFile, KeyFile, CAFile string
	Faults                    *Faults
	Cluster                   *Behind   // nil: it answers everything itself
	Version                   string    // of the program
	Log                       io.Writer // gets a line of JSON for each request
}

const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	closeTime  = 5 * time.Second // for requests that are being answered when the gateway is to end
)

// Serve serves a gateway in a place until ctx ends. Ready is called once, when it answers, or with why it does not.
func (p Place) Serve(ctx context.Context, o Serving, ready func(error) error) error {
	if err := o.Check(); err != nil {
		return ready(err)
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return ready(err)
	}
	lock := p.lock()
	if free, err := lock.TryLock(); err != nil || !free {
		return ready(errors.Join(err, fmt.Errorf("another gateway runs in %s", p.Dir)))
	}
	defer func() { _ = lock.Unlock() }()
	kept, keptIn, closeStore, err := p.openStore(ctx, o.Cluster)
	if err != nil {
		return ready(err)
	}
	defer closeStore()
	k, err := p.Keys()
	if err != nil {
		return ready(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return ready(fmt.Errorf("listening: %w", err))
	}
	served := Options{
		Account: o.Account, Now: time.Now, Log: logTo(o.Log), Faults: o.Faults,
		Secret: func(accessKey string) (string, bool) { return k.SecretKey, accessKey == k.AccessKey },
	}
	info := Info{
		Schema: infoSchema, PID: os.Getpid(), Endpoint: o.scheme() + "://" + listener.Addr().String(), Region: o.Region,
		Account: o.Account, AccessKey: k.AccessKey, CAFile: o.CAFile, Version: o.Version,
		Started: time.Now().UTC().Truncate(time.Second),
	}
	service := ec2.New(ec2.Options{Store: kept, Region: o.Region, Account: o.Account, Now: time.Now, Lag: o.Lag})
	served.EC2 = service
	if o.Cluster != nil {
		front, client, behind, err := p.front(ctx, o.Cluster, service)
		if err != nil {
			return ready(errors.Join(err, listener.Close()))
		}
		behind.Kept = keptIn
		served.EC2, served.Cluster, served.Alone = front, client, front.Alone
		info.Cluster, info.Hive = o.Cluster.Name, behind
	}
	server := &http.Server{ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, Handler: Handler(served)}
	if err := writeJSON(p.infoFile(), info); err != nil {
		return ready(errors.Join(err, listener.Close()))
	}
	defer func() { _ = os.Remove(p.infoFile()) }()
	return serveUntil(ctx, server, listener, o, ready)
}

// serveUntil serves until ctx ends, and lets requests that are being answered end.
func serveUntil(
	ctx context.Context, server *http.Server, listener net.Listener, o Serving, ready func(error) error,
) error {
	served := make(chan error, 1)
	go func() {
		if o.CertFile != "" {
			served <- server.ServeTLS(listener, o.CertFile, o.KeyFile)
			return
		}
		served <- server.Serve(listener)
	}()
	_ = ready(nil)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err := server.Shutdown(closing)
	<-served
	return err
}

func (o Serving) scheme() string {
	if o.CertFile != "" {
		return "https"
	}
	return "http"
}

// Check refuses what would make the keys, which are as good as passwords, readable on a network.
func (o Serving) Check() error {
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
		return nil
	}
	address, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return fmt.Errorf("%q is no ADDRESS:PORT to listen on, like 127.0.0.1:9990", o.Listen)
	}
	if !address.Addr().IsLoopback() {
		return fmt.Errorf("%s can be reached from other machines: that takes a certificate", o.Listen)
	}
	return nil
}

// logTo writes entries as lines of JSON.
func logTo(w io.Writer) func(Entry) {
	if w == nil {
		return nil
	}
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return func(e Entry) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(e) // a log that is full stops no answers
	}
}
