package simhive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Ports of a node's services.
const (
	clusterPort = 4248
	monitorPort = 8222
	gatewayPort = 9999
)

// daemon is one node's services in one process.
type daemon struct {
	layout
	program *program
	config  nodeConfig
	hash    string
	started time.Time
	peers   *peers
	gateway *gateway
}

// daemon serves this node until it is killed. `start` runs it; it is no part of the real program.
func (p *program) daemon(args []string) error {
	var o options
	if err := p.parse(p.flagSet("daemon", &o), args); err != nil {
		return err
	}
	d, err := p.newDaemon(o.layout)
	if err != nil {
		return err
	}
	servers, err := d.listen()
	if err != nil {
		return fmt.Errorf("Error: %w", err)
	}
	ended := make(chan error)
	for listener, handler := range servers {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(p.stderr, "", log.LstdFlags)}
		go func() { ended <- server.Serve(listener) }()
	}
	d.peers.watch()
	if err := d.announce(); err != nil {
		return err
	}
	return <-ended
}

func (p *program) newDaemon(l layout) (*daemon, error) {
	config, text, err := readConfig(l)
	if err != nil {
		return nil, err
	}
	keys, err := adoptCredentials(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	d := &daemon{
		layout: l, program: p, config: config,
		hash: hex.EncodeToString(sum[:]), started: time.Now(),
	}
	d.gateway = &gateway{keys: map[string]credentials{keys.AccessKeyID: keys}, daemon: d}
	d.peers = newPeers(d)
	return d, nil
}

// adoptCredentials takes over bootstrap.json, which the gateway consumes at its first start.
func adoptCredentials(l layout) (credentials, error) {
	var keys credentials
	bootstrap, store := l.config("bootstrap.json"), l.DataDir+"/awsgw/keys.json"
	data, err := os.ReadFile(bootstrap)
	if err == nil {
		if err = writeFile(store, data, 0o600); err == nil {
			err = os.Remove(bootstrap)
		}
	} else {
		data, err = os.ReadFile(store)
	}
	if err != nil {
		return keys, fmt.Errorf("Error: read the gateway's keys: %w", err)
	}
	return keys, json.Unmarshal(data, &keys)
}

// listen opens all ports before anything is served, so that a taken one ends the start.
func (d *daemon) listen() (map[net.Listener]http.Handler, error) {
	self, spx := d.config.self(), d.program.settings.spx()
	servers := map[net.Listener]http.Handler{}
	for _, s := range []struct {
		ip      string
		port    int
		tls     bool
		handler http.Handler
	}{
		{self.BindIP, self.Port, spx, d.managerHandler()},
		{self.ClusterIP, clusterPort, false, d.peers.handler()},
		{d.monitorIP(), monitorPort, false, d.peers.monitorHandler()},
		{self.BindIP, gatewayPort, true, d.gateway},
	} {
		listener, err := net.Listen("tcp", net.JoinHostPort(s.ip, strconv.Itoa(s.port)))
		if err == nil && s.tls {
			listener, err = d.secure(listener)
		}
		if err != nil {
			return nil, fmt.Errorf("listen on port %d: %w", s.port, err)
		}
		servers[listener] = s.handler
	}
	return servers, nil
}

func (d *daemon) secure(listener net.Listener) (net.Listener, error) {
	cert, errCert := os.ReadFile(d.layout.config("server.pem"))
	key, errKey := os.ReadFile(d.layout.config("server.key"))
	if err := errors.Join(errCert, errKey); err != nil {
		return nil, err
	}
	return serveTLS(listener, cert, key)
}

// monitorIP is where NATS monitoring listens: on the node's address in the early era, on 127.0.0.1 later. A node that
// lives on a loopback address itself keeps it, because several such nodes share one loopback interface.
func (d *daemon) monitorIP() string {
	bind := d.config.self().BindIP
	if !d.program.settings.spx() || net.ParseIP(bind).IsLoopback() {
		return bind
	}
	return "127.0.0.1"
}

// announce writes pid files and a first line into every service's log.
func (d *daemon) announce() error {
	var problems []error
	for _, name := range pidNames(d.config.self().Services) {
		if name != "hive" {
			line := fmt.Sprintf("%s %s of %s is served by the simulated hive daemon (pid %d)\n",
				time.Now().UTC().Format(time.RFC3339), name, d.config.Node, os.Getpid())
			problems = append(problems, appendFile(d.logs(name+".log"), line))
		}
		problems = append(problems, writeFile(d.logs(name+".pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644))
	}
	log.New(d.program.stderr, "", log.LstdFlags).Printf("node %s listens, %d nodes configured", d.config.Node, len(d.config.Nodes))
	return errors.Join(problems...)
}

func appendFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// faults are the settings as they are now, so that tests can break a running node.
func (d *daemon) faults() Settings {
	settings, err := loadSettings(d.program.settingsFiles(), d.program.env)
	if err != nil {
		return d.program.settings
	}
	return settings
}

// status is "running" once the start-up time is over and a quorum of nodes has been heard; like the real one it then
// says nothing more about peers.
func (d *daemon) status() string {
	if d.faults().NeverRunning || time.Since(d.started) < d.program.settings.scaled(realStart) || !d.peers.hadQuorum() {
		return "starting"
	}
	return "running"
}

type healthResponse struct {
	Node          string            `json:"node"`
	Status        string            `json:"status"`
	ConfigHash    string            `json:"config_hash"`
	Epoch         int               `json:"epoch"`
	Uptime        int64             `json:"uptime"`
	Services      []string          `json:"services"`
	ServiceHealth map[string]string `json:"service_health"`
}

func (d *daemon) managerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		faults := d.faults()
		if faults.HealthStatus != 0 && faults.HealthStatus != http.StatusOK {
			writeJSON(w, faults.HealthStatus, map[string]string{"error": "failed to compute config hash"})
			return
		}
		writeJSON(w, http.StatusOK, d.health(faults))
	})
	return mux
}

// health reports every configured service as "ok" whatever happens, as the early era does.
func (d *daemon) health(faults Settings) healthResponse {
	answer := healthResponse{
		Node: d.config.Node, Status: d.status(), ConfigHash: d.hash, Epoch: d.config.Epoch,
		Uptime: int64(time.Since(d.started).Seconds()), Services: d.config.self().Services,
		ServiceHealth: map[string]string{"br-int": "missing", "ovn-controller": "not_running"},
	}
	if faults.WrongName != "" {
		answer.Node = faults.WrongName
	}
	for _, service := range answer.Services {
		answer.ServiceHealth[service] = "ok"
	}
	return answer
}
