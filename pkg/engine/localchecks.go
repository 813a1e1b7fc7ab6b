package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// upChecks are those before up. What doctor has found well a moment ago is not looked at again.
func (s *session) upChecks() proxmox.Checks {
	c := s.checks(true)
	c.Healthy, c.Skip = sync.OnceValue(s.healthy), s.settings.SkipPreflight
	return c
}

// checks are those of this session; download allows fetching a tofu where there is none.
func (s *session) checks(download bool) proxmox.Checks {
	c := proxmox.Checks{
		More: []api.Check{s.tofuCheck(download), s.keyCheck, s.cpuCheck}, CPUOvercommit: s.settings.Proxmox.CPUOvercommit,
	}
	if target := s.record.Target; target.Fingerprint != "" && !target.Insecure {
		c.More = append(c.More, s.nameCheck)
	}
	c.Login = s.tryHypervisor
	return c
}

// nameCheck looks whether the provider will take the certificate that is pinned.
func (s *session) nameCheck(ctx context.Context) []api.Finding {
	ctx, cancel := context.WithTimeout(ctx, s.settings.Proxmox.CallTimeout)
	defer cancel()
	return api.CheckPinnedName(ctx, s.record.Target.Endpoint, s.record.Target.Fingerprint)
}

// cpuCheck looks whether nodes get the CPUs that hive reserves, as far as it is known which hive that will be.
func (s *session) cpuCheck(ctx context.Context) []api.Finding {
	f := api.Finding{ID: "node-cpus", Title: "nodes have the CPUs that hive reserves", Status: api.Pass}
	cpus := cmp.Or(s.record.Spec.CPUCores, s.settings.CPUCores)
	problem, fatal := hive.TooFewCPUs("", cpus) // which is asked first, for it runs no program
	if problem != "" {
		problem, fatal = hive.TooFewCPUs(installed(s.settings).Era(ctx), cpus)
	}
	if problem == "" {
		f.Detail = fmt.Sprintf("%d per node", cpus)
		return []api.Finding{f}
	}
	f.Status, f.Detail, f.Fix = api.Warn, problem, "set --cpu-cores to 4 or more"
	if fatal {
		f.Status = api.Fail
	}
	return []api.Finding{f}
}

// keyCheck looks whether the nodes' key is a pair.
func (s *session) keyCheck(context.Context) []api.Finding {
	f := api.Finding{ID: "ssh-key", Title: "SSH key for the nodes is a pair", Status: api.Pass}
	path := s.record.SSHKeyPath
	if s.settings.SSHPrivateKeyPath == "" {
		if _, err := os.Stat(path); err != nil {
			f.Detail = "each cluster gets a pair of its own"
			return []api.Finding{f}
		}
	}
	f.Detail = path
	public := path + ".pub"
	if s.settings.SSHPublicKeyPath != "" && s.settings.SSHPrivateKeyPath != "" {
		public = absolute(s.settings.SSHPublicKeyPath)
	}
	if err := remote.CheckKeyPair(path, public); err != nil {
		f.Status, f.Detail = api.Fail, err.Error()
		otherwise := "or unset ssh_private_key_path: then each cluster gets a pair of its own"
		if s.settings.SSHPrivateKeyPath == "" {
			otherwise = "else put it back, or begin anew with `hive-test down " + s.name.String() + "`, which needs no key"
		}
		f.Fix = fmt.Sprintf("ssh-keygen -y -f %s > %s, where the private key is the right one; %s", remote.Quote(path), remote.Quote(public), otherwise)
	} else if err := remote.CheckKey(path, cmp.Or(s.record.SSHAgent, s.settings.SSH.AgentSocket)); err != nil {
		f.Status, f.Detail, f.Fix = api.Fail, err.Error(), "eval $(ssh-agent); ssh-add "+remote.Quote(path)+"; or unset ssh_private_key_path: then each cluster gets a pair of its own"
	}
	return []api.Finding{f}
}

// tryHypervisor logs in as the provider will and runs what it runs there, short of changing anything. Each command has
// the time of one answer.
func (s *session) tryHypervisor(ctx context.Context, h cluster.Hypervisor, snippets string) (problem, fix string) {
	limit := s.settings.Proxmox.CallTimeout
	user, key := cmp.Or(s.record.Target.HypervisorSSHUser, "root"), s.record.Target.HypervisorSSHKeyPath
	address, err := lookUp(ctx, h.Address)
	if err != nil {
		return "the address of {host} cannot be found: " + err.Error(), "set address of hypervisor {host} to its IP address"
	}
	with, copyID := "the key "+key, "ssh-copy-id -i "+remote.Quote(key)
	if key == "" {
		with, copyID = "the keys of the SSH agent", "ssh-copy-id"
	}
	dialer, done, err := s.dialHypervisors(limit)
	if err != nil {
		return "no key for the hypervisors: " + err.Error(), "set proxmox.ssh_private_key_path to a private key that can be used, or let an SSH agent hold it"
	}
	defer done()
	host := dialer.Host(cluster.Node{Name: h.Name, Management: address, SSHPort: h.Port})
	who := remote.Command{Argv: []string{"sh", "-c", "id -u; readlink /etc/pve/local || hostname"}, Timeout: limit}
	told, err := host.Run(ctx, who)
	if err != nil && !errors.Is(err, remote.ErrAuth) && !errors.Is(err, context.DeadlineExceeded) { // a busy server cuts connections; a second one may be let in
		told, err = host.Run(ctx, who)
	}
	uid, name := identity(string(told.Stdout))
	switch {
	case errors.Is(err, remote.ErrAuth):
		return fmt.Sprintf("{host} refuses the SSH login of %s with %s", user, with),
			fmt.Sprintf("for {host}: %s %s, or set proxmox.ssh_username and proxmox.ssh_private_key_path", copyID, user+"@ADDRESS")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("{host} gave no answer over SSH within %s", progress.FormatLimit(limit)), "look on {host} at: systemctl status ssh; " + api.CallTimeoutFix
	case err != nil:
		return "{host} cannot be reached over SSH: " + err.Error(), "check address and port of hypervisor {host} (now " + net.JoinHostPort(h.Address, fmt.Sprint(h.Port)) + "), and there: systemctl status ssh"
	case name != "" && name != h.Name: // images and snippets would be written there
		return fmt.Sprintf("at the address of {host} (%s) is another host, %s", net.JoinHostPort(h.Address, fmt.Sprint(h.Port)), name),
			"set address of hypervisor {host} to its own: on {host}, hostname -I prints it"
	case uid == "0":
		return "", ""
	}
	return trySudo(ctx, host, limit, user, snippets)
}

// dialHypervisors opens the way to hypervisors, until done is called. The provider pins their keys itself, for each
// cluster; what is seen here proves nothing and is forgotten.
func (s *session) dialHypervisors(limit time.Duration) (dialer *remote.Dialer, done func(), err error) {
	dir, err := os.MkdirTemp("", "hive-test-hypervisors-")
	if err != nil {
		return nil, nil, err
	}
	target := s.record.Target
	dialer, err = remote.NewDialer(remote.Config{
		User: cmp.Or(target.HypervisorSSHUser, "root"), KeyPath: target.HypervisorSSHKeyPath, AgentSocket: s.settings.SSH.AgentSocket,
		KnownHosts: filepath.Join(dir, "known_hosts"), ConnectTimeout: limit,
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dialer, func() { _, _ = dialer.Close(), os.RemoveAll(dir) }, nil
}

// uploadToHypervisor writes a file of a hypervisor.
func (s *session) uploadToHypervisor(ctx context.Context, h cluster.Hypervisor, path string, content []byte) error {
	dialer, done, err := s.dialHypervisors(s.settings.Proxmox.CallTimeout)
	if err != nil {
		return err
	}
	defer done()
	address, err := lookUp(ctx, h.Address)
	if err != nil {
		return err
	}
	host := dialer.Host(cluster.Node{Name: h.Name, Management: address, SSHPort: h.Port})
	_, err = host.Run(ctx, remote.Command{Argv: []string{"/usr/bin/tee", path}, Stdin: bytes.NewReader(content)})
	return err
}

// identity reads the user's id and the host's name, as Proxmox VE calls it, from the last two lines of an answer: a
// login shell may print lines of its own before. Proxmox VE's link names the host, and hostname does elsewhere, maybe
// with its domain.
func identity(text string) (uid, name string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 {
		return strings.TrimSpace(text), ""
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "nodes/"), ".")
	return strings.TrimSpace(lines[len(lines)-2]), name
}

// trySudo asks for what the provider runs as root: pvesm and qm, and tee for snippets (read in its source, and
// recorded). The first two are run as it probes them; tee would write, so sudo is only asked whether it may.
func trySudo(ctx context.Context, host *remote.Host, limit time.Duration, user, snippets string) (problem, fix string) {
	var refused []string
	for _, argv := range [][]string{
		{"sudo", "-n", "/usr/sbin/pvesm", "apiinfo"}, {"sudo", "-n", "/usr/sbin/qm", "--help"}, {"sudo", "-n", "-l", "/usr/bin/tee", snippets + "/hive-test.yaml"},
	} {
		result, err := host.Run(ctx, remote.Command{Argv: argv, Timeout: limit})
		if exit, ok := errors.AsType[*remote.ExitError](err); ok && (argv[2] == "-l" || strings.Contains(string(exit.Result.Stderr)+string(result.Stderr), "sudo: ")) {
			program := argv[2]
			if program == "-l" {
				program = argv[3] + " " + snippets + "/*"
			}
			refused = append(refused, program)
		} else if err != nil && !ok {
			return "{host}: " + err.Error(), "look on {host} at: journalctl -u ssh"
		}
	}
	if len(refused) == 0 {
		return "", ""
	}
	rule := fmt.Sprintf("%s ALL=(root) NOPASSWD: /usr/sbin/pvesm, /usr/sbin/qm, /usr/bin/tee %s/[a-zA-Z0-9_][a-zA-Z0-9_.-]*", user, snippets)
	return fmt.Sprintf("user %s may not run with sudo and without a password on {host}: %s", user, strings.Join(refused, ", ")),
		"on {host} as root: echo " + remote.Quote(rule) + " > /etc/sudoers.d/hive-test"
}

// lookUp makes an address of a name; an address stays what it is.
func lookUp(ctx context.Context, host string) (netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return address, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0].Unmap(), nil
}
