package simhive

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports of a node's services.
const (
	natsPort          = 4222
	clusterPort       = 4248
	monitorPort       = 8222
	gatewayPort       = 9999
	storePort         = 8443
	storeDatabasePort = 6660 // its raft is a thousand above
	storeShardPort    = 9991 // UDP
)

// natsConf is nats.conf.
func (p *program) natsConf(n installed) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	tls := fmt.Sprintf("tls {\n  cert_file: %q\n  key_file: %q\n  ca_file: %q\n}",
		n.config("server.pem"), n.config("server.key"), n.config("ca.pem"))
	line("listen: %s:%d", n.Bind, natsPort)
	if p.settings.spx() {
		line("\n%s", tls)
	}
	if len(n.bundle.Nodes) > 1 {
		line("\ncluster {\n  name: %s\n  listen: %s:%d", n.Credentials.ClusterName, n.ClusterBind, clusterPort)
		scheme := "nats://"
		if p.settings.spx() {
			line("%s", tls)
			scheme = "nats-route://" + n.Credentials.NATSToken + "@"
		}
		line("  routes = [")
		for _, name := range n.names() {
			line("    \"%s%s:%d\",", scheme, n.bundle.Nodes[name].ClusterIP, clusterPort)
		}
		line("  ]\n}")
	}
	comment := "#" // the early era leaves NATS open
	if p.settings.spx() {
		comment = ""
	}
	line("\nserver_name: %s-nats-%s", p.settings.name(), n.Node)
	line("\nauthorization {\n%s  token: %q\n}", comment, n.Credentials.NATSToken)
	line("\njetstream {\n  store_dir: %q\n}", n.data("nats/"))
	line("\nlogtime: true\nlog_file: %q\nmax_connections: 1000", filepath.Join(p.logDirectory(n.layout), "nats.log"))
	line("http: %s:%d", p.monitorIP(n.Bind), monitorPort)
	return b.String()
}

// monitorIP is where NATS monitoring listens: on the node's address in the early era, on 127.0.0.1 later. A node that
// lives on a loopback address itself keeps it, because several such nodes share one loopback interface.
func (p *program) monitorIP(bind string) string {
	if !p.settings.spx() || net.ParseIP(bind).IsLoopback() {
		return bind
	}
	return "127.0.0.1"
}

// natsOptions are what NATS is told, by nats.conf or by the environment.
type natsOptions struct {
	Listen      string // clients
	Cluster     string // name, empty without other nodes
	ClusterAddr string
	Routes      []string // host:port of all nodes' clusters, the own one among them
	Name        string
	Token       string
	CertFile    string // with it, clients and routes speak TLS
	KeyFile     string
	CAFile      string
	Store       string
	Log         string
	Monitor     string
}

// readNATSConf reads as much of NATS' language as nats.conf above uses.
func readNATSConf(path string) (natsOptions, error) {
	var o natsOptions
	text, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, "{"):
			section += "." + strings.TrimSpace(strings.TrimSuffix(line, "{"))
		case line == "}":
			section = section[:max(0, strings.LastIndexByte(section, '.'))]
		default:
			o.take(section, line)
		}
	}
	if o.Listen == "" {
		return o, fmt.Errorf("%s has no listen address", path)
	}
	return o, nil
}

func (o *natsOptions) take(section, line string) {
	if route, ok := strings.CutPrefix(strings.TrimSuffix(line, ","), `"nats`); ok {
		if parsed, err := url.Parse("nats" + strings.TrimSuffix(route, `"`)); err == nil {
			o.Routes = append(o.Routes, parsed.Host)
		}
		return
	}
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if unquoted, err := strconv.Unquote(value); err == nil {
		value = unquoted
	}
	for name, field := range map[string]*string{
		".listen": &o.Listen, ".http": &o.Monitor, ".server_name": &o.Name, ".log_file": &o.Log,
		".cluster.name": &o.Cluster, ".cluster.listen": &o.ClusterAddr,
		".authorization.token": &o.Token, ".jetstream.store_dir": &o.Store,
		".tls.cert_file": &o.CertFile, ".tls.key_file": &o.KeyFile, ".tls.ca_file": &o.CAFile,
	} {
		if section+"."+strings.TrimSpace(key) == name {
			*field = value
		}
	}
}
