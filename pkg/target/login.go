package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// agent is the answer that the keys are those of the SSH agent.
const agent = "agent"

// answerTime bounds the look whether an SSH server is there.
const answerTime = 3 * time.Second

// findLogin asks how the hypervisors are reached over SSH, where making VMs needs that.
func (s *search) findLogin() error {
	spec := cluster.Spec{OSImage: s.Settings.OSImage, Template: s.Settings.TemplateID(), TemplateName: s.Settings.TemplateName(), CloudInit: s.Settings.CloudInit}
	if !slices.ContainsFunc(s.hosts, func(o offer) bool { return placement.NeedsHypervisorSSH(spec, o.Name) }) {
		return nil
	}
	user, err := s.answer(Question{
		Text: "User for SSH to the hypervisors", Flag: "--proxmox-ssh-username", Usual: s.access.SSHUsername,
	}, s.ifGiven("proxmox.ssh_username", s.access.SSHUsername))
	if err != nil {
		return err
	}
	s.say("proxmox.ssh_username", user, "")
	q := Question{
		Text: "Private key for it, a path, or agent for the keys of the SSH agent", Flag: "--proxmox-ssh-private-key-path",
		Usual: s.usualKey(),
	}
	given := s.access.SSHPrivateKeyPath
	if s.Ask == nil && q.Usual == "" && given == "" {
		given = agent // which may be there when the file is used
	}
	q.Usual = cmp.Or(q.Usual, agent) // for the same reason; doubtLogin warns
	key, err := s.answer(q, given)
	for err == nil && given == "" && s.Ask != nil && s.lacksKey(key) {
		key, err = s.answer(q, "")
	}
	if err != nil {
		return err
	}
	if key == agent {
		key = ""
	} else {
		s.say("proxmox.ssh_private_key_path", key, "")
	}
	s.doubtLogin(key)
	return nil
}

// lacksKey reports whether an answer names a key that is not there, and warns of that.
func (s *search) lacksKey(key string) bool {
	if key == "" || key == agent {
		return false
	}
	info, err := os.Stat(config.Absolute(atHome(key)))
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", key)
	}
	if err != nil {
		progress.Warn(s.Sink, "there is no such key: "+err.Error(), "")
	}
	return err != nil
}

// usualKey is the agent, if it holds keys, or else the key that ssh would take; empty: there is neither.
func (s *search) usualKey() string {
	if remote.CheckKey("", s.Settings.SSH.AgentSocket) == nil {
		return agent
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		if key := filepath.Join("~", ".ssh", name); remote.OwnKey(atHome(key)) {
			return key
		}
	}
	return ""
}

// doubtLogin warns where the key cannot be used here, or no SSH server answers where it is to be used.
func (s *search) doubtLogin(key string) {
	if key != "" {
		key = config.Absolute(atHome(key))
	}
	if err := remote.CheckKey(key, s.Settings.SSH.AgentSocket); err != nil {
		progress.Warn(
			s.Sink, "no key for the hypervisors: "+err.Error(), "name one with --proxmox-ssh-private-key-path",
		)
	}
	failures := make([]error, len(s.hosts))
	var wait sync.WaitGroup
	for i, h := range s.hosts {
		if h.Address != "" {
			wait.Go(func() { failures[i] = answersSSH(s.ctx, h.WithDefaults()) })
		}
	}
	wait.Wait()
	var silent, examples []string
	for i, h := range s.hosts {
		if failures[i] != nil {
			silent = append(silent, fmt.Sprintf("%s (%v)", h.Name, failures[i]))
			examples = append(examples, h.Name+"="+net.JoinHostPort(h.Address, "PORT"))
		}
	}
	if len(silent) > 0 && s.ctx.Err() == nil {
		progress.Warn(
			s.Sink, "no SSH server answers on "+strings.Join(silent, ", "),
			"if it has another address or port: --hypervisors "+strings.Join(examples, ","),
		)
	}
}

// answersSSH waits for the first words of a hypervisor's SSH server.
func answersSSH(ctx context.Context, h placement.Hypervisor) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(h.Address, fmt.Sprint(h.Port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	greeting := make([]byte, len("SSH-"))
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "SSH-" {
		return errors.New("what answers at " + conn.RemoteAddr().String() + " is no SSH server")
	}
	return nil
}

// atHome is a path whose ~/ stands for the home directory.
func atHome(path string) string {
	rest, found := strings.CutPrefix(path, "~/")
	home, err := os.UserHomeDir()
	if !found || err != nil {
		return path
	}
	return filepath.Join(home, rest)
}
