package simhive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Era is which generation of hive is imitated.
type Era string

// The eras. EraPre is hive of March 2026: plain HTTP and no token on the daemon's port, NATS monitoring on the node's
// address. EraSpx is the later spinifex: HTTPS under the cluster's CA, a join token, monitoring on 127.0.0.1 only.
const (
	EraPre Era = "pre"
	EraSpx Era = "spx"
)

// How long things take in real hive, measured on two busy cores; Settings.TimeScale shortens them.
const (
	realGrace        = 15 * time.Second // the formation server stays up after the last join
	realStart        = 10 * time.Second // from `hive start` to "running"
	realPollPre      = 2 * time.Second  // a joiner's polling of /formation/status
	realPollSpx      = 500 * time.Millisecond
	realJoinRetry    = 5 * time.Second // EraSpx: between attempts to reach the formation server
	defaultTimeScale = 0.02            // 0.3 s of grace, 0.2 s of starting
	defaultVersion   = "v0.4.0-sim"
)

// Failure is what a subcommand does instead of its work.
type Failure struct {
	Exit   int    `json:"exit"` // 0 means 1
	Stderr string `json:"stderr"`
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

	// Faults, for tests of those who judge hive.
	Fail          map[string]Failure `json:"fail"`           // by subcommand: init, join, start, stop, version, get
	NeverRunning  bool               `json:"never_running"`  // /health stays "starting"
	WrongName     string             `json:"wrong_name"`     // /health names this node instead
	HealthStatus  int                `json:"health_status"`  // /health answers this code
	GatewayStatus int                `json:"gateway_status"` // the gateway answers this code to everything
	NoPeers       bool               `json:"no_peers"`       // the daemon neither asks nor answers other daemons
}

func (p *program) settingsFiles() []string {
	return []string{
		"/etc/hive-sim.json",
		filepath.Join(filepath.Dir(p.executable), "hive-sim.json"),
		filepath.Join(p.home, ".hive-sim.json"),
	}
}

func loadSettings(files []string, env map[string]string) (Settings, error) {
	s := Settings{Era: EraPre, TimeScale: defaultTimeScale, Version: defaultVersion}
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

func (s *Settings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&s.Era), "sim-era", string(s.Era), "generation of hive to imitate: pre or spx")
	flags.Float64Var(&s.TimeScale, "sim-time-scale", s.TimeScale, "1 is true to life")
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

// profile is the AWS profile that hive of this era writes.
func (s *Settings) profile() string {
	if s.spx() {
		return "spinifex"
	}
	return "hive"
}
