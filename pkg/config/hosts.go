package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/cluster"
)

// Hosts is the content of a hosts file: hosts that are already there, for the deployer "existing".
type Hosts struct {
	SSHUser    string
	SSHKeyPath string
	Nodes      cluster.Nodes
}

// maxHosts bounds a hosts file: it guards against a wrong file, not against large clusters.
const maxHosts = 100

// hostsFile is the file's shape. ssh_user defaults to tf-user, ssh_port to 22, a node's data address to its management
// address.
type hostsFile struct {
	SSHUser    string `yaml:"ssh_user"`
	SSHKeyPath string `yaml:"ssh_key_path"`
	SSHPort    int    `yaml:"ssh_port"`
	Nodes      []struct {
		Name       string `yaml:"name"`
		Management string `yaml:"management"`
		Data       string `yaml:"data"`
	} `yaml:"nodes"`
}

// LoadHosts reads a hosts file. Unknown keys, missing addresses and duplicates are errors that name the file (and the
// line where there is one); all of them are reported at once as an *Error.
func LoadHosts(path string) (Hosts, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Hosts{}, &Error{Problems: []error{fmt.Errorf("hosts file %s cannot be read: %w", path, err)}}
	}
	var file hostsFile
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return Hosts{}, &Error{Problems: yamlProblems(path, err)}
	}
	hosts, problems := file.hosts(path)
	if len(problems) > 0 {
		return Hosts{}, &Error{Problems: problems}
	}
	return hosts, nil
}

// yamlProblems gives each complaint of the YAML decoder the form file:line: text.
func yamlProblems(path string, err error) []error {
	typed, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	var problems []error
	for _, complaint := range typed.Errors {
		complaint = strings.TrimPrefix(complaint, "line ")
		line, text, _ := strings.Cut(complaint, ": ")
		field, found := strings.CutPrefix(text, "field ")
		if found {
			field, _, _ = strings.Cut(field, " ")
			text = fmt.Sprintf("unknown key %q: a node has name, management and data; the file has ssh_user, ssh_key_path, ssh_port and nodes", field)
		}
		problems = append(problems, fmt.Errorf("%s:%s: %s", path, line, text))
	}
	return problems
}

func (f hostsFile) hosts(path string) (Hosts, []error) {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(path+": "+format, args...))
	}
	hosts := Hosts{SSHUser: f.SSHUser, SSHKeyPath: f.SSHKeyPath}
	if hosts.SSHUser == "" {
		hosts.SSHUser = cluster.DefaultSSHUser
	}
	if hosts.SSHKeyPath == "" {
		problem("ssh_key_path is missing: name the private key that may log in as %s", hosts.SSHUser)
	} else if _, err := os.ReadFile(hosts.SSHKeyPath); err != nil {
		problem("ssh_key_path: %w", err)
	}
	if len(f.Nodes) < 1 || len(f.Nodes) > maxHosts {
		problem("it names %d nodes: between 1 and %d are possible", len(f.Nodes), maxHosts)
	}
	seen := map[string]string{}
	for i, n := range f.Nodes {
		node := cluster.Node{Name: n.Name, Index: i + 1, SSHPort: f.SSHPort}
		if node.Name == "" {
			problem("node %d has no name", i+1)
		}
		var err error
		if node.Management, err = netip.ParseAddr(n.Management); err != nil {
			problem("node %d %s: management %q is not an IP address", i+1, n.Name, n.Management)
		}
		node.Data = node.Management
		if n.Data != "" {
			if node.Data, err = netip.ParseAddr(n.Data); err != nil {
				problem("node %d %s: data %q is not an IP address", i+1, n.Name, n.Data)
			}
		}
		for _, value := range []string{n.Name, n.Management} {
			if value != "" && seen[value] != "" {
				problem("%s stands for both %s and %s", value, seen[value], n.Name)
			}
			seen[value] = n.Name
		}
		hosts.Nodes = append(hosts.Nodes, node)
	}
	return hosts, problems
}
