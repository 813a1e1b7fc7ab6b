package simhive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Topics that daemons answer.
const (
	statusTopic = "node.status"
	typesTopic  = "ec2.DescribeInstanceTypes"
	dhcpTopic   = "vpc.dhcp.acquire" // vpcd's
)

// hostReserve is how many CPUs the later era keeps for itself.
const hostReserve = 2

// daemon is `service hive start`, or spinifex: the node's manager.
type daemon struct {
	program *program
	config  nodeConfig
	hash    string
	started time.Time
	bus     *bus
	ready   atomic.Bool
}

func (p *program) runDaemon() error {
	name := p.settings.name()
	return p.withConfig(name, func(config nodeConfig, text []byte) error {
		err := p.writePID(p.setting("base-dir"), name)
		if err == nil {
			sum := sha256.Sum256(text)
			d := &daemon{program: p, config: config, hash: hex.EncodeToString(sum[:]), started: time.Now()}
			err = d.run()
		}
		if err != nil {
			p.logf("WARN Failed to start daemon err=%q", err)
			return p.failStart(name, err)
		}
		return nil
	})
}

func (d *daemon) run() error {
	p := d.program
	if p.settings.spx() && p.settings.CPUs <= hostReserve {
		p.logf(
			"ERROR host below minimum reserve — daemon refuses to start vcpu=%d reserveVCPU=%d", p.settings.CPUs,
			hostReserve,
		)
		return fmt.Errorf(
			"validate host reserve: host has %d vCPU, reserve needs more than %d", p.settings.CPUs, hostReserve,
		)
	}
	o, err := p.busOf(d.config.self(), "daemon", []string{statusTopic, typesTopic}, d.answer)
	if err != nil {
		return fmt.Errorf("failed to connect to NATS: %w", err)
	}
	ctx := context.Background()
	if d.bus, err = p.connectBus(ctx, o); err != nil {
		return fmt.Errorf("failed to connect to NATS: %w", err)
	}
	if err := d.manage(); err != nil {
		return fmt.Errorf("failed to start cluster manager: %w", err)
	}
	d.start(ctx)
	// Until here a signal just kills, as the real one sets its handler up late.
	ended, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	d.ready.Store(true)
	p.logf("INFO Daemon fully initialized node=%s", d.config.Node)
	<-ended.Done()
	d.shutdown()
	return nil
}

// manage opens the daemon's port.
func (d *daemon) manage() error {
	p, host := d.program, d.config.self().Daemon.Host
	if host == "" {
		return errors.New("daemon.host not configured")
	}
	var listener net.Listener
	var err error
	if p.settings.spx() {
		directory := filepath.Dir(p.setting("config"))
		listener, err = listenTLS(host, filepath.Join(directory, "server.pem"), filepath.Join(directory, "server.key"))
	} else {
		listener, err = net.Listen("tcp", host)
	}
	if err != nil {
		return err
	}
	go serveHTTP(listener, d.managerHandler(), p.logf)
	return nil
}

// start does what has to be done before the node is running: most NATS must be there, the own object store is waited
// for, but not for ever, and a network that needs vpcd costs time without it.
func (d *daemon) start(ctx context.Context) {
	p := d.program
	for !d.bus.quorum(ctx) {
		time.Sleep(20 * time.Millisecond)
	}
	for end := time.Now().Add(p.settings.scaled(realStorePatience)); time.Now().Before(end) && !d.storeAnswers(); {
		time.Sleep(20 * time.Millisecond)
	}
	if d.config.Network.ExternalMode == "pool" {
		d.acquire(ctx)
	}
	time.Sleep(p.settings.scaled(realStart) - time.Since(d.started))
}

// acquire asks vpcd for an address until it answers or the attempts are used up.
func (d *daemon) acquire(ctx context.Context) {
	attempts := d.program.settings.DHCPRetries
	for i := range attempts {
		if len(d.bus.gather(ctx, dhcpTopic, time.Second)) > 0 {
			return
		}
		d.program.logf("WARN dhcp acquire NATS request failed, retrying attempt=%d maxAttempts=%d err=%q",
			i+1, attempts, "nats: no responders available for request")
		time.Sleep(time.Second)
	}
}

func (d *daemon) storeAnswers() bool {
	host := d.config.self().Predastore.Host
	if host == "" {
		return true
	}
	conn, err := net.DialTimeout("tcp", dialTarget(host), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// shutdown writes the node's state before it ends. Without NATS that takes its time, and is in vain.
func (d *daemon) shutdown() {
	p := d.program
	p.logf("INFO Received shutdown signal, cleaning up...")
	time.Sleep(80 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), seconds(p.settings.StopTimeout))
	defer cancel()
	state := keyed{Key: "instance-state." + d.config.Node, Value: json.RawMessage(`{}`)}
	if err := d.bus.call(ctx, "put", state, nil); err != nil {
		p.logf("ERROR Failed to write state err=\"failed to write state to JetStream: %v\"", err)
	}
	p.logf("INFO Shutdown complete")
}

// answer is what a daemon says to whoever asks all of them.
func (d *daemon) answer(_ context.Context, topic string, _ json.RawMessage) (any, error) {
	if !d.ready.Load() || d.program.faults().NeverRunning {
		return nil, errors.New("nats: no responders available for request")
	}
	switch topic {
	case statusTopic:
		self := d.config.self()
		return nodeStatus{
			Node: d.config.Node, Status: "Ready", Host: self.Host, Region: self.Region, AZ: self.AZ,
			Uptime: int64(time.Since(d.started).Seconds()), Services: self.services(),
		}, nil
	case typesTopic:
		return nodeTypes{Node: d.config.Node, Types: d.types(), Free: d.free()}, nil
	}
	return nil, errors.New("no such topic")
}

// types are those that fit what is free of the node.
func (d *daemon) types() []instanceTypeItem {
	types := []instanceTypeItem{}
	for _, t := range instanceTypes() {
		if !d.program.settings.spx() {
			t.Placements = nil // that era has no placement groups
		}
		if t.VCPUs <= d.free() {
			types = append(types, t)
		}
	}
	return types
}

// free is how many of the node's CPUs no guest has.
func (d *daemon) free() int {
	s := d.program.faults()
	free := s.CPUs - s.UsedCPUs
	if s.spx() {
		free -= hostReserve
	}
	return free
}

// nodeStatus is what one daemon tells of its node.
type nodeStatus struct {
	Node     string   `json:"node"`
	Status   string   `json:"status"`
	Host     string   `json:"host"`
	Region   string   `json:"region"`
	AZ       string   `json:"az"`
	Uptime   int64    `json:"uptime"`
	Services []string `json:"services"`
}

type nodeTypes struct {
	Node  string             `json:"node"`
	Types []instanceTypeItem `json:"types"`
	Free  int                `json:"free"` // CPUs
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
		faults := d.program.faults()
		time.Sleep(seconds(faults.HealthDelay))
		if faults.HealthStatus != 0 && faults.HealthStatus != http.StatusOK {
			writeJSON(w, faults.HealthStatus, map[string]string{"error": "failed to compute config hash"})
			return
		}
		writeJSON(w, http.StatusOK, d.health(faults))
	})
	return mux
}

// health reports every configured service as "ok" whatever happens, and the node as running once it was, as the real
// one does: it says nothing of peers, of NATS or of other services.
func (d *daemon) health(faults Settings) healthResponse {
	answer := healthResponse{
		Node: d.config.Node, Status: "starting", ConfigHash: d.hash, Epoch: d.config.Epoch,
		Uptime: int64(time.Since(d.started).Seconds()), Services: d.config.self().services(),
		ServiceHealth: map[string]string{"br-int": "missing", "ovn-controller": "not_running"},
	}
	if d.ready.Load() && !faults.NeverRunning {
		answer.Status = "running"
	}
	if faults.WrongName != "" {
		answer.Node = faults.WrongName
	}
	if faults.OVN {
		answer.ServiceHealth = map[string]string{"br-int": "ok", "ovn-controller": "ok"}
	}
	for _, service := range answer.Services {
		answer.ServiceHealth[service] = "ok"
	}
	return answer
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// pause is how long a service takes to end after it was told to.
const pause = 100 * time.Millisecond
