package simhive

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// storeConfig is predastore.toml, as far as it is read.
type storeConfig struct {
	Database []struct {
		ID   int    `toml:"id"`
		Host string `toml:"host"`
		Port int    `toml:"port"`
	} `toml:"db"`
	Nodes []struct {
		ID   int    `toml:"id"`
		Host string `toml:"host"`
		Port int    `toml:"port"`
	} `toml:"nodes"`
	Auth []struct {
		AccessKey string `toml:"access_key_id"`
		SecretKey string `toml:"secret_access_key"`
	} `toml:"auth"`
	IAM *struct {
		URL       string `toml:"nats_url"`
		Token     string `toml:"nats_token"`
		MasterKey string `toml:"master_key_path"`
	} `toml:"iam"`
}

// runStore is `service predastore start`, the object store.
func (p *program) runStore() error {
	p.say("Starting predastore service...")
	for _, needed := range [][2]string{
		{"base-path", "Base path"}, {"config-path", "Config path"}, {"tls-cert", "TLS cert"}, {"tls-key", "TLS key"},
	} {
		if p.setting(needed[0]) == "" {
			return p.unset(needed[1])
		}
	}
	if err := p.writePID(p.setting("base-path"), "predastore"); err != nil {
		return p.failStart("predastore", err)
	}
	if err := p.openStore(); err != nil {
		p.logf("ERROR Failed to create predastore server error=%q", err)
		return p.failStart("predastore", err)
	}
	p.untilTerminated()
	p.logf("INFO Shutting down predastore service")
	time.Sleep(pause)
	return nil
}

func (p *program) openStore() error {
	text, err := os.ReadFile(p.setting("config-path"))
	var config storeConfig
	if err == nil {
		if err = toml.Unmarshal(text, &config); err != nil {
			err = fmt.Errorf("Error parsing %s %w", p.setting("config-path"), err)
		}
	}
	if err != nil {
		return fmt.Errorf("failed to initialize server: failed to read config: %w", err)
	}
	if err := p.storeKeys(config); err != nil {
		return fmt.Errorf("failed to initialize server: failed to initialize credential provider: "+
			"IAM configured but NATS provider failed to initialize: connect to NATS: %w", err)
	}
	if err := p.openStoreNode(config, p.number("node-id")); err != nil {
		return err
	}
	// The API's port is opened behind the service's back: where it is taken, the service goes on without.
	listener, err := listenTLS(
		net.JoinHostPort(p.setting("host"), p.setting("port")), p.setting("tls-cert"), p.setting("tls-key"),
	)
	if err != nil {
		p.logf("ERROR Server error error=%q", err)
		return nil
	}
	go serveHTTP(listener, store{p, config}, p.logf)
	return nil
}

// storeKeys connects to NATS as the later era's store does at its start, once: with the system's certificates, because
// it knows of no CA of its own.
func (p *program) storeKeys(config storeConfig) error {
	if !p.settings.spx() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	bus, err := p.dialIAM(ctx, config)
	if err == nil {
		bus.close()
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// errNoIAM means that predastore.toml has no IAM.
var errNoIAM = errors.New("no IAM is configured")

func (p *program) dialIAM(ctx context.Context, config storeConfig) (*link, error) {
	if config.IAM == nil {
		return nil, errNoIAM
	}
	server, err := url.Parse(config.IAM.URL)
	if err != nil {
		return nil, err
	}
	o := busOptions{token: config.IAM.Token, trust: p.systemTrust(), hello: hello{Name: "predastore-iam"}}
	bus, _, err := dialBus(ctx, dialTarget(server.Host), o)
	return bus, err
}

// openStoreNode opens the ports of this node's part of a store that spans the nodes.
func (p *program) openStoreNode(config storeConfig, id int) error {
	for _, database := range config.Database {
		if database.ID != id {
			continue
		}
		for _, port := range []int{database.Port, database.Port + 1000} {
			listener, err := net.Listen("tcp", net.JoinHostPort(database.Host, strconv.Itoa(port)))
			if err != nil {
				return err
			}
			go accept(listener, func(conn net.Conn) { conn.Close() })
		}
	}
	for _, node := range config.Nodes {
		if node.ID != id {
			continue
		}
		conn, err := net.ListenPacket("udp", net.JoinHostPort(node.Host, strconv.Itoa(node.Port)))
		if err != nil {
			return err
		}
		go func() {
			for buffer := make([]byte, 1500); ; {
				if _, _, err := conn.ReadFrom(buffer); err != nil {
					return
				}
			}
		}()
	}
	if id == 0 && len(config.Database) > 0 {
		p.logf("ERROR Distributed mode requires -node flag when nodes have different hosts")
	}
	return nil
}

// storeError is an answer of the object store that refuses something.
type storeError struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// storeBuckets is the list of an account's buckets.
type storeBuckets struct {
	XMLName xml.Name `xml:"ListAllMyBucketsResult"`
	Owner   struct {
		ID          string
		DisplayName string
	}
	Buckets struct{}
}

// store is the object store's API. Nobody has a bucket, and none can be made. Statuses and codes are predastore's
// (s3/httpserver.go).
type store struct {
	program *program
	config  storeConfig
}

// secretOf reads an access key's secret from the records that all nodes share. The earlier era's store knows the keys of
// its configuration alone, and so not the administrator's (measured).
func (s store) secretOf(accessKey string) (string, error) {
	if !s.program.settings.spx() {
		for _, key := range s.config.Auth {
			if key.AccessKey == accessKey {
				return key.SecretKey, nil
			}
		}
		return "", errUnknownKey
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	bus, err := s.program.dialIAM(ctx, s.config)
	if err != nil {
		return "", err
	}
	defer bus.close()
	masterKey, err := os.ReadFile(s.config.IAM.MasterKey)
	if err != nil {
		return "", err
	}
	return secretFrom(ctx, bus.call, masterKey, accessKey)
}

// ServeHTTP answers one call.
func (s store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer := s.ask(r)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(answer)
}

func (s store) ask(r *http.Request) (status int, answer any) {
	if r.Header.Get("Authorization") != "" && r.Method == http.MethodPut { // clients sign what they upload in parts
		return http.StatusNotImplemented, storeError{Code: "NotImplemented", Message: "the simulated object store keeps nothing"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return http.StatusBadRequest, storeError{Code: "IncompleteBody", Message: err.Error()}
	}
	_, refusal := verify(r, body, s.secretOf, time.Now())
	switch {
	case refusal == nil:
	case refusal.code == "InvalidClientTokenId" && !s.program.settings.spx():
		return http.StatusForbidden, storeError{Code: "AccessDenied", Message: "Invalid access key"}
	case refusal.code == "InvalidClientTokenId":
		return http.StatusForbidden, storeError{Code: "InvalidAccessKeyId", Message: "The AWS Access Key Id you provided does not exist in our records"}
	case refusal.status == http.StatusInternalServerError:
		return refusal.status, storeError{Code: "InternalError", Message: "the keys cannot be read"}
	case refusal.code == "SignatureDoesNotMatch":
		return http.StatusForbidden, storeError{Code: "AccessDenied", Message: "The request signature does not match"}
	default:
		return http.StatusForbidden, storeError{Code: "AccessDenied", Message: "Access Denied"}
	}
	if r.URL.Path == "/" && r.Method == http.MethodGet {
		list := storeBuckets{}
		list.Owner.DisplayName = "Predastore"
		return http.StatusOK, list
	}
	return http.StatusNotFound, storeError{Code: "NoSuchBucket", Message: "The specified bucket does not exist"}
}

// runViperblock is `service viperblock start`, which needs its plugin for nbdkit.
func (p *program) runViperblock() error {
	return p.withConfig("viperblock", func(config nodeConfig, _ []byte) error {
		plugin := p.setting("plugin-path")
		switch {
		case plugin == "":
			p.logf("ERROR plugin-path must be defined")
			return exitError{code: 1}
		case !exists(plugin):
			p.logf("ERROR plugin-path does not exist: %s", plugin)
			return exitError{code: 1}
		}
		if err := p.writePID(p.setting("base-dir"), "viperblock"); err != nil {
			return p.failStart("viperblock", err)
		}
		return p.stayConnected("viperblock", config.self(), nil)
	})
}

// runVPC is `service vpcd start`, which needs Open vSwitch and OVN on the node.
func (p *program) runVPC() error {
	return p.withConfig("vpcd", func(config nodeConfig, _ []byte) error {
		if err := p.writePID(p.setting("base-dir"), "vpcd"); err != nil {
			return p.failStart("vpcd", err)
		}
		if !p.settings.OVN {
			err := errors.New("OVN preflight failed: br-int does not exist: run ./scripts/setup-ovn.sh --management")
			p.logf("ERROR OVN preflight check failed — vpcd cannot start without OVN err=%q", err)
			p.logf("ERROR Failed to launch vpcd service err=%q", err)
			return p.failStart("vpcd", err)
		}
		return p.stayConnected("vpcd", config.self(), []string{dhcpTopic})
	})
}

// stayConnected is a service that does nothing but hold its connection to NATS.
func (p *program) stayConnected(name string, self nodeEntry, topics []string) error {
	o, err := p.busOf(self, name, topics, nil)
	if err != nil {
		return p.failStart(name, err)
	}
	o.answer = func(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil }
	b, err := p.connectBus(context.Background(), o)
	if err != nil {
		return p.failStart(name, err)
	}
	p.logf("INFO %s service started", name)
	p.untilTerminated()
	b.close()
	time.Sleep(pause)
	return nil
}

// runUI is `service hive-ui start`, or spinifex-ui.
func (p *program) runUI() error {
	name := p.settings.name() + "-ui"
	p.say("Starting %s service...", name)
	cert, key := p.setting("ui-tls-cert"), p.setting("ui-tls-key")
	if cert == "" || key == "" {
		cert, key = p.defaultLayout().config("server.pem"), p.defaultLayout().config("server.key")
	}
	if err := p.writePID("", name); err != nil {
		return p.failStart(name, err)
	}
	if !exists(cert) {
		return p.failStart(name, fmt.Errorf("certificate file not found: %s", cert))
	}
	listener, err := listenTLS(net.JoinHostPort(p.setting("ui-host"), p.setting("ui-port")), cert, key)
	if err != nil {
		return p.failStart(name, err)
	}
	go serveHTTP(listener, http.NotFoundHandler(), p.logf)
	p.untilTerminated()
	time.Sleep(pause)
	return nil
}
