package simhive

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// adminInit makes this node the first of a cluster. With several nodes it blocks as the formation server until all have
// joined or time is up.
func (p *program) adminInit(args []string) error {
	var o options
	if err := p.parse(p.initFlags(&o), args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := p.injected("init"); err != nil {
		return err
	}
	if exists(o.config("hive.toml")) && !o.Force {
		p.say("Hive is already initialized in %s (use --force to initialize it again)", o.ConfigDir)
		return nil
	}
	if p.settings.spx() && o.TokenTTL < o.FormationTimeout+time.Minute {
		return fmt.Errorf("Error: --token-ttl %s must be at least --formation-timeout plus 1m", o.TokenTTL)
	}
	ca, masterKey, err := p.clusterKeys(o)
	if err != nil {
		return err
	}
	b := bundle{
		CACert: string(ca.Cert), CAKey: string(ca.Key), MasterKey: masterKey,
		NATSToken: p.settings.secret("nats_token", func() string { return randomText(32, lowerAlnum) }), ClusterName: o.ClusterName,
		Credentials: p.newCredentials(o.Region),
	}
	if p.manyNodes(o) {
		return p.form(o, b)
	}
	b.Nodes = map[string]member{o.Node: o.member()}
	if err := p.writeNode(o.layout, o.Node, b); err != nil {
		return err
	}
	p.printCredentials(b.Credentials)
	p.say("Hive node %s initialized!", o.Node)
	return nil
}

// manyNodes tells whether init forms a cluster: the early era silently makes a single node when --bind is left open.
func (p *program) manyNodes(o options) bool {
	return o.Nodes > 1 && (p.settings.spx() || o.Bind != "0.0.0.0")
}

func (o options) member() member {
	return member{
		Name: o.Node, BindIP: o.Bind, ClusterIP: o.ClusterBind, Region: o.Region, AZ: o.AZ,
		Port: o.Port, Services: o.Services, Advertise: o.Advertise,
	}
}

// clusterKeys makes the CA and the master key. The early era overwrites those that are there; the later one keeps them.
func (p *program) clusterKeys(o options) (authority, string, error) {
	if p.settings.spx() && exists(o.config("ca.key")) && exists(o.config("master.key")) {
		return readKeys(o.layout)
	}
	ca, err := newAuthority(ownAddresses(o.Bind, o.Advertise))
	if err != nil {
		return authority{}, "", err
	}
	masterKey := p.settings.secret("master_key", func() string {
		raw := make([]byte, 32)
		rand.Read(raw) // never fails
		return base64.StdEncoding.EncodeToString(raw)
	}) + "\n"
	err = errors.Join(
		writeFile(o.config("ca.pem"), ca.Cert, 0o644),
		writeFile(o.config("ca.key"), ca.Key, 0o600),
		writeFile(o.config("master.key"), []byte(masterKey), 0o600),
	)
	return ca, masterKey, err
}

func readKeys(l layout) (authority, string, error) {
	cert, errCert := os.ReadFile(l.config("ca.pem"))
	key, errKey := os.ReadFile(l.config("ca.key"))
	master, errMaster := os.ReadFile(l.config("master.key"))
	return authority{Cert: cert, Key: key}, string(master), errors.Join(errCert, errKey, errMaster)
}

func (p *program) printCredentials(c credentials) {
	if p.settings.spx() {
		p.say("Admin credentials are in ~/.aws/credentials, profile %s", p.settings.profile())
		return
	}
	p.say("Access Key: %s\nSecret Key: %s", c.AccessKeyID, c.SecretAccessKey)
}

// form runs the formation server to its end.
func (p *program) form(o options, b bundle) error {
	address := net.JoinHostPort(o.Bind, strconv.Itoa(o.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("Error: failed to start formation server: %w", err)
	}
	token, err := p.joinToken(o)
	if err != nil {
		listener.Close()
		return err
	}
	defer os.Remove(o.config("join-token")) // it is valid no longer than this server
	f := newFormation(p.settings.Era, o.Nodes, token, o.member())
	server := &http.Server{Handler: f.handler(), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	defer server.Close()
	if p.settings.spx() {
		listener, err = serveTLS(listener, []byte(b.CACert), []byte(b.CAKey))
		if err != nil {
			return err
		}
	}
	go server.Serve(listener) // ends with server.Close
	p.say("Formation server started on %s\nWaiting for %d nodes to join...", address, o.Nodes-1)
	select {
	case <-f.complete:
	case <-time.After(o.FormationTimeout):
		return fmt.Errorf("Error: formation timed out after %s: %d/%d nodes joined", o.FormationTimeout, len(f.members()), o.Nodes)
	}
	return p.finishFormation(o, f, b)
}

func serveTLS(listener net.Listener, cert, key []byte) (net.Listener, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}), nil
}

func (p *program) joinToken(o options) (string, error) {
	if !p.settings.spx() {
		return "", nil
	}
	token := "spx_join_" + p.settings.secret("join_token", func() string { return randomText(16, lowerAlnum) })
	if err := writeFile(o.config("join-token"), []byte(token+"\n"), 0o600); err != nil {
		return "", err
	}
	p.say("Join token: %s", token)
	return token, nil
}

func (p *program) finishFormation(o options, f *formation, b bundle) error {
	p.say("All %d nodes joined!", o.Nodes)
	p.printCredentials(b.Credentials)
	if !p.settings.spx() {
		// The early era makes the admin's key a second time after it was printed: what was printed never works.
		b.Credentials = p.newCredentials(o.Region)
	}
	b.Nodes = f.members()
	if err := p.writeNode(o.layout, o.Node, b); err != nil {
		return err
	}
	f.finish(b)
	p.grace(o, f)
	p.say("Cluster formation complete!")
	return nil
}

// grace keeps the server up so that joiners can read the bundle: real hive sleeps 15 seconds. A shortened grace is
// prolonged, within those 15 seconds, until every joiner has read it, so that a busy machine loses none.
func (p *program) grace(o options, f *formation) {
	short := o.grace
	if short == 0 {
		short = p.settings.scaled(realGrace)
	}
	time.Sleep(short)
	ctx, cancel := context.WithTimeout(context.Background(), max(0, realGrace-short))
	defer cancel()
	for !f.served() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}
