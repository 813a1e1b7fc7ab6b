package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"

	"hive-test/pkg/cluster"
)

// SSHConfig is the user's own ssh_config: what is said there of a host counts where nothing else is said. The zero
// value says nothing.
type SSHConfig struct {
	path, home string
	config     *ssh_config.Config
	err        error // why the file cannot be used: only who needs it is told
}

// loadSSHConfig reads the file; one that is not there says nothing.
func loadSSHConfig(path, home string) SSHConfig {
	c := SSHConfig{path: path, home: home}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return c
	}
	if err == nil {
		c.config, err = ssh_config.Decode(bytes.NewReader(raw))
	}
	if err != nil {
		c.err = fmt.Errorf(
			"%s cannot be used: %w: correct it, or name another with ssh.config_file (/dev/null: none)", path, err,
		)
	}
	return c
}

// get is what the file says of the first alias that it says anything of; empty: nothing.
func (c SSHConfig) get(key string, aliases ...string) string {
	for _, alias := range aliases {
		if all := c.all(key, alias); len(all) > 0 {
			return all[0]
		}
	}
	return ""
}

func (c SSHConfig) all(key, alias string) []string {
	if c.config == nil || alias == "" {
		return nil
	}
	values, err := c.config.GetAll(alias, key)
	if err != nil {
		return nil
	}
	for i, value := range values {
		values[i] = unquoted(value)
	}
	return values
}

func unquoted(value string) string {
	if text, found := strings.CutPrefix(value, `"`); found && strings.HasSuffix(text, `"`) {
		return strings.TrimSuffix(text, `"`)
	}
	return value
}

// expand is a path as ssh_config has it: ~ and %d are the home directory, %h the host, %r the user there, %u the one
// here.
func (c SSHConfig) expand(path, host, remoteUser string) string {
	path = strings.NewReplacer("%%", "%", "%d", c.home, "%h", host, "%r", remoteUser, "%u", localUser()).Replace(path)
	return resolve(path, "", c.home)
}

// identityFiles are the private keys that the file names for a host, or those that OpenSSH tries where it names none;
// only such as are there.
func (c SSHConfig) identityFiles(alias, host, remoteUser string) []string {
	named := c.all("IdentityFile", alias)
	if len(named) == 0 {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			named = append(named, filepath.Join("~", ".ssh", name))
		}
	}
	var files []string
	for _, name := range named {
		file := c.expand(name, host, remoteUser)
		if _, err := os.Stat(file); err == nil && c.home != "" && file != "none" {
			files = append(files, file)
		}
	}
	return files
}

// agent is the socket of a host's own SSH agent; empty: the user's.
func (c SSHConfig) agent(host string, aliases ...string) string {
	socket := c.get("IdentityAgent", aliases...)
	if socket == "SSH_AUTH_SOCK" {
		return ""
	}
	return c.expand(socket, host, "")
}

func localUser() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return ""
}

// maxJumps guards against hosts that name each other as their ways.
const maxJumps = 10

// jumps are the hosts that a value of ProxyJump names, in their order, with all that the file says of them. The first
// of them may have ways of its own.
func (c SSHConfig) jumps(text string) (cluster.JumpHosts, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	var hops cluster.JumpHosts
	for i, part := range strings.Split(text, ",") {
		hop, alias, err := c.jump(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if before := c.get("ProxyJump", alias); i == 0 && before != "" {
			hops, err = SSHConfig{path: c.path, home: c.home, config: c.without(alias)}.jumps(before)
			if err != nil {
				return nil, err
			}
		}
		hops = append(hops, hop)
	}
	if len(hops) > maxJumps {
		return nil, fmt.Errorf("%q leads through more than %d hosts", text, maxJumps)
	}
	return hops, nil
}

// without is the file but for the entries that say how to reach alias, so that hosts which name each other come to an
// end.
func (c SSHConfig) without(alias string) *ssh_config.Config {
	rest := *c.config
	rest.Hosts = slices.DeleteFunc(slices.Clone(rest.Hosts), func(h *ssh_config.Host) bool {
		return h.Matches(alias) && slices.ContainsFunc(h.Nodes, func(n ssh_config.Node) bool {
			kv, ok := n.(*ssh_config.KV)
			return ok && strings.EqualFold(kv.Key, "ProxyJump")
		})
	})
	return &rest
}

// jump reads [user@]host[:port], with brackets around an IPv6 address that has a port, also as ssh://...
func (c SSHConfig) jump(text string) (hop cluster.JumpHost, alias string, err error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "ssh://"), "/")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		hop.User, rest = rest[:at], rest[at+1:]
	}
	alias = rest
	if host, port, splitErr := net.SplitHostPort(rest); splitErr == nil {
		if hop.Port, err = strconv.Atoi(port); err != nil || hop.Port < 1 || hop.Port > 65535 {
			return hop, "", fmt.Errorf("%q: %q is no port", text, port)
		}
		alias = host
	}
	alias = strings.Trim(alias, "[]")
	if alias == "" || strings.ContainsAny(alias, " \t/\"'") || strings.HasPrefix(alias, "-") ||
		strings.HasPrefix(hop.User, "-") {
		return hop, "", fmt.Errorf("%q is no jump host: write user@host or user@host:port, several with commas", text)
	}
	hop.Host = cmp.Or(strings.ReplaceAll(c.get("HostName", alias), "%h", alias), alias)
	hop.User = cmp.Or(hop.User, c.get("User", alias), localUser())
	if hop.Port == 0 {
		hop.Port = 22
		if port, err := strconv.Atoi(c.get("Port", alias)); err == nil {
			hop.Port = port
		}
	}
	if err := hop.Validate(); err != nil {
		return hop, "", fmt.Errorf("%q is no jump host: %w", text, err)
	}
	hop.IdentityFiles, hop.AgentSocket = c.identityFiles(alias, hop.Host, hop.User), c.agent(hop.Host, alias)
	return hop, alias, nil
}
