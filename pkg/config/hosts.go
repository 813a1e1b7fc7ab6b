package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Hosts is the content of a hosts file: hosts that are already there, for the deployer "existing".
type Hosts struct {
	SSHUser    string
	SSHKeyPath string
	ProxyJump  cluster.JumpHosts
	SSHAgent   string // socket of the nodes' own agent; empty: the user's
	Nodes      cluster.Nodes
	Hash       string // of the file's content, as HashHosts has it
}

// HashHosts is a digest of what a hosts file holds now, by which a change is noticed.
func HashHosts(path string) (string, error) {
	raw, err := os.ReadFile(path)
	return cluster.Hash(string(raw)), err
}

// maxHosts bounds a hosts file: it guards against a wrong file, not against large clusters.
const maxHosts = 100

// HostsFile is the shape of a hosts file. What it leaves out is as the user's ssh_config has it for the nodes, by their
// management address or name; else ssh_user is tf-user, ssh_port 22, and nothing is jumped through. A node's management
// may be a name that the ssh_config or the system knows, and defaults to the node's own; its data address defaults to
// its management address.
type HostsFile struct {
	SSHUser    string     `yaml:"ssh_user,omitempty"`
	SSHKeyPath string     `yaml:"ssh_key_path,omitempty"`
	SSHPort    int        `yaml:"ssh_port,omitempty"`
	ProxyJump  string     `yaml:"proxy_jump,omitempty"`
	Nodes      []HostLine `yaml:"nodes"`
}

// HostLine is a host in a hosts file.
type HostLine struct {
	Name       string `yaml:"name"`
	Management string `yaml:"management,omitempty"`
	Data       string `yaml:"data,omitempty"`
}

// LoadHosts reads a hosts file. Unknown keys, missing addresses and duplicates are errors that name the file (and the
// line where there is one); all of them are reported at once as an *Error. Names are looked up within lookUpLimit.
func LoadHosts(ctx context.Context, path string, ssh SSHConfig) (Hosts, error) {
	raw, err := ReadWithin(ctx, func() ([]byte, error) { return os.ReadFile(path) })
	if ctx.Err() != nil {
		return Hosts{}, err
	}
	if err != nil {
		return Hosts{}, &Error{Problems: []error{fmt.Errorf("hosts file %s cannot be read: %w", path, err)}}
	}
	if _, err := onlyDocument(path, raw); err != nil {
		return Hosts{}, &Error{Problems: []error{err}}
	}
	var file HostsFile
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return Hosts{}, &Error{Problems: yamlProblems(path, raw, err)}
	}
	hosts, problems := file.hosts(ctx, path, ssh)
	if len(problems) > 0 {
		return Hosts{}, &Error{Problems: problems}
	}
	hosts.Hash = cluster.Hash(string(raw))
	return hosts, nil
}

// yamlProblems gives each complaint of the YAML decoder the form file:line: text.
func yamlProblems(path string, raw []byte, err error) []error {
	typed, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return []error{syntaxError(path, raw, err)}
	}
	var problems []error
	for _, complaint := range typed.Errors {
		line, text, _ := strings.Cut(strings.TrimPrefix(complaint, "line "), ": ")
		if field, found := strings.CutPrefix(text, "field "); found {
			field, _, _ = strings.Cut(field, " ")
			text = fmt.Sprintf("unknown key %q: a node has name, management and data; the file has ssh_user, "+
				"ssh_key_path, ssh_port, proxy_jump and nodes", field)
		} else if wrong := wrongShape.FindStringSubmatch(text); wrong != nil {
			text = expected(wrong[2]) + ", not " + shape(wrong[1])
		}
		problems = append(problems, fmt.Errorf("%s:%s: %s", path, line, text))
	}
	return problems
}

// wrongShape is how the decoder says that a value is of another type.
var wrongShape = regexp.MustCompile("(?s)^cannot unmarshal !!(\\w+)(?: `.*`)? into (\\S+)$")

// shape is what values of a YAML tag are, for people.
func shape(tag string) string {
	shapes := map[string]string{
		"str": "a text", "seq": "a list", "map": "a mapping", "int": "a number", "float": "a number",
		"bool": "true or false",
	}
	return cmp.Or(shapes[tag], "that")
}

// expected says what stands where the decoder fills a value of a Go type.
func expected(goType string) string {
	switch goType {
	case "config.HostsFile":
		return "it must be a mapping with nodes: [{name, management, data}]"
	case "[]config.HostLine":
		return "nodes must be a list: [{name, management, data}]"
	case "config.HostLine":
		return "a node must be a mapping: {name, management, data}"
	case "int":
		return "it must be a whole number"
	}
	return "it must be a text"
}

func (f HostsFile) hosts(ctx context.Context, path string, ssh SSHConfig) (Hosts, []error) {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
	}
	if len(f.Nodes) < 1 || len(f.Nodes) > maxHosts {
		problem("it names %s: between 1 and %d are possible", progress.Count(len(f.Nodes), "node"), maxHosts)
	}
	if f.SSHPort < 0 || f.SSHPort > 65535 {
		problem("ssh_port %d is not between 1 and 65535", f.SSHPort)
	}
	hosts := f.login(ssh, problem)
	seen := map[string]string{}
	for i, n := range f.Nodes {
		node := cluster.Node{Name: n.Name, Index: i + 1, SSHPort: f.SSHPort}
		// nothing else is said of what has no name to be said with
		if _, err := cluster.ParseHostName(n.Name); err != nil {
			problem("node %d: %w", i+1, err)
			continue
		}
		if port, err := strconv.Atoi(ssh.get("Port", n.Management, n.Name)); err == nil && node.SSHPort == 0 {
			node.SSHPort = port
		}
		var err error
		if node.Management, err = ssh.address(ctx, cmp.Or(n.Management, n.Name)); err != nil {
			problem("node %d %s: management: %w", i+1, n.Name, err)
		}
		node.Data = node.Management
		if n.Data != "" {
			if node.Data, err = netip.ParseAddr(n.Data); err != nil {
				problem("node %d %s: data %q is not an IP address", i+1, n.Name, n.Data)
			}
		}
		for _, value := range slices.Compact([]string{n.Name, n.Management}) {
			if value != "" && seen[value] != "" {
				problem("%s stands for both %s and %s", value, seen[value], n.Name)
			}
			seen[value] = n.Name
		}
		hosts.Nodes = append(hosts.Nodes, node)
	}
	for _, err := range hosts.Nodes.Validate() {
		problem("%w", err)
	}
	return hosts, problems
}

// login is how all nodes are logged in to.
func (f HostsFile) login(ssh SSHConfig, problem func(format string, args ...any)) Hosts {
	agreed := func(key, setting string) string {
		var values []string
		for _, n := range f.Nodes {
			values = append(values, ssh.get(key, n.Management, n.Name))
		}
		slices.Sort(values)
		if values = slices.Compact(values); len(values) > 1 {
			problem("the nodes have different values of %s in %s: set %s", key, ssh.path, setting)
		}
		return strings.Join(values, "")
	}
	hosts := Hosts{SSHUser: f.SSHUser, SSHKeyPath: f.SSHKeyPath}
	if hosts.SSHUser == "" {
		hosts.SSHUser = cmp.Or(agreed("User", "ssh_user"), cluster.DefaultSSHUser)
	}
	if err := cluster.CheckUser(hosts.SSHUser); err != nil {
		problem("ssh_user: %w", err)
	}
	if hosts.SSHKeyPath == "" {
		if key := agreed("IdentityFile", "ssh_key_path"); key != "" {
			hosts.SSHKeyPath = ssh.expand(key, "", hosts.SSHUser)
		} else if ssh.err != nil {
			problem("ssh_key_path is missing, and %w", ssh.err)
		}
	}
	if hosts.SSHKeyPath == "" {
		problem("ssh_key_path is missing: name the private key that may log in as %s", hosts.SSHUser)
	} else if _, err := os.ReadFile(hosts.SSHKeyPath); err != nil {
		problem("ssh_key_path: %w", err)
	}
	jump := f.ProxyJump
	if jump == "" {
		jump = agreed("ProxyJump", "proxy_jump")
	}
	var err error
	if hosts.ProxyJump, err = ssh.jumps(jump); err != nil {
		problem("proxy_jump: %w", err)
	}
	hosts.SSHAgent = ssh.expand(agreed("IdentityAgent", "ssh.agent_socket"), "", hosts.SSHUser)
	if hosts.SSHAgent == "SSH_AUTH_SOCK" {
		hosts.SSHAgent = ""
	}
	return hosts
}

// lookUpLimit bounds the look-up of a name.
const lookUpLimit = 5 * time.Second

// address is the IP address of a host that is named by it, by an alias of the ssh_config or by a name that the system
// knows.
func (c SSHConfig) address(ctx context.Context, name string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr, nil
	}
	host := cmp.Or(strings.ReplaceAll(c.get("HostName", name), "%h", name), name)
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, nil
	}
	if host == "" {
		return netip.Addr{}, errors.New("an IP address or a name is missing")
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address, and cannot be looked up: %w", name, err)
	}
	return found[0].Unmap(), nil
}
