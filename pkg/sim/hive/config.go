package simhive

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"
)

// member is one node as the formation server knows it.
type member struct {
	Name      string   `json:"name"`
	BindIP    string   `json:"bind_ip"`
	ClusterIP string   `json:"cluster_ip"`
	Region    string   `json:"region"`
	AZ        string   `json:"az"`
	Port      int      `json:"port"`
	Services  []string `json:"services,omitempty"`
	Advertise string   `json:"advertise_ip,omitempty"`
}

// nodeConfig is hive.toml or spinifex.toml, as far as the services read it. Only the own node's entry is whole.
type nodeConfig struct {
	Epoch   int                  `toml:"epoch"`
	Node    string               `toml:"node"`
	Network networkConfig        `toml:"network"`
	Nodes   map[string]nodeEntry `toml:"nodes"`
}

type networkConfig struct {
	ExternalMode string `toml:"external_mode"`
}

type nodeEntry struct {
	Host     string   `toml:"host"`
	Region   string   `toml:"region"`
	AZ       string   `toml:"az"`
	Services []string `toml:"services"`
	Daemon   struct {
		Host string `toml:"host"`
	} `toml:"daemon"`
	AWSGW struct {
		Host    string `toml:"host"`
		TLSCert string `toml:"tlscert"`
		TLSKey  string `toml:"tlskey"`
	} `toml:"awsgw"`
	NATS struct {
		Host   string `toml:"host"`
		CACert string `toml:"cacert"`
		ACL    struct {
			Token string `toml:"token"`
		} `toml:"acl"`
	} `toml:"nats"`
	Predastore struct {
		Host string `toml:"host"`
	} `toml:"predastore"`
}

// self is this node's own entry.
func (c nodeConfig) self() nodeEntry { return c.Nodes[c.Node] }

func (e nodeEntry) services() []string {
	if len(e.Services) == 0 {
		return defaultServices()
	}
	return e.Services
}

// bundle is everything that a complete formation hands to a node.
type bundle struct {
	Nodes       map[string]member `json:"nodes"`
	Credentials shared            `json:"credentials"`
	CACert      string            `json:"ca_cert"`
	CAKey       string            `json:"ca_key"`
	MasterKey   []byte            `json:"master_key"`
	Network     *network          `json:"network_config,omitempty"`
}

// shared are the keys of a cluster: those of its own services, and the admin's.
type shared struct {
	AccessKey   string `json:"access_key"`
	SecretKey   string `json:"secret_key"`
	AdminAccess string `json:"admin_access_key"`
	AdminSecret string `json:"admin_secret_key"`
	NATSToken   string `json:"nats_token"`
	ClusterName string `json:"cluster_name"`
	Region      string `json:"region"`
}

// network is the cluster's external network.
type network struct {
	Mode    string `json:"external_mode"`
	Gateway string `json:"pool_gateway"`
	VPC     string `json:"bootstrap_vpc_id"`
	Subnet  string `json:"bootstrap_subnet_id"`
}

// writeFile replaces a file atomically; everything of hive's configuration is the owner's alone but certificates.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the directory of %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, data, mode, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// installed is one node of a formed cluster, about to be written.
type installed struct {
	options
	bundle
	ovn string // address of the node with OVN's databases
}

// names are all nodes in string order, as hive orders them (node10 before node2): their places are the object store's
// ids.
func (n installed) names() []string { return slices.Sorted(maps.Keys(n.bundle.Nodes)) }

func (n installed) storeID() int { return slices.Index(n.names(), n.Node) + 1 }

// distributed tells whether the object store spans the nodes: it takes three.
func (n installed) distributed() bool { return len(n.bundle.Nodes) >= 3 }

// writeNode writes the whole configuration of one node of a formed cluster.
func (p *program) writeNode(n installed) error {
	ca := authority{Cert: []byte(n.CACert), Key: []byte(n.CAKey)}
	server, err := ca.issue(n.Node, ownAddresses(n.Bind, n.Advertise))
	if err != nil {
		return err
	}
	err = errors.Join(
		writeFile(n.config("ca.pem"), ca.Cert, 0o644),
		writeFile(n.config("ca.key"), ca.Key, 0o600),
		writeFile(n.config("server.pem"), server.Cert, 0o644),
		writeFile(n.config("server.key"), server.Key, 0o600),
		p.writeBootstrap(n.layout, n.MasterKey, n.Credentials),
		writeFile(n.config("nats/nats.conf"), []byte(p.natsConf(n)), 0o600),
		writeFile(n.config("predastore/predastore.toml"), []byte(p.storeConf(n)), 0o600),
		writeFile(n.config("awsgw/awsgw.toml"), []byte("region = \""+n.Region+"\"\ndebug = false\n"), 0o600),
		p.trust(ca.Cert),
		p.writeAWS(n),
	)
	for _, dir := range []string{"logs", "nats", "predastore", "awsgw", "images", p.settings.name()} {
		err = errors.Join(err, os.MkdirAll(n.data(dir), 0o750))
	}
	if err != nil {
		return err
	}
	// last: it marks an initialized node
	return writeFile(n.config(p.settings.configName()), []byte(p.nodeConf(n)), 0o600)
}

// nodeConf is hive.toml or spinifex.toml.
func (p *program) nodeConf(n installed) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	version := "1.0"
	if p.settings.spx() {
		version = "2"
	}
	line("version = %q\nepoch = 1\nnode = %q", version, n.Node)
	if w := n.Network; w != nil {
		line("\n[network]\nexternal_mode = %q\nexternal_dhcp = true", w.Mode)
		line(
			"\n[[network.external_pools]]\nname = \"wan\"\nsource = \"dhcp\"\ngateway = %q\nprefix_len = 24", w.Gateway,
		)
		line("\n[bootstrap]\naccount_id = %q\nvpc_id = %q\nsubnet_id = %q", adminAccount, w.VPC, w.Subnet)
	}
	p.ownConf(n, line)
	for _, name := range n.names() {
		if m := n.bundle.Nodes[name]; name != n.Node {
			line("\n[nodes.%s]\nnode = %[1]q\nhost = %q\nregion = %q\naz = %q", name, m.BindIP, m.Region, m.AZ)
		}
	}
	return b.String()
}

// ownConf is the own node's part of it, which is the only one that is whole.
func (p *program) ownConf(n installed, line func(format string, args ...any)) {
	line("\n[nodes.%s]\nnode = %[1]q\nhost = %q", n.Node, n.Bind)
	if p.settings.spx() && n.Advertise != "" {
		line("advertise = %q", n.Advertise)
	}
	line("region = %q\naz = %q", n.Region, n.AZ)
	if len(n.Services) > 0 {
		line("services = [\"%s\"]", strings.Join(n.Services, `", "`))
	}
	line("account_id = %q", systemAccount)
	at := func(port int) string { return n.Bind + ":" + strconv.Itoa(port) }
	const tls = "tlskey = \"config/server.key\"\ntlscert = \"config/server.pem\""
	line("\n[nodes.%s.daemon]\nhost = %q\n%s", n.Node, at(n.Port), tls)
	line("\n[nodes.%s.awsgw]\nhost = %q\n%s\nconfig = \"awsgw/awsgw.toml\"", n.Node, at(gatewayPort), tls)
	line("\n[nodes.%s.nats]\nhost = %q", n.Node, at(natsPort))
	if p.settings.spx() {
		line("cacert = %q", n.config("ca.pem"))
	}
	line("\n[nodes.%s.nats.acl]\ntoken = %q\n\n[nodes.%[1]s.nats.sub]", n.Node, n.Credentials.NATSToken)
	line("\n[nodes.%s.viperblock]\nshardwal = false", n.Node)
	line("\n[nodes.%s.vpcd]\novn_nb_addr = \"tcp:%s:6641\"\novn_sb_addr = \"tcp:%[2]s:6642\"", n.Node, n.ovn)
	line("\n[nodes.%s.predastore]\nhost = %q\nregion = %q\nbucket = \"predastore\"\naccesskey = %q\nsecretkey = %q",
		n.Node, at(storePort), n.Region, n.Credentials.AccessKey, n.Credentials.SecretKey)
	if n.distributed() {
		line("node_id = %d", n.storeID())
	}
}

// storeConf is predastore.toml.
func (p *program) storeConf(n installed) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(
		"version = \"1.0\"\nregion = %q\nhost = \"0.0.0.0\"\nport = %d\n\n[rs]\ndata = 2\nparity = 1", n.Region,
		storePort,
	)
	if n.distributed() {
		for i, name := range n.names() {
			line("\n[[db]]\nid = %d\nhost = %q\nport = %d\naccess_key_id = %q\nsecret_access_key = %q",
				i+1, n.bundle.Nodes[name].BindIP, storeDatabasePort, n.Credentials.AccessKey, n.Credentials.SecretKey)
		}
		for i, name := range n.names() {
			line("\n[[nodes]]\nid = %d\nhost = %q\nport = %d", i+1, n.bundle.Nodes[name].BindIP, storeShardPort)
		}
	}
	line("\n[[auth]]\naccess_key_id = %q\nsecret_access_key = %q", n.Credentials.AccessKey, n.Credentials.SecretKey)
	if p.settings.spx() {
		line("\n[iam]\nnats_url = \"nats://%s:%d\"\nnats_token = %q", n.Bind, natsPort, n.Credentials.NATSToken)
		line("master_key_path = %q", n.config("master.key"))
	}
	return b.String()
}

// readConfig reads the file that a service was told of. One that is not there is no failure, in the real program
// either.
func (p *program) readConfig(path string) (nodeConfig, []byte, error) {
	var config nodeConfig
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(p.stderr, "Config file not found: %s, using environment variables and defaults\n", path)
		return config, nil, nil
	}
	if err != nil {
		return config, nil, fmt.Errorf("error reading config file: %w", err)
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return config, nil, fmt.Errorf("error reading config file: While parsing config: %w", err)
	}
	return config, text, nil
}

// writeAWS puts the admin's key into the profile of ~/.aws, leaving other profiles alone.
func (p *program) writeAWS(n installed) error {
	profile := p.settings.name()
	endpoint := n.Bind
	if endpoint == "0.0.0.0" {
		endpoint = "localhost"
	}
	return errors.Join(
		replaceSection(filepath.Join(p.home, ".aws", "credentials"), profile, [][2]string{
			{"aws_access_key_id", n.Credentials.AdminAccess},
			{"aws_secret_access_key", n.Credentials.AdminSecret},
		}),
		replaceSection(filepath.Join(p.home, ".aws", "config"), "profile "+profile, [][2]string{
			{"region", n.Credentials.Region},
			{"endpoint_url", "https://" + endpoint + ":" + strconv.Itoa(gatewayPort)},
			{"ca_bundle", n.config("ca.pem")},
			{"output", "json"},
		}),
	)
}

// replaceSection rewrites one section of an ini file.
func replaceSection(path, section string, pairs [][2]string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "[") {
			inside = strings.TrimSpace(line) == "["+section+"]"
		}
		if !inside {
			kept.WriteString(line)
		}
	}
	fmt.Fprintf(&kept, "[%s]\n", section)
	for _, pair := range pairs {
		fmt.Fprintf(&kept, "%s = %s\n", pair[0], pair[1])
	}
	return writeFile(path, []byte(kept.String()), 0o600)
}
