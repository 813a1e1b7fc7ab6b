package hive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"hive-test/pkg/progress"
)

// Ports of hive's services on a node.
const (
	ManagerPort = 4432 // the daemon, and formation before it runs
	MonitorPort = 8222 // NATS monitoring
	GatewayPort = 9999 // the AWS-like API
)

// Defaults of Options. Real nodes need up to 75 seconds from start to "running", and retry for five minutes.
const (
	DefaultHealthTimeout    = 5 * time.Minute
	DefaultFormationTimeout = 10 * time.Minute
	DefaultCloudInitTimeout = 10 * time.Minute
	DefaultInstallTimeout   = 40 * time.Minute
	DefaultStopTimeout      = time.Minute
)

// cloudInitMarker is the last thing that the vendor data makes on a node.
const cloudInitMarker = "/var/lib/hive-test/cloud-init-done"

// Options say what is installed and how long is waited. Zero durations mean the defaults.
type Options struct {
	// Binary is a local file that becomes ~/hive/bin/hive on every node. Exactly one of Binary and Repo is set, or neither
	// where hive is on the nodes already.
	Binary string
	// Repo is a git URL that hive is built from on every node, at Ref (a branch, tag or commit; empty: the default branch).
	Repo, Ref string
	// ScriptsDir holds node scripts that replace the built-in ones of the same file name.
	ScriptsDir string
	// Force forms the cluster anew, dropping what it holds.
	Force bool
	// SkipCloudInit is for nodes that were not made by hive-test.
	SkipCloudInit bool
	// Secrets learns what the nodes keep secret, as it becomes known: the join token, keys, what hive.toml holds. Nil: nobody
	// wants to know.
	Secrets *progress.Secrets
	// Outside tells of each node, by name, that cannot be alive why that is, as it is known from outside: its VM is stopped. It
	// is asked when a step has failed, and every few seconds while health is waited for. Nil: nothing is known.
	Outside func(context.Context) map[string]string
	// OSEssentials is for nodes that were made without vendor data: what that would have installed and set is done here.
	OSEssentials bool

	HealthTimeout    time.Duration
	FormationTimeout time.Duration
	CloudInitTimeout time.Duration
	InstallTimeout   time.Duration
	StopTimeout      time.Duration
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&o.HealthTimeout, DefaultHealthTimeout},
		{&o.FormationTimeout, DefaultFormationTimeout},
		{&o.CloudInitTimeout, DefaultCloudInitTimeout},
		{&o.InstallTimeout, DefaultInstallTimeout},
		{&o.StopTimeout, DefaultStopTimeout},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	return o
}

// Validate returns every problem of the options at once, or nil. It looks at the local files that they name.
func (o Options) Validate() []error {
	var problems []error
	if o.Binary != "" && o.Repo != "" {
		problems = append(problems, fmt.Errorf("both a binary and a repository are given: use one of --binary and --repo"))
	}
	if o.Ref != "" && o.Repo == "" {
		problems = append(problems, fmt.Errorf("a ref is given without a repository: add --repo URL"))
	}
	if o.Binary != "" {
		if info, err := os.Stat(o.Binary); err != nil {
			problems = append(problems, fmt.Errorf("hive binary: %w", err))
		} else if !info.Mode().IsRegular() {
			problems = append(problems, fmt.Errorf("hive binary %s is not a file", o.Binary))
		}
	}
	if _, err := loadScripts(o.ScriptsDir); err != nil {
		problems = append(problems, err)
	}
	return problems
}

var fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Hash identifies what would be installed and how: equal hashes mean that configuring again would change nothing. It is
// empty where that cannot be known from here, which is the case for a repository whose Ref is not a full commit id.
// Timeouts and Force do not count.
func (o Options) Hash() (string, error) {
	if o.Repo != "" && !fullCommit.MatchString(o.Ref) {
		return "", nil
	}
	scripts, err := loadScripts(o.ScriptsDir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", o.Repo, o.Ref)
	for _, name := range ScriptNames() {
		fmt.Fprintf(sum, "%s %q\n", name, scripts[name])
	}
	if o.OSEssentials {
		fmt.Fprintln(sum, "os essentials")
	}
	if o.Binary != "" {
		file, err := os.Open(o.Binary)
		if err != nil {
			return "", fmt.Errorf("read the hive binary: %w", err)
		}
		defer file.Close()
		if _, err := io.Copy(sum, file); err != nil {
			return "", fmt.Errorf("read the hive binary: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
