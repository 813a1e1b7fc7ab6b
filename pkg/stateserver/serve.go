package stateserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
)

// Transport is how clients are spoken to.
type Transport string

// The transports.
const (
	// Auto is the certificate of a file where one is given, else plain HTTP on loopback addresses, and a certificate of the
	// server's own on others.
	Auto       Transport = "auto"
	SelfSigned Transport = "self-signed"
	// Plain is HTTP on any address. Passwords and states can be read on the way.
	Plain Transport = "off"
)

// Options are what a server is made with.
type Options struct {
	Listen    string // ADDRESS:PORT; port 0 is any that is free
	UsersFile string
	TLS       Transport
	// CertFile and KeyFile hold a certificate; both or none. They are read again when they have changed.
	CertFile, KeyFile string
	Names             []string // that a certificate of the server's own is for, beside those that it knows
	MaxSize           int      // of a state, in bytes
	Log               *slog.Logger
	Now               func() time.Time
}

// Info is what is known of a server that listens.
type Info struct {
	Endpoint    string // URL
	Fingerprint string // of its certificate; empty: plain HTTP
	Exposed     bool   // it is plain HTTP that other machines can reach
}

// Time limits and bounds against clients that are slow, or many.
const (
	headerTime      = 10 * time.Second
	bodyTime        = 2 * time.Minute // of a request, header included
	answerTime      = 5 * time.Minute // from a request's header to the end of its answer
	idleTime        = 2 * time.Minute
	closeTime       = 50 * time.Second // for requests that are being answered when the server is to end
	mostHeader      = 16 << 10
	mostConnections = 1024
	// LargestSize is the largest MaxSize.
	LargestSize = mostBodies
)

// New makes a server of a storage that CheckStorage is content with.
func New(storage Storage, keys Keys, o Options) (*Server, error) {
	if o.MaxSize < 1 || o.MaxSize > LargestSize {
		return nil, fmt.Errorf("a limit of states of %d is not possible: 1 to %d is", o.MaxSize, LargestSize)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("a certificate and its key go together")
	}
	users, err := openUsers(o.UsersFile, func(err error) { o.Log.Error("users", "error", err) })
	if err != nil {
		return nil, err
	}
	return &Server{
		Options: o, storage: storage, keys: keys, log: o.Log, auth: newAuth(users, o), metrics: newMetrics(),
		health: &health{storage: storage}, bodies: semaphore.NewWeighted(mostBodies),
	}, nil
}

// plain reports whether the server speaks plain HTTP.
func (o Options) plain() bool {
	switch {
	case o.CertFile != "":
		return false
	case o.TLS == Auto:
		return o.onLoopback()
	}
	return o.TLS == Plain
}

// onLoopback reports whether only this machine reaches the server.
func (o Options) onLoopback() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	address, parsed := netip.ParseAddr(host)
	return err == nil && parsed == nil && address.IsLoopback()
}

// Run serves until ctx ends, and lets requests that are being answered end. Ready is called once, when the server answers.
func (s *Server) Run(ctx context.Context, ready func(Info)) error {
	secure, err := s.secure(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	info := Info{Endpoint: "http://" + listener.Addr().String(), Exposed: secure == nil && !s.onLoopback()}
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeader, ErrorLog: log.New(quiet{s.log}, "", 0),
	}
	listener = netutil.LimitListener(listener, mostConnections)
	if secure != nil {
		info = Info{Endpoint: "https://" + listener.Addr().String(), Fingerprint: Fingerprint(s.certificate)}
		listener = tls.NewListener(listener, secure)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ready(info)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.log.Info("ending: what is being written is finished, and nothing new is begun")
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err = server.Shutdown(closing)
	<-served
	return err
}

// secure is what TLS is spoken with; nil: it is not.
func (s *Server) secure(ctx context.Context) (*tls.Config, error) {
	if s.plain() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if s.CertFile == "" {
		certificate, err := s.selfSigned(ctx, ownNames(s.Listen, s.Names))
		if err != nil {
			return nil, err
		}
		s.certificate = certificate.Certificate[0]
		config.Certificates = []tls.Certificate{certificate}
		return config, nil
	}
	given := &certificateFiles{cert: s.CertFile, key: s.KeyFile}
	certificate, err := given.load()
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	s.certificate = certificate.Certificate[0]
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return given.load() }
	return config, nil
}

// quiet is where net/http logs to: that clients break off handshakes is no error of the server.
type quiet struct{ log *slog.Logger }

// Write logs a line.
func (q quiet) Write(p []byte) (int, error) {
	q.log.Warn("connection", "problem", printable(string(p)))
	return len(p), nil
}
