package suite

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// S3Port is where every node's object storage answers S3 calls: the gateway answers none.
const S3Port = 8443

// Profiles are the names under which hive's own programs and suites look for the cluster in AWS profile files, by the
// program's age, and the one that clients take that name none.
func Profiles() []string { return []string{"hive", "spinifex", "default"} }

// Profile is what AWS clients need to know of a cluster, as they read it from their two profile files. It is the same
// under each of Profiles.
type Profile struct {
	Region     string // empty: hive's default
	Endpoint   string // URL of a gateway
	S3Endpoint string // URL of a node's object storage
	CAFile     string // certificates that both are verified with; empty: those of the system
	AccessKey  string
	SecretKey  string
}

// Config is the file that AWS_CONFIG_FILE names. It holds no secrets.
func (p Profile) Config() []byte {
	var text strings.Builder
	for _, name := range Profiles() {
		section := "profile " + name
		if name == "default" {
			section = name
		}
		fmt.Fprintf(&text, "[%s]\nregion = %s\noutput = json\n", section, cmp.Or(p.Region, DefaultRegion))
		if p.CAFile != "" {
			fmt.Fprintf(&text, "ca_bundle = %s\n", p.CAFile)
		}
		if p.Endpoint != "" {
			// Without a section of its own S3 would be asked of the gateway, too.
			fmt.Fprintf(&text, "endpoint_url = %s\nservices = hive\n", p.Endpoint)
		}
		text.WriteString("\n")
	}
	if p.Endpoint != "" {
		fmt.Fprintf(&text, "[services hive]\ns3 =\n  endpoint_url = %s\n", p.S3Endpoint)
	}
	return []byte(text.String())
}

// Credentials is the file that AWS_SHARED_CREDENTIALS_FILE names: for its owner's eyes only.
func (p Profile) Credentials() []byte {
	var text strings.Builder
	for _, name := range Profiles() {
		fmt.Fprintf(
			&text, "[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n\n", name, p.AccessKey, p.SecretKey,
		)
	}
	return []byte(text.String())
}

// URL is where a port of a node answers over TLS; empty where the address is not known.
func URL(address netip.Addr, port int) string {
	if !address.IsValid() {
		return ""
	}
	return "https://" + net.JoinHostPort(address.String(), strconv.Itoa(port))
}

// Upstream adds to vars, which hold the HIVE_* of a cluster, the names that hive's own suites know the same by.
// SPINIFEX_NODES is none of them: the program spx would take it for its setting "nodes" and find no node any more.
func Upstream(vars map[string]string, nodes int) {
	mode := "single"
	if nodes > 1 {
		mode = "multinode"
	}
	same := map[string]string{
		"ENDPOINT":              vars["HIVE_ENDPOINT"],
		"DDIL_NODES":            vars["HIVE_NODES"],
		"DDIL_SSH_USER":         vars["HIVE_SSH_USER"],
		"DDIL_SSH_KEY":          vars["HIVE_SSH_KEY"],
		"SPINIFEX_E2E":          "1",
		"SPINIFEX_MODE":         mode,
		"SPINIFEX_NODE_IPS":     vars["HIVE_NODES"],
		"SPINIFEX_SSH_USER":     vars["HIVE_SSH_USER"],
		"SPINIFEX_SSH_KEY":      vars["HIVE_SSH_KEY"],
		"SPINIFEX_AWS_ENDPOINT": vars["HIVE_ENDPOINT"],
		"SPINIFEX_AWS_REGION":   vars["AWS_REGION"],
		"SPINIFEX_CA_CERT":      vars["HIVE_CA_FILE"],
	}
	for name, value := range same {
		if value != "" {
			vars[name] = value
		}
	}
}
