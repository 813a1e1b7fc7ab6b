package simhive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// adminInit makes this node the first of a cluster. With several nodes it blocks as the formation server until all have
// joined or time is up.
func (p *program) adminInit(o options) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := p.injected("init"); err != nil {
		return err
	}
	if file := o.config(p.settings.configName()); exists(file) && !o.Force {
		p.say("Hive is already initialized: %s exists (use --force to initialize it again)", file)
		return nil
	}
	p.say("Initializing with bind IP: %s, port: %d", o.Bind, o.Port)
	b, err := p.newCluster(o)
	if err != nil {
		return err
	}
	if p.manyNodes(o) {
		return p.form(o, b)
	}
	b.Nodes = map[string]member{o.Node: o.member()}
	if err := p.writeNode(installed{options: o, bundle: b, ovn: "127.0.0.1"}); err != nil {
		return err
	}
	p.say("Hive initialization complete! Node %s is initialized.", o.Node)
	return nil
}

// manyNodes tells whether init forms a cluster: the early era silently makes a single node when --bind is left open.
func (p *program) manyNodes(o options) bool {
	return o.Nodes > 1 && (p.settings.spx() || o.Bind != "0.0.0.0")
}

// newCluster makes all keys of a cluster and writes those that init writes at once, before any other node is heard of.
// The admin's key is printed there.
func (p *program) newCluster(o options) (bundle, error) {
	b := bundle{MasterKey: p.newMasterKey(), Network: p.externalNetwork(o), Credentials: shared{
		AccessKey: randomKeyID(), SecretKey: randomSecret(), ClusterName: o.ClusterName, Region: o.Region,
		NATSToken: p.settings.secret("nats_token", func() string { return randomText(32, lowerAlnum) }),
	}}
	p.newAdmin(&b.Credentials)
	time.Sleep(p.settings.scaled(seconds(p.settings.Keygen)))
	if err := p.writeBootstrap(o.layout, b.MasterKey, b.Credentials); err != nil {
		return b, err
	}
	p.say("Access Key: %s\nSecret Key: %s", b.Credentials.AdminAccess, b.Credentials.AdminSecret)
	ca, err := clusterCA(o)
	b.CACert, b.CAKey = string(ca.Cert), string(ca.Key)
	return b, err
}

// clusterCA makes the CA and the node's certificate, unless a formation that failed has left all of them behind.
func clusterCA(o options) (authority, error) {
	cert, errCert := os.ReadFile(o.config("ca.pem"))
	key, errKey := os.ReadFile(o.config("ca.key"))
	if !o.Force && errors.Join(errCert, errKey) == nil && exists(o.config("server.pem")) {
		return authority{Cert: cert, Key: key}, nil
	}
	ca, err := newAuthority()
	if err != nil {
		return ca, err
	}
	server, err := ca.issue(o.Node, ownAddresses(o.Bind, o.Advertise))
	return ca, errors.Join(err,
		writeFile(o.config("ca.pem"), ca.Cert, 0o644),
		writeFile(o.config("ca.key"), ca.Key, 0o600),
		writeFile(o.config("server.pem"), server.Cert, 0o644),
		writeFile(o.config("server.key"), server.Key, 0o600),
	)
}

// externalNetwork is what the later era sets up where the node has a default route, unless it is told not to.
func (p *program) externalNetwork(o options) *network {
	gateway := defaultGateway()
	if !p.settings.spx() || o.NoExternal || o.ExternalMode == "" && gateway == "" {
		return nil
	}
	return &network{
		Mode: "pool", Gateway: gateway, VPC: "vpc-" + randomText(17, lowerAlnum),
		Subnet: "subnet-" + randomText(17, lowerAlnum),
	}
}

// defaultGateway is the address that the default route leads to, or nothing.
func defaultGateway() string {
	text, _ := os.ReadFile("/proc/net/route") // elsewhere than on Linux there is none
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[1] != "00000000" || fields[7] != "00000000" {
			continue
		}
		if n, err := strconv.ParseUint(fields[2], 16, 32); err == nil {
			return net.IPv4(byte(n), byte(n>>8), byte(n>>16), byte(n>>24)).String()
		}
	}
	return ""
}

// form runs the formation server to its end.
func (p *program) form(o options, b bundle) error {
	if least := o.FormationTimeout + time.Minute; p.settings.spx() && o.TokenTTL < least {
		return fmt.Errorf("❌ Error: --token-ttl (%s) must be >= --formation-timeout + 1m (%s)", o.TokenTTL, least)
	}
	// The admin's key is made a second time after it was printed: what was printed never works. So is the master key.
	p.newAdmin(&b.Credentials)
	b.MasterKey = p.newMasterKey()
	if err := p.writeBootstrap(o.layout, b.MasterKey, b.Credentials); err != nil {
		return err
	}
	token, err := p.joinToken(o)
	if err != nil {
		return err
	}
	address := net.JoinHostPort(o.Bind, strconv.Itoa(o.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("❌ Error starting formation server: %w", err)
	}
	defer os.Remove(o.config("join-token")) // it is valid no longer than this server
	f := newFormation(p.settings.Era, o.Nodes, token, o.member())
	server := &http.Server{Handler: f.handler(), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	defer server.Close()
	if p.settings.spx() {
		if listener, err = serveTLS(listener, []byte(b.CACert), []byte(b.CAKey)); err != nil {
			return err
		}
	}
	go server.Serve(listener) // ends with server.Close
	p.say("Formation server started on %s\nWaiting for %d more node(s) to join...", address, o.Nodes-1)
	select {
	case <-f.complete:
	case <-time.After(o.FormationTimeout):
		return fmt.Errorf(
			"❌ formation timed out after %s: %d/%d nodes joined", o.FormationTimeout, len(f.members()), o.Nodes,
		)
	}
	return p.finishFormation(o, f, b)
}

func serveTLS(listener net.Listener, cert, key []byte) (net.Listener, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}),
		nil
}

func (p *program) joinToken(o options) (string, error) {
	if !p.settings.spx() {
		return "", nil
	}
	token := "spx_join_" + p.settings.secret("join_token", func() string { return randomText(16, lowerAlnum) })
	if err := writeFile(o.config("join-token"), []byte(token), 0o600); err != nil {
		return "", err
	}
	p.say("Join token: %s", token)
	return token, nil
}

func (p *program) finishFormation(o options, f *formation, b bundle) error {
	p.say("All %d nodes joined!", o.Nodes)
	b.Nodes = f.members()
	if err := p.writeNode(installed{options: o, bundle: b, ovn: "127.0.0.1"}); err != nil {
		return err
	}
	f.finish(b)
	p.grace(f)
	p.say("Cluster formation complete!")
	return nil
}

// grace keeps the server up so that joiners can read the bundle: real hive sleeps 15 seconds. A shortened grace is
// prolonged, within those 15 seconds, until every joiner has read it, so that a busy machine loses none.
func (p *program) grace(f *formation) {
	short := p.settings.scaled(realGrace)
	time.Sleep(short)
	ctx, cancel := context.WithTimeout(context.Background(), max(0, realGrace-short))
	defer cancel()
	for !f.served() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}
