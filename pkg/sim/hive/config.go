package simhive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"
)

// member is one node as hive.toml and the formation server know it.
type member struct {
	Name      string   `json:"name" toml:"-"`
	BindIP    string   `json:"bind_ip" toml:"host"`
	ClusterIP string   `json:"cluster_ip" toml:"cluster_host"`
	Region    string   `json:"region" toml:"region"`
	AZ        string   `json:"az" toml:"az"`
	Port      int      `json:"port" toml:"port"`
	Services  []string `json:"services" toml:"services"`
	Advertise string   `json:"advertise_ip,omitempty" toml:"advertise,omitempty"`
}

// dialIP is the address that other nodes use.
func (m member) dialIP() string {
	if m.Advertise != "" {
		return m.Advertise
	}
	return m.BindIP
}

// nodeConfig is hive.toml.
type nodeConfig struct {
	Epoch       int               `toml:"epoch"`
	Node        string            `toml:"node"`
	ClusterName string            `toml:"cluster_name"`
	NATS        natsConfig        `toml:"nats"`
	Predastore  storeConfig       `toml:"predastore"`
	Nodes       map[string]member `toml:"nodes"`
}

type natsConfig struct {
	Token string `toml:"token"`
}

type storeConfig struct {
	AccessKey string `toml:"access_key"`
	Secret    string `toml:"secret_key"`
}

// self is this node's own entry.
func (c nodeConfig) self() member { return c.Nodes[c.Node] }

// names are all nodes in string order, as hive orders them (node10 before node2).
func (c nodeConfig) names() []string {
	names := make([]string, 0, len(c.Nodes))
	for name := range c.Nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// bundle is everything that a complete formation hands to a node.
type bundle struct {
	Nodes       map[string]member `json:"nodes"`
	Credentials credentials       `json:"credentials"`
	CACert      string            `json:"ca_cert"`
	CAKey       string            `json:"ca_key"`
	MasterKey   string            `json:"master_key"`
	NATSToken   string            `json:"nats_token"`
	ClusterName string            `json:"cluster_name"`
}

// writeFile replaces a file atomically; everything of hive's configuration is the owner's alone but the CA certificate.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the directory of %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, data, mode, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writeNode writes the whole configuration of one node of a formed cluster.
func (p *program) writeNode(l layout, node string, b bundle) error {
	config := nodeConfig{
		Epoch: 1, Node: node, ClusterName: b.ClusterName, Nodes: b.Nodes,
		NATS:       natsConfig{Token: b.NATSToken},
		Predastore: storeConfig{AccessKey: b.Credentials.AccessKeyID, Secret: b.Credentials.SecretAccessKey},
	}
	own := b.Nodes[node]
	server, err := authority{Cert: []byte(b.CACert), Key: []byte(b.CAKey)}.issue(node, ownAddresses(own.BindIP, own.Advertise))
	if err != nil {
		return err
	}
	text, err := toml.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode hive.toml: %w", err)
	}
	bootstrap, err := json.Marshal(b.Credentials)
	if err != nil {
		return fmt.Errorf("encode bootstrap.json: %w", err)
	}
	err = errors.Join(
		writeFile(l.config("ca.pem"), []byte(b.CACert), 0o644),
		writeFile(l.config("ca.key"), []byte(b.CAKey), 0o600),
		writeFile(l.config("master.key"), []byte(b.MasterKey), 0o600),
		writeFile(l.config("server.pem"), server.Cert, 0o644),
		writeFile(l.config("server.key"), server.Key, 0o600),
		writeFile(l.config("bootstrap.json"), bootstrap, 0o600),
		p.writeAWS(l, own, b.Credentials),
	)
	if err != nil {
		return err
	}
	return writeFile(l.config("hive.toml"), text, 0o600) // last: it marks an initialized node
}

func readConfig(l layout) (nodeConfig, []byte, error) {
	var config nodeConfig
	text, err := os.ReadFile(l.config("hive.toml"))
	if err != nil {
		return config, nil, fmt.Errorf("Error: read the node's configuration (run hive admin init or join first): %w", err)
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return config, nil, fmt.Errorf("Error: parse %s: %w", l.config("hive.toml"), err)
	}
	for name, m := range config.Nodes {
		m.Name = name
		config.Nodes[name] = m
	}
	return config, text, nil
}

// writeAWS puts the admin's key into the profile of ~/.aws, leaving other profiles alone.
func (p *program) writeAWS(l layout, own member, c credentials) error {
	profile := p.settings.profile()
	endpoint := own.dialIP()
	if endpoint == "0.0.0.0" {
		endpoint = "127.0.0.1"
	}
	return errors.Join(
		replaceSection(filepath.Join(p.home, ".aws", "credentials"), profile, [][2]string{
			{"aws_access_key_id", c.AccessKeyID},
			{"aws_secret_access_key", c.SecretAccessKey},
		}),
		replaceSection(filepath.Join(p.home, ".aws", "config"), "profile "+profile, [][2]string{
			{"region", c.Region},
			{"endpoint_url", "https://" + endpoint + ":" + strconv.Itoa(gatewayPort)},
			{"ca_bundle", l.config("ca.pem")},
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
