package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const dialTimeout = 30 * time.Second

// The shell text below is part of the wire format: hypervisors (and what stands
// in for them) see it byte for byte, as recorded from the real provider.
const (
	sudoProbe = `if [ "$(id -u)" = "0" ]; then echo "0"; elif [ $(sudo -n /usr/sbin/pvesm apiinfo 2>&1 | grep "APIVER" | wc -l) -gt 0 ] || sudo -n /usr/sbin/qm --help >/dev/null 2>&1; then echo "1"; else echo "0"; fi`
	trySudo   = `_try_sudo_check(){ if [ -z "${_try_sudo_cached:-}" ]; then _try_sudo_use_sudo="${TRY_SUDO_USE_SUDO:-0}"; _try_sudo_cached=1; fi; }; try_sudo(){ _try_sudo_check; if [ "$_try_sudo_use_sudo" = "1" ]; then sudo "$@"; else "$@"; fi; }`
)

// nodeAddress is where a hypervisor's SSH server listens.
type nodeAddress struct {
	host string
	port int
}

func (n nodeAddress) String() string {
	if strings.Contains(n.host, ":") {
		return fmt.Sprintf("[%s]:%d", n.host, n.port)
	}
	return fmt.Sprintf("%s:%d", n.host, n.port)
}

// sshConfig is the provider's ssh block.
type sshConfig struct {
	username, password string
	useAgent           bool
	agentSocket        string
	privateKey         string
	home               string // known hosts live under home/.ssh
	fromDNS            bool
	nodes              map[string]nodeAddress
}

// shell runs commands on hypervisors: a connection for each call, no pool, and
// one probe for sudo per hypervisor and process.
type shell struct {
	sshConfig
	api *api

	mu   sync.Mutex
	sudo map[string]*sudoAnswer
}

type sudoAnswer struct {
	mu    sync.Mutex
	known bool
	use   bool
}

func newShell(c sshConfig, a *api) *shell {
	return &shell{sshConfig: c, api: a, sudo: map[string]*sudoAnswer{}}
}

// run executes commands, joined by "; ", under bash and returns both output
// streams. The error of a failed command is its output.
func (s *shell) run(ctx context.Context, node string, commands []string) ([]byte, error) {
	if env := s.sudoEnv(ctx, node); env != "" {
		commands = append([]string{env}, commands...)
	}
	client, err := s.connect(ctx, node)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return execute(client, commands)
}

// upload pipes data through tee into dir/name and checks the size over SFTP.
func (s *shell) upload(ctx context.Context, node, dir, name string, data io.Reader, size int64) error {
	client, err := s.connect(ctx, node)
	if err != nil {
		return fmt.Errorf("failed to open SSH client: %w", err)
	}
	defer client.Close()
	target := path.Join(dir, name)
	if err := s.tee(ctx, client, node, target, data); err != nil {
		return err
	}
	return checkSize(client, target, size)
}

func (s *shell) tee(ctx context.Context, client *ssh.Client, node, target string, data io.Reader) error {
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("failed to open SSH session: %w", err)
	}
	defer session.Close()
	commands := []string{trySudo, "try_sudo /usr/bin/tee " + target}
	if env := s.sudoEnv(ctx, node); env != "" {
		commands = append([]string{env}, commands...)
	}
	session.Stdin = data
	out, err := session.CombinedOutput(bash(commands))
	switch {
	case err != nil && len(out) > 0:
		return fmt.Errorf("error transferring file: %w (output: %s)", err, out)
	case err != nil:
		return fmt.Errorf("error transferring file: %w", err)
	}
	return nil
}

func checkSize(client *ssh.Client, target string, size int64) error {
	files, err := sftp.NewClient(client)
	if err != nil {
		return fmt.Errorf("failed to create SFTP client: %w", err)
	}
	defer files.Close()
	f, err := files.Open(target)
	if err != nil {
		return fmt.Errorf("failed to open remote file %s: %w", target, err)
	}
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("failed to read remote file %s: %w", target, err)
	}
	if st.Size() != size {
		return fmt.Errorf("failed to upload file %s: uploaded %d bytes, expected %d bytes", target, st.Size(), size)
	}
	return nil
}

// put writes a file over SFTP alone (upload_mode = "sftp").
func (s *shell) put(ctx context.Context, node, dir, name string, data io.Reader, size int64) error {
	client, err := s.connect(ctx, node)
	if err != nil {
		return fmt.Errorf("failed to open SSH client: %w", err)
	}
	defer client.Close()
	files, err := sftp.NewClient(client)
	if err != nil {
		return fmt.Errorf("failed to create SFTP client: %w", err)
	}
	defer files.Close()
	if err := files.MkdirAll(dir); err != nil {
		return fmt.Errorf("failed to create directory %s: %w", dir, err)
	}
	target := path.Join(dir, name)
	f, err := files.Create(target)
	if err != nil {
		return fmt.Errorf("failed to create file %s: %w", target, err)
	}
	defer f.Close()
	n, err := f.ReadFrom(data)
	if err != nil {
		return fmt.Errorf("failed to upload file %s: %w", target, err)
	}
	if n != size {
		return fmt.Errorf("failed to upload file %s: uploaded %d bytes, expected %d bytes", target, n, size)
	}
	return nil
}

// sudoEnv is the export that tells the script whether to use sudo, or nothing
// where the probe failed. One caller probes, others wait for its answer.
func (s *shell) sudoEnv(ctx context.Context, node string) string {
	s.mu.Lock()
	answer := s.sudo[node]
	if answer == nil {
		answer = &sudoAnswer{}
		s.sudo[node] = answer
	}
	s.mu.Unlock()

	answer.mu.Lock()
	defer answer.mu.Unlock()
	if !answer.known {
		use, err := s.probe(ctx, node)
		if err != nil {
			return ""
		}
		answer.known, answer.use = true, use
	}
	if answer.use {
		return "export TRY_SUDO_USE_SUDO=1"
	}
	return "export TRY_SUDO_USE_SUDO=0"
}

func (s *shell) probe(ctx context.Context, node string) (bool, error) {
	client, err := s.connect(ctx, node)
	if err != nil {
		return false, err
	}
	defer client.Close()
	out, err := execute(client, []string{sudoProbe})
	return strings.TrimSpace(string(out)) == "1", err
}

func execute(client *ssh.Client, commands []string) ([]byte, error) {
	session, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("failed to open SSH session: failed to create SSH session: %w", err)
	}
	defer session.Close()
	out, err := session.CombinedOutput(bash(commands))
	if err != nil {
		return out, errors.New(string(out))
	}
	return out, nil
}

// bash quotes the script for `bash -c` the way the real provider does.
func bash(commands []string) string {
	script := strings.Join(commands, "; ")
	return "/bin/bash -c '" + strings.ReplaceAll(script, "'", `'"'"'`) + "'"
}

// connect tries the agent, then the key, then the password.
func (s *shell) connect(ctx context.Context, node string) (*ssh.Client, error) {
	addr, err := s.resolve(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("failed to find node endpoint: %w", err)
	}
	check, algorithms, err := hostKeys(s.home, addr.String())
	if err != nil {
		return nil, err
	}
	dial := func(methods ...ssh.AuthMethod) (*ssh.Client, error) {
		return dialSSH(ctx, addr.String(), &ssh.ClientConfig{
			User: s.username, Auth: methods, HostKeyCallback: check, HostKeyAlgorithms: algorithms,
		})
	}
	if s.useAgent {
		if c, err := s.viaAgent(dial); err == nil {
			return c, nil
		}
	}
	if s.privateKey != "" {
		if key, err := ssh.ParsePrivateKey([]byte(s.privateKey)); err == nil {
			if c, err := dial(ssh.PublicKeys(key)); err == nil {
				return c, nil
			}
		}
	}
	client, err := dial(ssh.Password(s.password))
	if err != nil {
		return nil, fmt.Errorf("unable to authenticate user %q over SSH to %q. Please verify that ssh-agent is "+
			"correctly loaded with an authorized key via 'ssh-add -L' (NOTE: configurations in ~/.ssh/config are "+
			"not considered by the provider): %w", s.username, addr, err)
	}
	return client, nil
}

func (s *shell) viaAgent(dial func(...ssh.AuthMethod) (*ssh.Client, error)) (*ssh.Client, error) {
	conn, err := net.Dial("unix", s.agentSocket)
	if err != nil {
		return nil, fmt.Errorf("failed connecting to SSH auth socket '%s': %w", s.agentSocket, err)
	}
	defer conn.Close()
	return dial(ssh.PublicKeysCallback(agent.NewClient(conn).Signers), ssh.Password(s.password))
}

// dialSSH bounds connect and handshake together to 30 s.
func dialSSH(ctx context.Context, addr string, cfg *ssh.ClientConfig) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("failed to dial %s: %w", addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, cfg)
	if !stop() && err == nil {
		_ = c.Close()
		err = ctx.Err()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("SSH handshake to %s timed out (dial timeout %s): %w", addr, dialTimeout, ctx.Err())
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("failed SSH handshake to %s: %w", addr, err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// hostKeys trusts a host's key on first contact, writes it to
// home/.ssh/known_hosts and refuses a changed one.
func hostKeys(home, addr string) (ssh.HostKeyCallback, []string, error) {
	dir := filepath.Join(home, ".ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("failed to create %s: %w", dir, err)
	}
	file := filepath.Join(dir, "known_hosts")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create %s: %w", file, err)
	}
	_ = f.Close()
	db, err := knownhosts.NewDB(file)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to read %s: %w", file, err)
	}
	check := func(host string, remote net.Addr, key ssh.PublicKey) error {
		err := db.HostKeyCallback()(host, remote, key)
		switch {
		case knownhosts.IsHostKeyChanged(err):
			return fmt.Errorf(
				"REMOTE HOST IDENTIFICATION HAS CHANGED for host %s! This may indicate a MitM attack", host,
			)
		case knownhosts.IsHostUnknown(err):
			// As in the real provider a file that cannot be written is no failure.
			if f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
				defer f.Close()
				_ = knownhosts.WriteKnownHost(f, host, remote, key)
			}
			return nil
		}
		return err
	}
	return check, db.HostKeyAlgorithms(addr), nil
}

// resolve finds a hypervisor's address: the ssh.node block, else DNS or the
// node's network configuration, always with port 22 there.
func (s *shell) resolve(ctx context.Context, node string) (nodeAddress, error) {
	if n, ok := s.nodes[node]; ok {
		return n, nil
	}
	if s.fromDNS {
		return lookup(ctx, node)
	}
	var answer struct {
		Data []struct{ Address, Gateway, Address6, Gateway6 string }
	}
	if err := s.api.do(ctx, http.MethodGet, "nodes/"+node+"/network", nil, &answer); err != nil {
		return nodeAddress{}, fmt.Errorf(
			"failed to list network devices of node %q: failed to get network interfaces for node %q: %w", node,
			node, err,
		)
	}
	at := func(host string) (nodeAddress, error) {
		host, _, _ = strings.Cut(host, "/")
		return nodeAddress{host, 22}, nil
	}
	for _, d := range answer.Data {
		if d.Gateway != "" && d.Address != "" {
			return at(d.Address)
		}
	}
	for _, d := range answer.Data {
		if d.Gateway6 != "" && d.Address6 != "" {
			return at(d.Address6)
		}
	}
	for _, d := range answer.Data {
		if d.Address != "" {
			return at(d.Address)
		}
	}
	if n, err := lookup(ctx, node); err == nil {
		return n, nil
	}
	return nodeAddress{}, fmt.Errorf("failed to determine the IP address of node %q", node)
}

func lookup(ctx context.Context, node string) (nodeAddress, error) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, node)
	if err != nil {
		return nodeAddress{}, fmt.Errorf("failed to resolve node %q via DNS: %w", node, err)
	}
	for _, ip := range ips {
		if v4 := ip.IP.To4(); v4 != nil {
			return nodeAddress{v4.String(), 22}, nil
		}
	}
	if len(ips) > 0 {
		return nodeAddress{ips[0].IP.String(), 22}, nil
	}
	return nodeAddress{}, fmt.Errorf("DNS lookup for node %q returned no addresses", node)
}
