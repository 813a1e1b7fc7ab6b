package simhive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Era is which generation of hive is imitated.
type Era string

// The eras. EraPre is hive of March 2026: plain HTTP and no token on the daemon's port, NATS without TLS, NATS
// monitoring on the node's address. EraSpx is spinifex of May 2026: HTTPS and NATS over TLS under the cluster's CA, a
// join token, monitoring on 127.0.0.1 only, other names for program, service, files and variables.
const (
	EraPre Era = "pre"
	EraSpx Era = "spx"
)

// How long things take in real hive, measured on two busy cores; Settings.TimeScale shortens them.
const (
	realGrace          = 15 * time.Second // the formation server stays up after the last join
	realStart          = 10 * time.Second // from the daemon's connection to NATS to "running"
	realPoll           = 2 * time.Second  // a joiner's polling of /formation/status
	realStorePatience  = 2 * time.Minute  // how long a daemon waits for its predastore before it goes on without
	realReconnect      = time.Second      // between attempts of a client of NATS
	realGatherStatuses = 3 * time.Second  // `get nodes` waits that long even when all have answered
	defaultTimeScale   = 0.02             // 0.3 s of grace, 0.2 s of starting
	defaultVersion     = "v0.4.0-sim"
)

// Failure is what a command does instead of its work.
type Failure struct {
	Exit   int    `json:"exit"` // 0 means 1
	Stderr string `json:"stderr"`
	Times  int    `json:"times"` // how often on this node; 0: always
}

// Settings change how the simulated hive behaves. They are merged field by field from the defaults, /etc/hive-sim.json,
// hive-sim.json beside the executable, ~/.hive-sim.json and the environment, later ones winning.
type Settings struct {
	Era       Era     `json:"era"`        // default pre
	TimeScale float64 `json:"time_scale"` // 1 is true to life; default 0.02
	Version   string  `json:"version"`    // what `hive version` names

	// Secrets replace what is made at random, for tests that look for them: join_token (after spx_join_), nats_token,
	// access_key, secret_key, master_key.
	Secrets map[string]string `json:"secrets"`

	// How strict it is. Numbers are seconds and are not scaled, unless it is said.
	// gateways that fill the cluster's records at once: one dies; default true
	SeedRace    bool    `json:"seed_race"`
	SeedWindow  float64 `json:"seed_window"`  // how long the first gateway needs for it; default 0.5
	StopTimeout float64 `json:"stop_timeout"` // what a daemon needs to end when there is no NATS any more; default 10
	StaleRoutes float64 `json:"stale_routes"` // how long a silent peer stays in /routez; default 1, really about 60
	// what a gateway waits for a daemon that it knows and that is silent; default 3
	GatewayWait float64 `json:"gateway_wait"`
	// spx, external network, no vpcd: a daemon's attempts before it runs; default 0, really 60
	DHCPRetries int     `json:"dhcp_retries"`
	Keygen      float64 `json:"keygen"`    // what init needs for its keys, scaled; default 0, really 3 to 18
	OVN         bool    `json:"ovn"`       // the node has Open vSwitch and OVN, so that vpcd starts
	CPUs        int     `json:"cpus"`      // of the node; default 8
	UsedCPUs    int     `json:"used_cpus"` // of them, those that guests have taken
	NoImage     bool    `json:"no_image"`  // no image was imported into the cluster

	// Faults, for tests of those who judge hive.
	Fail          map[string]Failure `json:"fail"`           // by command: init, join, version, get, "service NAME"
	NeverRunning  bool               `json:"never_running"`  // /health stays "starting"
	WrongName     string             `json:"wrong_name"`     // /health names this node instead
	HealthStatus  int                `json:"health_status"`  // /health answers this code
	HealthDelay   float64            `json:"health_delay"`   // /health answers after that many seconds
	GatewayStatus int                `json:"gateway_status"` // the gateway answers this code to everything
	NoPeers       bool               `json:"no_peers"`       // NATS neither dials nor accepts other nodes' NATS
}

func (p *program) settingsFiles() []string {
	return []string{
		"/etc/hive-sim.json",
		filepath.Join(filepath.Dir(p.executable), "hive-sim.json"),
		filepath.Join(p.home, ".hive-sim.json"),
	}
}

func loadSettings(files []string, env map[string]string) (Settings, error) {
	s := Settings{
		Era: EraPre, TimeScale: defaultTimeScale, Version: defaultVersion,
		SeedRace: true, SeedWindow: 0.5, StopTimeout: 10, StaleRoutes: 1, GatewayWait: 3, CPUs: 8,
	}
	for _, file := range files {
		if err := s.mergeFile(file); err != nil {
			return s, err
		}
	}
	if era := env["HIVE_SIM_ERA"]; era != "" {
		s.Era = Era(era)
	}
	if scale := env["HIVE_SIM_TIME_SCALE"]; scale != "" {
		value, err := strconv.ParseFloat(scale, 64)
		if err != nil {
			return s, fmt.Errorf("HIVE_SIM_TIME_SCALE is %q: give a number such as 0.02", scale)
		}
		s.TimeScale = value
	}
	return s, s.validate()
}

func (s *Settings) mergeFile(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the simulated hive's settings: %w", err)
	}
	if err := json.Unmarshal(data, s); err != nil {
		return fmt.Errorf("read the simulated hive's settings in %s: %w", file, err)
	}
	return nil
}

func (s *Settings) validate() error {
	if s.Era != EraPre && s.Era != EraSpx {
		return fmt.Errorf("the simulated hive knows the eras pre and spx, not %q", s.Era)
	}
	if s.TimeScale <= 0 {
		return fmt.Errorf("the simulated hive's time scale is %v: it must be above 0", s.TimeScale)
	}
	return nil
}

// scaled is how long something that takes real time in real hive takes here.
func (s *Settings) scaled(real time.Duration) time.Duration {
	return time.Duration(float64(real) * s.TimeScale)
}

// secret is the value that is set for a name, or made.
func (s *Settings) secret(name string, made func() string) string {
	if value := s.Secrets[name]; value != "" {
		return value
	}
	return made()
}

func (s *Settings) spx() bool { return s.Era == EraSpx }

// name is what hive of this era calls itself: its daemon, its directory, its AWS profile and its cluster.
func (s *Settings) name() string {
	if s.spx() {
		return "spinifex"
	}
	return "hive"
}

// binary is the name of the program.
func (s *Settings) binary() string {
	if s.spx() {
		return "spx"
	}
	return "hive"
}

// prefix is what the era's environment variables begin with.
func (s *Settings) prefix() string { return strings.ToUpper(s.name()) + "_" }

// configName is the name of a node's configuration file.
func (s *Settings) configName() string { return s.name() + ".toml" }

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
