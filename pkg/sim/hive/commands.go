package simhive

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

// layout is where one node keeps its files.
type layout struct {
	ConfigDir string
	DataDir   string
}

func (l layout) config(name string) string { return filepath.Join(l.ConfigDir, name) }
func (l layout) data(name string) string   { return filepath.Join(l.DataDir, name) }

// options are the flags of init and join; each registers those that the real one of its era has.
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
	NoExternal       bool
	ExternalMode     string
}

// defaultServices are those of a node that names none, in the order in which they start.
func defaultServices() []string {
	return []string{"nats", "predastore", "viperblock", "daemon", "awsgw", "vpcd", "ui"}
}

// command makes a command that keeps what it ends with: only wrong usage is for cobra to print.
func (p *program) command(use, short string, run func() error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Run: func(*cobra.Command, []string) { p.outcome = run() }}
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{Use: p.settings.binary(), Short: "The simulated hive"}
	flags := root.PersistentFlags()
	flags.String("config", "", "config file")
	for _, name := range []string{
		"access-key", "secret-key", "host", "base-dir", "nats-host", "nats-token", "nats-subject",
	} {
		flags.String(name, "", "takes the place of the environment and the config file")
	}
	flags.String("config-dir", p.defaultLayout().ConfigDir, "Configuration directory")
	flags.String(p.settings.name()+"-dir", p.defaultLayout().DataDir, "Base directory")

	admin := &cobra.Command{Use: "admin", Short: "Administrative commands"}
	admin.AddCommand(p.initCommand(), p.joinCommand())
	get := &cobra.Command{Use: "get", Short: "Display cluster resources"}
	get.PersistentFlags().Duration("timeout", realGatherStatuses, "Timeout for collecting responses from nodes")
	get.AddCommand(p.nodesCommand())
	root.AddCommand(admin, get, p.serviceCommand(), p.command("version", "Print the version", p.version))
	return root
}

// defaultLayout is where a node's files are when nobody says otherwise: below /etc and /var/lib where a simulated host
// was set up that way, else in the home directory. The early era looks for that only as root.
func (p *program) defaultLayout() layout {
	name := p.settings.name()
	if root := p.hostRoot(); p.systemWide() {
		return layout{ConfigDir: filepath.Join(root, "etc", name), DataDir: filepath.Join(root, "var/lib", name)}
	}
	data := filepath.Join(p.home, name)
	return layout{ConfigDir: filepath.Join(data, "config"), DataDir: data}
}

func (p *program) systemWide() bool {
	root := p.hostRoot()
	return root != "" && (p.settings.spx() || p.isRoot()) && exists(filepath.Join(root, "etc", p.settings.name()))
}

// logDirectory is where NATS of a node keeps its log: the later era has another place for that on a system-wide node,
// wherever its data is.
func (p *program) logDirectory(l layout) string {
	if p.settings.spx() && p.systemWide() {
		return filepath.Join(p.hostRoot(), "var/log", p.settings.name())
	}
	return l.data("logs")
}

func (p *program) version() error {
	if err := p.injected("version"); err != nil {
		return err
	}
	p.say(
		"%s %s (simulated-%s) %s/%s", p.settings.name(), p.settings.Version, p.settings.Era, runtime.GOOS,
		runtime.GOARCH,
	)
	return nil
}

// nodeFlags are those that init and join of both eras share.
func (p *program) nodeFlags(c *cobra.Command, o *options) {
	flags := c.Flags()
	flags.StringVar(&o.Region, "region", "ap-southeast-2", "Region of this node")
	flags.StringVar(&o.AZ, "az", "ap-southeast-2a", "Availability zone of this node")
	flags.IntVar(&o.Port, "port", 4432, "Port of the daemon and of formation")
	flags.StringVar(&o.Bind, "bind", "0.0.0.0", "IP address to listen on")
	flags.StringVar(&o.ClusterBind, "cluster-bind", "", "IP address for NATS among nodes")
	flags.String("cluster-routes", "", "NATS of other nodes, separated by commas")
	flags.StringSliceVar(&o.Services, "services", nil, "Services of this node (default: all)")
	if p.settings.spx() {
		flags.StringVar(&o.Advertise, "advertise", "", "IP address that others dial")
		flags.String("email", "", "Address of the operator")
		flags.Bool("no-telemetry", false, "Send nothing home")
	}
}

func (p *program) initCommand() *cobra.Command {
	var o options
	var formation, ttl string
	c := &cobra.Command{Use: "init", Short: "Initialize this node, and the cluster with it"}
	c.Run = func(c *cobra.Command, _ []string) {
		o.ConfigDir, _ = c.Flags().GetString("config-dir")
		o.DataDir, _ = c.Flags().GetString(p.settings.name() + "-dir")
		if p.outcome = o.durations(formation, ttl); p.outcome == nil {
			p.outcome = p.adminInit(o)
		}
	}
	flags := c.Flags()
	p.nodeFlags(c, &o)
	flags.BoolVar(&o.Force, "force", false, "Initialize again, whatever is there")
	flags.StringVar(&o.Node, "node", "node1", "Name of this node")
	flags.IntVar(&o.Nodes, "nodes", 3, "Number of nodes of the cluster")
	flags.StringVar(&o.Host, "host", "", "Not used")
	flags.StringVar(&formation, "formation-timeout", "10m", "How long to wait for all nodes")
	flags.StringVar(&o.ClusterName, "cluster-name", p.settings.name(), "Name of the NATS cluster")
	flags.String("predastore-nodes", "", "IP addresses of the object store's nodes, separated by commas")
	if p.settings.spx() {
		flags.StringVar(&ttl, "token-ttl", "30m", "How long the join token is valid")
		flags.BoolVar(&o.NoExternal, "no-external", false, "No external network")
		flags.StringVar(&o.ExternalMode, "external-mode", "", "External network: pool, or nothing")
		for _, name := range []string{
			"external-iface", "external-source", "external-pool", "external-gateway", "gateway-ip",
		} {
			flags.String(name, "", "Of the external network")
		}
		flags.Int("external-prefix-len", 24, "Of the external network")
	}
	return c
}

// durations reads the flags that the real program takes as text.
func (o *options) durations(formation, ttl string) (err error) {
	if o.FormationTimeout, err = time.ParseDuration(formation); err != nil {
		return fmt.Errorf("❌ Error: Invalid --formation-timeout: %w", err)
	}
	if ttl == "" {
		return nil
	}
	if o.TokenTTL, err = time.ParseDuration(ttl); err != nil {
		return fmt.Errorf("❌ Error: Invalid --token-ttl: %w", err)
	}
	return nil
}

// joinCommand: its data directory is --data-dir, unlike init's. The global flag for it is listed in its help, taken and
// ignored, as in the real one.
func (p *program) joinCommand() *cobra.Command {
	var o options
	c := &cobra.Command{Use: "join", Short: "Make this node one of a cluster that is being formed"}
	c.Run = func(c *cobra.Command, _ []string) {
		o.ConfigDir, _ = c.Flags().GetString("config-dir")
		if o.DataDir == "" {
			o.DataDir = p.defaultLayout().DataDir
		}
		p.outcome = p.adminJoin(o)
	}
	flags := c.Flags()
	p.nodeFlags(c, &o)
	flags.StringVar(&o.Node, "node", "", "Name of this node (required)")
	flags.StringVar(&o.Host, "host", "", "host:port of the formation server (required)")
	flags.StringVar(&o.DataDir, "data-dir", "", "Data directory of this node (default: ~/"+p.settings.name()+")")
	required := []string{"node", "host"}
	if p.settings.spx() {
		flags.StringVar(&o.Token, "token", "", "Join token from the first node (required)")
		required = append(required, "token")
	}
	for _, name := range required {
		if err := c.MarkFlagRequired(name); err != nil {
			p.outcome = err
		}
	}
	return c
}

func (o *options) check() error {
	if net.ParseIP(o.Bind) == nil {
		return fmt.Errorf("❌ Error: Invalid IP address for --bind: %s", o.Bind)
	}
	if o.Port < 1 || o.Port > 65535 {
		return fmt.Errorf("❌ Error: Port must be between 1 and 65535, got: %d", o.Port)
	}
	if o.ClusterBind == "" {
		o.ClusterBind = o.Bind
	}
	o.ConfigDir, o.DataDir = filepath.Clean(o.ConfigDir), filepath.Clean(o.DataDir)
	return nil
}

func (o options) member() member {
	return member{
		Name: o.Node, BindIP: o.Bind, ClusterIP: o.ClusterBind, Region: o.Region, AZ: o.AZ, Port: o.Port,
		Advertise: o.Advertise,
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
