package target

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
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/deploy/proxmox/provision"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// upChecks are those before up. What doctor has found well a moment ago is not looked at again.
func (t *Target) upChecks() proxmox.Checks {
	c := t.checks(true)
	c.Healthy, c.Skip = sync.OnceValue(t.healthy), t.Settings.SkipPreflight
	return c
}

// checks are those of this cluster; download allows fetching a tofu where there is none.
func (t *Target) checks(download bool) proxmox.Checks {
	c := proxmox.Checks{
		More:          append([]api.Check{t.tofuCheck(download), t.credentialsCheck, t.keyCheck}, t.Checks...),
		CPUOvercommit: t.Settings.Proxmox.CPUOvercommit,
	}
	if target := t.place(); target.Fingerprint != "" && !target.Insecure {
		c.More = append(c.More, t.nameCheck)
	}
	c.Login = t.tryHypervisor
	return c
}

// nameCheck looks whether the provider will take the certificate that is pinned.
func (t *Target) nameCheck(ctx context.Context) []deploy.Finding {
	ctx, cancel := context.WithTimeout(ctx, t.Settings.Proxmox.CallTimeout)
	defer cancel()
	return api.CheckPinnedName(ctx, t.place().Endpoint, t.place().Fingerprint)
}

// tofuCheck looks for tofu and for the provider in a mirror. It reads the record, and changes nothing.
func (t *Target) tofuCheck(download bool) api.Check {
	return func(ctx context.Context) []deploy.Finding {
		search := t.tofuOfCluster()
		if !download {
			search.Downloaders = nil
		}
		f := deploy.Finding{ID: "tofu", Title: "OpenTofu or Terraform is there"}
		binary, err := opentofu.Find(ctx, search)
		switch {
		case err != nil && search.Explicit != "":
			f.Status, f.Detail, f.Fix = deploy.Fail, err.Error(), "unset tofu_bin, or name a program that works; "+progress.HintOf(err)
		case err != nil && !download:
			f.Status, f.Detail, f.Fix = deploy.Warn, err.Error(), "up downloads OpenTofu; or "+progress.HintOf(err)
		case err != nil:
			f.Status, f.Detail, f.Fix = deploy.Fail, err.Error(), progress.HintOf(err)
		default:
			f.Status, f.Detail = deploy.Pass, fmt.Sprintf("%s %s at %s", binary.Flavor, binary.Version, binary.Path)
		}
		return []deploy.Finding{f, t.providerFinding(ctx, cmp.Or(binary.Flavor, opentofu.OpenTofu), !download)}
	}
}

// credentialsCheck looks whether what OpenTofu is to be given can be read; where that is nothing, there is no finding.
func (t *Target) credentialsCheck(ctx context.Context) []deploy.Finding {
	if !kindOf(t.Record).tofu {
		return nil
	}
	given, err := t.credentials(config.CredentialsTofu, config.CredentialsState)(ctx)
	f := deploy.Finding{ID: "credentials", Title: "credentials of OpenTofu can be read", Status: deploy.Pass}
	switch {
	case err != nil:
		f.Status, f.Detail, f.Fix = deploy.Fail, err.Error(), progress.HintOf(err)
	case len(given.Variables) == 0:
		return nil
	default:
		f.Detail = progress.Count(len(given.Variables), "variable")
	}
	return []deploy.Finding{f}
}

// providerFinding looks whether there is a provider where it comes from. A registry is asked only where that is said:
// an up that has the provider needs none.
func (t *Target) providerFinding(ctx context.Context, flavor string, askRegistry bool) deploy.Finding {
	if mirror := t.place().ProviderMirror; mirror != "" {
		return mirrorFinding(mirror, flavor)
	}
	registry := opentofu.RegistryOf(flavor)
	f := deploy.Finding{ID: "provider", Title: "provider can be installed", Status: deploy.Skip}
	if own := opentofu.InstallationConfig(t.Program.TofuEnviron, flavor); own != "" {
		f.Detail = "it comes from where " + own + " says"
		return f
	}
	if !askRegistry {
		f.Detail = "it comes from " + registry.Host
		return f
	}
	return registryFinding(ctx, registry)
}

// registryFinding looks whether the registry answers. It warns only: a provider that was fetched before is not fetched
// again.
func registryFinding(ctx context.Context, registry opentofu.Registry) deploy.Finding {
	f := deploy.Finding{ID: "provider", Title: "provider can be installed", Status: deploy.Pass}
	f.Detail = "from " + registry.Host
	if err := registry.Check(ctx); err != nil {
		f.Status, f.Detail = deploy.Warn, err.Error()
		f.Fix = "let this machine reach it, by HTTPS_PROXY if need be, or name a directory that holds bpg/proxmox: " +
			"provider_mirror, --provider-mirror or HIVE_TEST_PROVIDER_MIRROR"
	}
	return f
}

// mirrorFinding looks whether the mirror that providers come from holds ours.
func mirrorFinding(mirror, flavor string) deploy.Finding {
	f := deploy.Finding{ID: "provider", Title: "provider can be installed", Status: deploy.Pass}
	f.Detail = "from " + mirror
	if err := provision.CheckMirror(mirror, flavor); err != nil {
		f.Status, f.Detail = deploy.Fail, err.Error()
		f.Fix = cmp.Or(
			progress.HintOf(err),
			"set provider_mirror to the directory of a mirror that holds it, or set provider to registry",
		)
	}
	return f
}

// keyCheck looks whether the nodes' key is a pair.
func (t *Target) keyCheck(context.Context) []deploy.Finding {
	f := deploy.Finding{ID: "ssh-key", Title: "SSH key for the nodes is a pair", Status: deploy.Pass}
	path := t.Record.SSHKeyPath
	if t.Settings.SSHPrivateKeyPath == "" {
		if _, err := os.Stat(path); err != nil {
			f.Detail = "each cluster gets a pair of its own"
			return []deploy.Finding{f}
		}
	}
	f.Detail = path
	public := path + ".pub"
	if t.Settings.SSHPublicKeyPath != "" && t.Settings.SSHPrivateKeyPath != "" {
		public = config.Absolute(t.Settings.SSHPublicKeyPath)
	}
	if err := remote.CheckKeyPair(path, public); err != nil {
		f.Status, f.Detail = deploy.Fail, err.Error()
		otherwise := "or unset ssh_private_key_path: then each cluster gets a pair of its own"
		if t.Settings.SSHPrivateKeyPath == "" {
			otherwise = "else put it back, or begin anew with `hive-test down " + t.Name.String() +
				"`, which needs no key"
		}
		f.Fix = fmt.Sprintf(
			"ssh-keygen -y -f %s > %s, where the private key is the right one; %s", remote.Quote(path),
			remote.Quote(public), otherwise,
		)
	} else if err := remote.CheckKey(path, cmp.Or(t.Record.SSHAgent, t.Settings.SSH.AgentSocket)); err != nil {
		f.Status, f.Detail, f.Fix = deploy.Fail, err.Error(), "eval $(ssh-agent); ssh-add "+remote.Quote(path)+"; or unset ssh_private_key_path: then each cluster gets a pair of its own"
	}
	return []deploy.Finding{f}
}

// tryHypervisor logs in as the provider will and runs what it runs there, short of changing anything. Each command has
// the time of one answer.
func (t *Target) tryHypervisor(ctx context.Context, h placement.Hypervisor, snippets string) (problem, fix string) {
	limit := t.Settings.Proxmox.CallTimeout
	user, key := cmp.Or(t.place().HypervisorSSHUser, "root"), t.place().HypervisorSSHKeyPath
	address, err := lookUp(ctx, h.Address)
	if err != nil {
		return "the address of {host} cannot be found: " + err.Error(),
			"set address of hypervisor {host} to its IP address"
	}
	with, copyID := "the key "+key, "ssh-copy-id -i "+remote.Quote(key)
	if key == "" {
		with, copyID = "the keys of the SSH agent", "ssh-copy-id"
	}
	dialer, done, err := t.dialHypervisors(limit)
	if err != nil {
		return "no key for the hypervisors: " + err.Error(),
			"set proxmox.ssh_private_key_path to a private key that can be used, or let an SSH agent hold it"
	}
	defer done()
	host := dialer.Host(cluster.Node{Name: h.Name, Management: address, SSHPort: h.Port})
	who := remote.Command{Argv: []string{"sh", "-c", "id -u; readlink /etc/pve/local || hostname"}, Timeout: limit}
	told, err := host.Run(ctx, who)
	// a busy server cuts connections; a second one may be let in
	if err != nil && !errors.Is(err, remote.ErrAuth) && !errors.Is(err, context.DeadlineExceeded) {
		told, err = host.Run(ctx, who)
	}
	uid, name := identity(string(told.Stdout))
	switch {
	case errors.Is(err, remote.ErrAuth):
		return fmt.Sprintf("{host} refuses the SSH login of %s with %s", user, with),
			fmt.Sprintf(
				"for {host}: %s %s, or set proxmox.ssh_username and proxmox.ssh_private_key_path", copyID,
				user+"@ADDRESS",
			)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("{host} gave no answer over SSH within %s", progress.FormatLimit(limit)),
			"look on {host} at: systemctl status ssh; " + api.CallTimeoutFix
	case err != nil:
		return "{host} cannot be reached over SSH: " + err.Error(),
			"check address and port of hypervisor {host} in proxmox.hypervisors (now " +
				net.JoinHostPort(h.Address, fmt.Sprint(h.Port)) + "; init takes --hypervisors NAME=ADDRESS:PORT), " +
				"and there: systemctl status ssh"
	case name != "" && name != h.Name: // images and snippets would be written there
		return fmt.Sprintf(
				"at the address of {host} (%s) is another host, %s", net.JoinHostPort(h.Address, fmt.Sprint(h.Port)),
				name,
			),
			"set address of hypervisor {host} to its own: on {host}, hostname -I prints it"
	case uid == "0":
		return "", ""
	}
	return trySudo(ctx, host, limit, user, snippets)
}

// dialHypervisors opens the way to hypervisors, until done is called. The provider pins their keys itself, for each
// cluster; what is seen here proves nothing and is forgotten.
func (t *Target) dialHypervisors(limit time.Duration) (dialer *remote.Dialer, done func(), err error) {
	dir, err := os.MkdirTemp("", "hive-test-hypervisors-")
	if err != nil {
		return nil, nil, err
	}
	target := t.place()
	dialer, err = remote.NewDialer(remote.Config{
		User: cmp.Or(target.HypervisorSSHUser, "root"), KeyPath: target.HypervisorSSHKeyPath,
		AgentSocket: t.Settings.SSH.AgentSocket,
		KnownHosts:  filepath.Join(dir, "known_hosts"), ConnectTimeout: limit,
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dialer, func() { _, _ = dialer.Close(), os.RemoveAll(dir) }, nil
}

// uploadToHypervisor writes a file of a hypervisor.
func (t *Target) uploadToHypervisor(ctx context.Context, h placement.Hypervisor, path string, content []byte) error {
	dialer, done, err := t.dialHypervisors(t.Settings.Proxmox.CallTimeout)
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
		{"sudo", "-n", "/usr/sbin/pvesm", "apiinfo"},
		{"sudo", "-n", "/usr/sbin/qm", "--help"},
		{"sudo", "-n", "-l", "/usr/bin/tee", snippets + "/hive-test.yaml"},
	} {
		result, err := host.Run(ctx, remote.Command{Argv: argv, Timeout: limit})
		if exit, ok := errors.AsType[*remote.ExitError](err); ok &&
			(argv[2] == "-l" || strings.Contains(string(exit.Result.Stderr)+string(result.Stderr), "sudo: ")) {
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
	rule := fmt.Sprintf(
		"%s ALL=(root) NOPASSWD: /usr/sbin/pvesm, /usr/sbin/qm, /usr/bin/tee %s/[a-zA-Z0-9_][a-zA-Z0-9_.-]*", user,
		snippets,
	)
	return fmt.Sprintf(
			"user %s may not run with sudo and without a password on {host}: %s", user, strings.Join(refused, ", "),
		),
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
