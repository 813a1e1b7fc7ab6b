package hive

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"hive-test/pkg/liveness"
)

// ProbeResult is a cheap sign of life of one node: one request, and where that has no answer one connection to its SSH
// server.
type ProbeResult struct {
	Node string
	// Daemon is nil where something answers on the daemon's port, else why not.
	Daemon error
	// Host is nil where the daemon or the SSH server answers, else why neither does.
	Host error
	// Self is the name that the daemon gives itself, and Uptime for how long it says it runs; empty and 0 where it does
	// not say.
	Self   string
	Uptime time.Duration
}

// Probe asks every node at once for a sign of life, in node order, within Options.ProbeTimeout where nothing takes
// connections and within two and a half times that where a program does and is silent, and one that monitor finds
// unreachable no longer than until then. It does not judge health: see Check. It is safe at any time.
func (c *Cluster) Probe(ctx context.Context, monitor *liveness.Monitor) []ProbeResult {
	c.mu.Lock()
	var ca []byte // not read from a node here: without it a daemon that wants TLS still is one that answers
	if c.access != nil {
		ca = c.access.CA
	}
	c.mu.Unlock()
	probe := c.newProber(ca)
	defer probe.close()
	results := make([]ProbeResult, len(c.hosts))
	atOnce(c.hosts, func(i int, host Host) {
		results[i] = ProbeResult{Node: host.Name()}
		results[i].Host = monitor.Ask(ctx, host.Name(), func(ctx context.Context) error {
			return results[i].ask(ctx, c, probe, host)
		})
	})
	return results
}

// ask fills in what the daemon answers, or returns why neither it nor the SSH server does.
func (r *ProbeResult) ask(ctx context.Context, c *Cluster, probe *prober, host Host) error {
	answer, scheme, err := probe.getEither(ctx, address(host, ManagerPort)+"/health")
	if err != nil && scheme == "" {
		r.Daemon = err
		return c.checkBanner(ctx, host)
	}
	if words, err := readHealth(answer); err == nil {
		r.Self, r.Uptime = words.Node, time.Duration(words.Uptime)*time.Second
	}
	return nil
}

// checkBanner waits for the first words of a node's SSH server. A connection alone proves little: something between may
// take it.
func (c *Cluster) checkBanner(ctx context.Context, host Host) error {
	conn, err := c.dial(ctx, "tcp", address(host, cmp.Or(host.Node().SSHPort, 22)))
	if err != nil {
		return fmt.Errorf("its SSH server does not answer: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.options.ProbeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.ReadFull(conn, make([]byte, len("SSH-"))); err != nil {
		return fmt.Errorf("its SSH server takes connections and says nothing: %w", err)
	}
	return nil
}
