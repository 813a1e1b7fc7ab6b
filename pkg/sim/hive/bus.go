package simhive

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hello is how a client, or another node's NATS, introduces itself.
type hello struct {
	Token   string   `json:"auth_token,omitempty"`
	Name    string   `json:"name"`
	Cluster string   `json:"cluster,omitempty"` // of another node's NATS
	Topics  []string `json:"topics,omitempty"`  // what a client answers
}

// welcome is the first line of NATS to whoever connects.
type welcome struct {
	ServerID    string   `json:"server_id"`
	ServerName  string   `json:"server_name"`
	Version     string   `json:"version"`
	TLSRequired bool     `json:"tls_required,omitempty"`
	MaxPayload  int      `json:"max_payload"`
	ConnectURLs []string `json:"connect_urls,omitempty"`
}

// busOptions are how a service reaches NATS.
type busOptions struct {
	address string // of the own node's NATS
	source  string // address to dial from
	token   string
	trust   *tls.Config // what a NATS that asks for TLS is verified with
	hello   hello
	answer  answering
}

// dialBus connects to one NATS. It also returns where the other nodes' NATS take clients.
func dialBus(ctx context.Context, address string, o busOptions) (*link, []string, error) {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	if ip := net.ParseIP(o.source); ip != nil && !ip.IsUnspecified() {
		dialer.LocalAddr = &net.TCPAddr{IP: ip}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil, errors.New("NATS connect failed: nats: no servers available for connection")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("NATS connect failed: %w", err)
	}
	l, others, err := greet(conn, address, o)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("NATS connect failed: %w", err)
	}
	return l, others, nil
}

func greet(conn net.Conn, address string, o busOptions) (*link, []string, error) {
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	var w welcome
	info, ok := strings.CutPrefix(line, "INFO ")
	if !ok || json.Unmarshal([]byte(info), &w) != nil {
		return nil, nil, errors.New("nats: expected 'INFO', got something else")
	}
	if w.TLSRequired {
		trust := o.trust.Clone()
		trust.ServerName, _, _ = net.SplitHostPort(address)
		secured := tls.Client(conn, trust)
		if err := secured.Handshake(); err != nil {
			return nil, nil, fmt.Errorf("nats: tls error: %w", err)
		}
		conn, reader = secured, bufio.NewReader(secured)
	}
	o.hello.Token = o.token
	if err := sendHello(conn, reader, o.hello); err != nil {
		return nil, nil, err
	}
	conn.SetDeadline(time.Time{})
	return newLink(conn, reader, o.answer), w.ConnectURLs, nil
}

// sendHello introduces one end to the other and reads whether it is taken.
func sendHello(conn net.Conn, reader *bufio.Reader, h hello) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\n", text); err != nil {
		return err
	}
	answer, err := reader.ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "+OK" {
		return fmt.Errorf("nats: %s", strings.Trim(strings.TrimPrefix(answer, "-ERR "), "'"))
	}
	return nil
}

// bus is a service's connection to NATS. When that is lost, it is made again, with another node's NATS if the own one
// has gone. Safe for concurrent use.
type bus struct {
	options busOptions
	retry   time.Duration
	log     func(format string, args ...any)

	mu     sync.Mutex
	link   *link
	others []string
}

// connectBus waits until the own node's NATS takes this client, for as long as it takes.
func (p *program) connectBus(ctx context.Context, o busOptions) (*bus, error) {
	b := &bus{options: o, retry: max(p.settings.scaled(realReconnect), 50*time.Millisecond), log: p.logf}
	if o.answer == nil {
		b.options.answer = func(context.Context, string, json.RawMessage) (any, error) { return nil, errors.New("no such subject") }
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		l, others, err := dialBus(ctx, o.address, b.options)
		if err == nil {
			b.link, b.others = l, others
			go b.keep(ctx)
			return b, nil
		}
		p.logf("WARN NATS not ready, retrying... error=%q", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// keep makes the connection again whenever it is lost.
func (b *bus) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.current().closed:
		}
		b.log("WARN NATS disconnected")
		for ctx.Err() == nil && !b.again(ctx) {
			time.Sleep(b.retry)
		}
	}
}

func (b *bus) again(ctx context.Context) bool {
	b.mu.Lock()
	servers := append([]string{b.options.address}, b.others...)
	b.mu.Unlock()
	for _, server := range servers {
		l, others, err := dialBus(ctx, server, b.options)
		if err != nil {
			continue
		}
		b.mu.Lock()
		b.link = l
		if len(others) > 0 {
			b.others = others
		}
		b.mu.Unlock()
		b.log("WARN NATS reconnected url=%s", server)
		return true
	}
	return false
}

func (b *bus) current() *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.link
}

// call asks NATS, over as many connections as it takes, until the context ends.
func (b *bus) call(ctx context.Context, name string, in, out any) error {
	for {
		err := b.current().call(ctx, name, in, out)
		if !errors.Is(err, errLinkClosed) {
			return err
		}
		select {
		case <-ctx.Done():
			return errTimeout
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// quorum asks whether the cluster has most of its NATS, and so its records.
func (b *bus) quorum(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	var quorum bool
	return b.call(ctx, "quorum", nil, &quorum) == nil && quorum
}

func (b *bus) close() { b.current().close() }

// gather asks all clients of all nodes and returns what they have answered.
func (b *bus) gather(ctx context.Context, topic string, limit time.Duration) []json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Second)
	defer cancel()
	var answers []json.RawMessage
	if err := b.call(ctx, "gather", gathering{Topic: topic, Limit: limit}, &answers); err != nil {
		b.log("WARN %s: %v", topic, err)
	}
	return answers
}
