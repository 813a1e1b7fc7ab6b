package pvectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hive-test/pkg/process"
	"hive-test/pkg/sim/awsprovider"
	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/provider"
	"hive-test/pkg/sim/pve"
)

const (
	infoSchema = 1
	lockPoll   = 20 * time.Millisecond
	// lockWait bounds how long serve waits for its predecessor to let go of the directory.
	lockWait = 10 * time.Second
)

func (o *options) infoFile() string { return filepath.Join(o.dir, "sim.json") }

func (o *options) serveLock() *flock.Flock { return flock.New(filepath.Join(o.dir, "serve.lock")) }

// serve runs the simulator until ctx is done or it has been idle for long.
func (o *options) serve(ctx context.Context, std Streams) (err error) {
	report := func(err error) error { return err }
	if o.background {
		report = process.Ready
	}
	if err := o.checkID(); err != nil {
		return report(err)
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return report(fmt.Errorf("make the simulator's directory: %w", err))
	}
	lock := o.serveLock()
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if ok, err := lock.TryLockContext(waiting, lockPoll); err != nil || !ok {
		return report(fmt.Errorf("another simulator runs in %s", o.dir))
	}
	defer func() { _ = lock.Unlock() }()
	return o.serveLocked(ctx, std, report)
}

func (o *options) serveLocked(ctx context.Context, std Streams, report func(error) error) (err error) {
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	bin, err := o.installBinaries(o.self)
	if err != nil {
		return report(err)
	}
	kind := host.Kind(o.hosts)
	if o.hosts == "auto" {
		var why string
		if kind, why, err = host.Detect(ctx, o.hosts); err != nil {
			return report(err)
		}
		log.Info("hosts", "kind", string(kind), "why", why)
	}
	machines, err := host.NewManager(ctx, host.Options{
		Kind: kind, Dir: filepath.Join(o.dir, "hosts"), Self: bin.self, Hide: []string{o.dir}, BootDelay: o.bootDelay,
		Log: log,
	})
	if err != nil {
		return report(err)
	}
	defer func() { err = errors.Join(err, machines.Close()) }()
	server, err := pve.New(pve.Options{
		Dir: filepath.Join(o.dir, "pve"), Version: o.version, Nodes: o.nodes(), Machines: machines, Log: log,
		TaskDuration: orNone(o.taskDuration), AuthDelay: orNone(o.authDelay), AgentTimeout: orNone(o.agentTimeout),
		HADelay: orNone(o.haDelay), ResourcesLag: o.resourcesLag,
	})
	if err == nil && o.faults != "" {
		err = addFaults(server, o.faults)
	}
	if err != nil {
		return report(err)
	}
	// The server must outlive ctx for a moment: it is closed, not cut off.
	endpoint, err := server.Start(context.WithoutCancel(ctx))
	if err != nil {
		return report(err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	id, err := o.identify()
	if err == nil {
		err = o.writeInfo(id, endpoint, machines, bin)
	}
	if err != nil {
		return report(err)
	}
	defer func() { _ = os.Remove(o.infoFile()) }()
	_ = report(nil)
	log.Info("ready", "endpoint", endpoint.URL, "hosts", string(kind), "pve", o.version, "pid", os.Getpid())
	o.waitForEnd(ctx, server, log)
	return nil
}

// orNone keeps a zero from meaning the default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func addFaults(server *pve.Server, file string) error {
	b, err := pve.ReadFaults(file)
	if err != nil {
		return err
	}
	return server.AddFaults(b)
}

func (o *options) nodes() []pve.NodeSpec {
	nodes := pve.DefaultNodes(o.hypervisors)
	for i := range nodes {
		nodes[i].Cores, nodes[i].MemoryGB, nodes[i].StorageGB = o.nodeCores, o.nodeMemoryGB, o.nodeStoreGB
	}
	return nodes
}

// lookEvery is the longest time between two looks at whether the simulator is still wanted.
const lookEvery = 2 * time.Second

// waitForEnd returns when ctx is done, when nobody has used the simulator for long, or when its directory is gone:
// nobody could find, stop or use it any more.
func (o *options) waitForEnd(ctx context.Context, server *pve.Server, log *slog.Logger) {
	every := lookEvery
	if o.idle > 0 {
		every = max(min(o.idle/10, every), 10*time.Millisecond)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := os.Stat(o.infoFile()); errors.Is(err, fs.ErrNotExist) {
			log.Info("the simulator's directory is gone: ending")
			return
		}
		if o.idle > 0 && server.Idle() >= o.idle {
			log.Info("idle without a VM: ending", "after", o.idle.String())
			return
		}
	}
}

func (o *options) writeInfo(id string, e pve.Endpoint, machines *host.Manager, bin binaries) error {
	b, err := json.MarshalIndent(Info{
		Schema: infoSchema, PID: os.Getpid(), ID: id, Endpoint: e.URL, Token: e.Token, CAFile: e.CAFile,
		HostsKind: string(machines.Kind()), PVEVersion: o.version, Hypervisors: e.Hypervisors, SSHUser: e.SSHUser,
		SSHPrivateKey: e.SSHPrivateKey, NodeSSHPort: machines.SSHPort(), ProviderMirror: bin.mirror,
		HiveBinary: bin.hive,
		OSImage:    pve.SeedImage, Networks: machines.Networks(),
	}, "", "  ")
	if err == nil {
		err = renameio.WriteFile(o.infoFile(), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write how the simulator is reached: %w", err)
	}
	return nil
}

// readInfo reads what a running simulator has written; nil if there is none.
func (o *options) readInfo() (*Info, error) {
	b, err := os.ReadFile(o.infoFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read how the simulator is reached: %w", err)
	}
	var i Info
	if err := json.Unmarshal(b, &i); err != nil {
		return nil, fmt.Errorf("read how the simulator is reached from %s: %w", o.infoFile(), err)
	}
	return &i, nil
}

// providerVersion is the release that the provider double stands for.
const providerVersion = provider.Version

// awsVersion is the one of the double of AWS's provider.
const awsVersion = awsprovider.Version
