package hive

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/sim/sshd"
)

// builtTree makes a source tree like upstream's: dev-setup.sh builds, and the program says VERSION and COMMIT. Each
// build adds a line to ../builds.
func builtTree(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Makefile": "VERSION ?= none\nCOMMIT ?= none\nbuild:\n\tmkdir -p bin ../viperblock/lib\n\tprintf '#!/bin/sh\\necho hive %s %s\\n' '$(VERSION)' '$(COMMIT)' >bin/hive\n" +
			"\tchmod 755 bin/hive\n\techo plugin >../viperblock/lib/nbdkit-viperblock-plugin.so\n\techo '$(VERSION) $(COMMIT)' >>../builds\n",
		"scripts/dev-setup.sh": "#!/bin/sh\nset -e\nmake build\n",
		"scripts/setup-ovn.sh": "#!/bin/sh\n",
		"a b/file one":         "1\n",
		"a b/two":              "2\n",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("two", filepath.Join(dir, "a b/link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (l *local) said(part string) int {
	count := 0
	for _, e := range l.events.Events() {
		if e.Kind == progress.Info && strings.Contains(e.Message, part) {
			count++
		}
	}
	return count
}

// Built once, on the first node, in one go, with the version of the source; the others get that build.
func TestSourceIsBuiltOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 3, Options{})
	dir := builtTree(t)
	l.options.Binary, l.options.SourceDir = "", dir
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	read, err := readTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "src-" + read.hash() + " " + read.hash() + "\n"
	if got := l.hosts[0].read("Development/mulga/builds"); got != want {
		t.Errorf("built: %q, want %q", got, want)
	}
	for _, host := range l.hosts[1:] {
		if _, err := os.Stat(filepath.Join(host.home, "Development/mulga/hive/Makefile")); err == nil {
			t.Errorf("%s has got the source", host.Name())
		}
		if host.read("hive/bin/nbdkit-viperblock-plugin.so") != "plugin\n" ||
			host.read("hive/bin/release/setup-ovn.sh") == "" {
			t.Errorf("%s lacks what came with the program", host.Name())
		}
	}
	for _, state := range l.seen {
		if state.version != "hive "+strings.TrimSpace(want) {
			t.Errorf("%s has %q", state.host.Name(), state.version)
		}
	}
	os.RemoveAll(filepath.Join(l.hosts[2].home, "hive/bin")) // gets it again, without a build
	if err := l.reinstallOnly(t, 2); err != nil {
		t.Fatal(err)
	}
	if got := l.hosts[0].read("Development/mulga/builds"); got != want {
		t.Errorf("built again: %q", got)
	}

	// The others build too now: what they have got is not in the way of what a build clones.
	for _, host := range l.hosts[1:] {
		if _, err := os.Stat(filepath.Join(host.home, "Development/mulga/viperblock")); err == nil {
			t.Errorf("%s would not clone viperblock", host.Name())
		}
	}
	l.options.Build = BuildEach
	if err := l.Install(t.Context()); err != nil {
		t.Error(err)
	}
	if link, _ := os.Readlink(filepath.Join(
		l.hosts[1].home, "hive/bin/nbdkit-viperblock-plugin.so",
	)); !strings.Contains(link, "/Development/") {
		t.Errorf("the plugin is not that of the last build: %q", link)
	}
}

// Nodes read what was built from the first itself, over SSH, and through this machine where that cannot be.
func TestABuildIsPassedOn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("ssh is not installed")
	}
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, l *local)
		why   string // it is not read from the first node
	}{
		{"from the first", func(*testing.T, *local) {}, ""},
		{"no newline at the end of the file of keys", func(t *testing.T, l *local) { l.hosts[0].write(".ssh/authorized_keys", "# mine") }, ""},
		{"nothing answers", func(_ *testing.T, l *local) { l.hosts[0].port = "1" }, "refused"},
		{"another host key", func(t *testing.T, l *local) { l.hosts[0].write("root/etc/ssh/ssh_host_ed25519_key.pub", publicKey(t)) }, "Host key verification failed"},
		{"no host key", func(_ *testing.T, l *local) {
			os.Remove(filepath.Join(l.hosts[0].home, "root/etc/ssh/ssh_host_ed25519_key.pub"))
		}, "host keys of ci-1 are not in /etc/ssh"},
		{"keys are kept elsewhere", func(_ *testing.T, l *local) { os.RemoveAll(filepath.Join(l.hosts[0].home, ".ssh")) }, "kept elsewhere"},
		{"a shell that prints", func(_ *testing.T, l *local) { l.hosts[0].write("noise", "hello\n") }, "damaged"},
		{"no key can be made", func(_ *testing.T, l *local) {
			l.hosts[1].write("fake/ssh-keygen", "#!/bin/sh\necho no key today >&2; exit 1\n")
			os.Chmod(filepath.Join(l.hosts[1].home, "fake/ssh-keygen"), 0o755)
		}, "no key today"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 2, Options{})
			l.options.Binary, l.options.SourceDir = "", builtTree(t)
			l.hosts[0].write(".ssh/authorized_keys", "")
			l.hosts[0].serveSSH()
			test.spoil(t, l)
			before, _ := os.ReadFile(filepath.Join(l.hosts[0].home, ".ssh/authorized_keys"))
			if err := l.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := l.said("itself, but through this machine: "); (got == 0) != (test.why == "") {
				t.Errorf("through this machine: %d times", got)
			}
			if test.why != "" && l.said(test.why) == 0 {
				t.Errorf("it does not say %q: %v", test.why, l.events.Events())
			}
			if got := l.hosts[0].downloads.Load(); (got == 0) != (test.why == "") {
				t.Errorf("%d downloads", got)
			}
			if got, _ := os.ReadFile(filepath.Join(
				l.hosts[0].home, ".ssh/authorized_keys",
			)); strings.TrimSpace(string(got)) != string(before) {
				t.Errorf("keys that are left: %q", got)
			}
			if keys, _ := filepath.Glob(filepath.Join(l.hosts[1].home, "hive/run/build-*")); test.why == "" &&
				len(keys) > 0 {
				t.Errorf("left on ci-2: %v", keys)
			}
			if l.hosts[1].read("hive/bin/release/setup-ovn.sh") == "" {
				t.Error("ci-2 has not got it")
			}
		})
	}
}

// serveSSH gives the host an SSH server, whose shell prints the file noise.
func (h *localHost) serveSSH() {
	h.t.Helper()
	key, err := sshd.LoadKey(filepath.Join(h.home, "root/etc/ssh/ssh_host_ed25519_key"), "")
	if err != nil {
		h.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", h.node.Management.String()+":0")
	if err != nil {
		h.t.Fatal(err)
	}
	_, h.port, _ = net.SplitHostPort(listener.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- sshd.Serve(ctx, listener, sshd.Config{
			HostKey: key,
			Authorized: func(user string, key ssh.PublicKey) (sshd.Login, bool) {
				keys, _ := os.ReadFile(filepath.Join(h.home, ".ssh/authorized_keys"))
				login, ok := sshd.Find(keys, key, time.Now())
				return login, ok && user == "admin"
			},
			Exec: func(ctx context.Context, s *sshd.Session) int {
				cmd := exec.CommandContext(
					ctx, "bash", "-c", "cat "+filepath.Join(h.home, "noise")+" 2>/dev/null;"+s.Command,
				)
				cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
				_ = cmd.Run()
				return cmd.ProcessState.ExitCode()
			},
		})
	}()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
}

// publicKey is the public half of a key that nobody has.
func publicKey(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if _, err := sshd.LoadKey(file, ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reinstallOnly installs on one node alone, as if the others had it from before.
func (l *local) reinstallOnly(t *testing.T, i int) error {
	l.course.Journal = doneOnOthers(l.hosts[i].Name())
	defer func() { l.course.Journal = nil }()
	return l.Install(t.Context())
}

// doneOnOthers is a journal in which all is done but on one node.
type doneOnOthers string

func (d doneOnOthers) Done(_, node string) bool                      { return node != string(d) }
func (d doneOnOthers) Begin(context.Context, string, []string) error { return nil }
func (d doneOnOthers) End(context.Context, string, error)            {}

func TestSourceBuiltHere(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 2, Options{Source: cluster.Source{Build: BuildLocal}})
	l.options.Binary, l.options.SourceDir = "", builtTree(t)
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, host := range l.hosts {
		if host.read("hive/bin/nbdkit-viperblock-plugin.so") != "plugin\n" {
			t.Error(host.Name() + " lacks the plugin")
		}
	}
	os.WriteFile(
		filepath.Join(l.options.SourceDir, "Makefile"),
		[]byte("build:\n\techo broken flags=$$GOFLAGS env=$$GOENV; exit 3\n"), 0o644,
	)
	err := l.Install(t.Context())
	if err == nil ||
		!strings.Contains(err.Error(), "building hive on this machine: install-source.sh: exit status 2: make") ||
		!strings.Contains(err.Error(), "\n    | broken") {
		t.Errorf("a build that fails: %v", err)
	}
	// What go is told by the user's own settings counts, and what it has compiled before, wherever that was.
	settings, _ := exec.Command("go", "env", "GOENV").Output()
	if err != nil &&
		(!strings.Contains(err.Error(), "-trimpath env="+strings.TrimSpace(string(settings))) || len(settings) == 0) {
		t.Errorf("the build's settings: %v", err)
	}
}

func TestOnlyWhatChangedIsSent(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 1, Options{})
	dir, home := builtTree(t), l.hosts[0].home
	l.options.Binary, l.options.SourceDir = "", dir
	there := filepath.Join(home, "Development/mulga/hive")
	for _, step := range []struct {
		name   string
		change func() error
		said   string
	}{
		{"first", func() error { return nil }, "6 of 6 files of the source sent"},
		{"nothing", func() error { return nil }, "0 of 6 files of the source sent (0 B), 0 removed"},
		{"one file", func() error { return os.WriteFile(filepath.Join(dir, "a b/file one"), []byte("new\n"), 0o644) }, "1 of 6 files of the source sent (4 B), 0 removed"},
		{"damaged on the node", func() error { return os.WriteFile(filepath.Join(there, "a b/two"), []byte("??\n"), 0o644) }, "1 of 6 files of the source sent (2 B), 0 removed"},
		{"gone on the node", func() error { return os.RemoveAll(filepath.Join(there, "a b")) }, "3 of 6 files of the source sent (6 B)"},
		{"removed", func() error { return os.Remove(filepath.Join(dir, "a b/two")) }, "0 of 5 files of the source sent (0 B), 1 removed"},
		{"a directory for a link", func() error {
			os.Remove(filepath.Join(dir, "a b/link"))
			os.Mkdir(filepath.Join(dir, "a b/link"), 0o755)
			return os.WriteFile(filepath.Join(dir, "a b/link/x"), nil, 0o644)
		}, "1 of 5 files of the source sent (0 B), 1 removed"},
		{"all gone", func() error { return os.RemoveAll(there) }, "5 of 5 files of the source sent"},
	} {
		before := l.said(step.said)
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if err := l.Install(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if l.said(step.said) != before+1 {
			t.Errorf("%s: it does not say %q", step.name, step.said)
			for _, e := range l.events.Events() {
				t.Log(e.Kind, e.Message)
			}
		}
		want, err := readTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readTree(there)
		if err != nil {
			t.Fatal(err)
		}
		for _, left := range []string{"bin", "bin/hive", ".uploaded"} {
			delete(got.entries, left)
		}
		if diff := cmp.Diff(want.entries, got.entries, cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func TestVersionOfATree(t *testing.T) {
	dir := gitRepo(t, "/bin/true")
	version := func() string {
		t.Helper()
		read, err := readTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		version, commit := read.version()
		if len(commit) < 7 {
			t.Errorf("commit %q", commit)
		}
		return version
	}
	if got := version(); got != "v1" {
		t.Errorf("a tag: %q", got)
	}
	os.WriteFile(filepath.Join(dir, "new"), []byte("1"), 0o600)
	one := version()
	os.WriteFile(filepath.Join(dir, "new"), []byte("2"), 0o600)
	if two := version(); !strings.HasPrefix(one, "v1-dirty-") || one == two {
		t.Errorf("with a change %q, with another %q", one, two)
	}
	os.RemoveAll(filepath.Join(dir, ".git"))
	if got := version(); !strings.HasPrefix(got, "src-") {
		t.Errorf("without git: %q", got)
	}
}

// A build takes minutes, and shows what it prints only where that is asked for: that it goes on is said.
func TestABuildSaysThatItGoesOn(t *testing.T) {
	t.Parallel()
	for _, where := range []string{BuildFirst, BuildLocal} {
		l := newLocal(t, 1, Options{Source: cluster.Source{Build: where}})
		l.signEvery = 100 * time.Millisecond
		dir := builtTree(t)
		if err := os.WriteFile(
			filepath.Join(dir, "scripts/dev-setup.sh"),
			[]byte("#!/bin/sh\nset -e\necho compiling\nsleep 1\nmake build\n"), 0o755,
		); err != nil {
			t.Fatal(err)
		}
		l.options.Binary, l.options.SourceDir = "", dir
		if err := l.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := false
		for _, e := range l.events.Events() {
			said = said ||
				e.Kind == progress.Wait && strings.HasPrefix(e.Message, "the build of hive, ") &&
					(where == BuildLocal) == (e.Node == "")
		}
		if !said {
			t.Errorf("%s: nothing was said", where)
		}
	}
}
