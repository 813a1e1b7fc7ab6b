package simhive

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// layout is where one node keeps its files.
type layout struct {
	ConfigDir string
	DataDir   string
}

func (l layout) config(name string) string { return filepath.Join(l.ConfigDir, name) }
func (l layout) logs(name string) string   { return filepath.Join(l.DataDir, "logs", name) }

// options are the flags of all subcommands; each registers those that the real one has.
type options struct {
	layout
	Force            bool
	Node             string
	Nodes            int
	Host             string
	Port             int
	Bind             string
	Advertise        string
	ClusterBind      string
	Region, AZ       string
	ClusterName      string
	Token            string
	Services         []string
	FormationTimeout time.Duration
	TokenTTL         time.Duration
	JoinTimeout      time.Duration
	grace            time.Duration
}

// services of a node in the order in which they start.
func defaultServices() []string {
	return []string{"nats", "predastore", "viperblock", "daemon", "awsgw", "vpcd", "ui"}
}

func (p *program) flagSet(name string, o *options) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(p.stderr)
	flags.SortFlags = false
	flags.StringVar(&o.ConfigDir, "config-dir", filepath.Join(p.home, "hive", "config"), "configuration directory")
	for _, alias := range []string{"hive-dir", "spinifex-dir", "data-dir"} {
		flags.StringVar(&o.DataDir, alias, filepath.Join(p.home, "hive"), "data directory")
	}
	p.settings.addFlags(flags)
	return flags
}

func (p *program) nodeFlags(name string, o *options) *pflag.FlagSet {
	flags := p.flagSet(name, o)
	flags.StringVar(&o.Region, "region", "ap-southeast-2", "region")
	flags.StringVar(&o.AZ, "az", "ap-southeast-2a", "availability zone")
	flags.IntVar(&o.Port, "port", 4432, "port of the daemon and of formation")
	flags.StringVar(&o.Bind, "bind", "0.0.0.0", "address to listen on")
	flags.StringVar(&o.Advertise, "advertise", "", "address that others dial")
	flags.StringVar(&o.ClusterBind, "cluster-bind", "", "address for cluster traffic (default --bind)")
	flags.StringSliceVar(&o.Services, "services", defaultServices(), "services of this node")
	flags.String("cluster-routes", "", "ignored with several nodes")
	flags.Bool("no-telemetry", false, "send nothing home (the simulated hive never does)")
	flags.String("email", "", "contact")
	flags.Bool("skip-host-dns", false, "leave the resolver alone")
	flags.String("predastore-compaction-interval", "", "ignored")
	return flags
}

func (p *program) initFlags(o *options) *pflag.FlagSet {
	flags := p.nodeFlags("init", o)
	flags.BoolVar(&o.Force, "force", false, "initialize again")
	flags.StringVar(&o.Node, "node", "node1", "name of this node")
	flags.IntVar(&o.Nodes, "nodes", 3, "number of nodes")
	flags.StringVar(&o.Host, "host", "", "unused")
	flags.DurationVar(&o.FormationTimeout, "formation-timeout", 10*time.Minute, "how long to wait for all nodes")
	flags.DurationVar(&o.TokenTTL, "token-ttl", 30*time.Minute, "how long the join token is valid")
	flags.StringVar(&o.ClusterName, "cluster-name", p.settings.profile(), "name of the cluster")
	flags.String("predastore-nodes", "", "ignored with several nodes")
	flags.DurationVar(&o.grace, "sim-grace", 0, "how long the formation server stays up after the last join")
	for _, ignored := range []string{"external-mode", "external-iface", "external-source", "external-pool",
		"external-gateway", "external-prefix-len", "gateway-ip", "external-bind-bridge"} {
		flags.String(ignored, "", "ignored")
	}
	flags.Bool("ipsec", true, "ignored")
	flags.Bool("gpu-passthrough", false, "ignored")
	return flags
}

func (p *program) joinFlags(o *options) *pflag.FlagSet {
	flags := p.nodeFlags("join", o)
	flags.BoolVar(&o.Force, "force", false, "join even if this node is initialized")
	flags.StringVar(&o.Node, "node", "", "name of this node")
	flags.StringVar(&o.Host, "host", "", "host:port of the formation server")
	flags.StringVar(&o.Token, "token", "", "join token")
	flags.DurationVar(&o.JoinTimeout, "join-timeout", 20*time.Minute, "how long to try")
	return flags
}

// parse reads args into flags.
func (p *program) parse(flags *pflag.FlagSet, args []string) error {
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return exitError{}
	} else if err != nil {
		return fmt.Errorf("Error: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("Error: unknown command %q for \"hive %s\"", flags.Arg(0), flags.Name())
	}
	return p.settings.validate()
}

// require refuses flags that were not given.
func require(flags *pflag.FlagSet, names ...string) error {
	missing := slices.DeleteFunc(names, flags.Changed)
	if len(missing) > 0 {
		return fmt.Errorf("Error: required flag(s) \"%s\" not set", strings.Join(missing, `", "`))
	}
	return nil
}

func (o *options) check() error {
	if _, err := netip.ParseAddr(o.Bind); err != nil {
		return fmt.Errorf("Error: --bind %q is not a valid IP address", o.Bind)
	}
	if o.Port < 1 || o.Port > 65535 {
		return fmt.Errorf("Error: --port %d is not between 1 and 65535", o.Port)
	}
	if o.ClusterBind == "" {
		o.ClusterBind = o.Bind
	}
	return nil
}
