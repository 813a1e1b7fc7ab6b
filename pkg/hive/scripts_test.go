package hive

import (
	"compress/gzip"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

func TestScriptsParse(t *testing.T) {
	for _, name := range ScriptNames() {
		text, err := Script(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := syntax.NewParser(syntax.Variant(
			syntax.LangBash,
		)).Parse(strings.NewReader(text), name); err != nil {
			t.Error(err)
		}
		if !strings.Contains(text, "\nset -euo pipefail\n") {
			t.Errorf("%s does not stop at errors", name)
		}
	}
}

// Whoever overrides a script finds every variable that it gets in its header, or in that of common.sh.
func TestScriptsDocumentTheirVariables(t *testing.T) {
	variable := regexp.MustCompile(`HIVE_[A-Z_]+`)
	// These are hive's own: a script sets them and does not take them.
	hiveOwn := regexp.MustCompile(`^HIVE_?$`)
	common, _ := Script(commonScript)
	documented := func(text string) map[string]bool {
		names := map[string]bool{}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				break
			}
			for _, name := range variable.FindAllString(line, -1) {
				names[name] = true
			}
		}
		return names
	}
	for _, name := range ScriptNames() {
		text, _ := Script(name)
		known := documented(text)
		for _, used := range variable.FindAllString(text, -1) {
			if !known[used] && !documented(common)[used] && !hiveOwn.MatchString(used) {
				t.Errorf("%s takes %s and does not say what it is", name, used)
			}
		}
	}
}

func TestScriptsPassShellcheck(t *testing.T) {
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	// Variables of common.sh and of the caller are not assigned in a script.
	args := []string{"-s", "bash", "-S", "warning", "-e", "SC2153,SC2154,SC2034"}
	for _, name := range ScriptNames() {
		args = append(args, filepath.Join("scripts", name))
	}
	if out, err := exec.Command(shellcheck, args...).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

func TestOverriddenScripts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("start.sh", "echo mine")
	write("README", "no script")
	scripts, err := loadScripts(dir)
	if err != nil || scripts["start.sh"] != "echo mine" || scripts["stop.sh"] == "" {
		t.Errorf("start.sh is %q, stop.sh has %d bytes: %v", scripts["start.sh"], len(scripts["stop.sh"]), err)
	}
	write("stat.sh", "a typing error")
	if problems := (Options{ScriptsDir: dir}).Validate(); len(problems) != 1 ||
		!strings.Contains(problems[0].Error(), "stat.sh replaces no node script") {
		t.Errorf("problems: %v", problems)
	}
}

func TestInputs(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "hive")
	inputs := func(o Options) Inputs {
		t.Helper()
		made, err := o.Inputs()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	os.WriteFile(binary, []byte("one"), 0o700)
	first := inputs(Options{Source: cluster.Source{Binary: binary}})
	if diff := cmp.Diff(first, inputs(Options{Source: cluster.Source{Binary: binary}, Force: true, HealthTimeout: 1})); first.All == "" ||
		diff != "" {
		t.Errorf("force and timeouts change what is installed: %s", diff)
	}
	other := inputs(Options{Source: cluster.Source{Tarball: binary}})
	if other.Steps[StepInstall] == first.Steps[StepInstall] {
		t.Error("a tarball and a binary of the same content are the same program")
	}
	os.WriteFile(binary, []byte("two"), 0o700)
	second := inputs(Options{Source: cluster.Source{Binary: binary}})
	for _, step := range OwnSteps() {
		if changed := first.Steps[step] != second.Steps[step]; changed != (step == StepInstall || step == StepStart) ||
			first.Steps[step] == "" {
			t.Errorf("another program: step %s has changed: %v", step, changed)
		}
	}
	if second.All == first.All {
		t.Error("another program has the same inputs")
	}
	if got := Changed(StepInstall, first.Steps[StepInstall], second.Steps[StepInstall]); got != "the program changed" {
		t.Errorf("%q", got)
	}
	scripts := t.TempDir()
	os.WriteFile(filepath.Join(scripts, "start.sh"), []byte("exit 0"), 0o600)
	if third := inputs(Options{
		Source: cluster.Source{Binary: binary}, ScriptsDir: scripts,
	}); third.Steps[StepStart] == second.Steps[StepStart] ||
		third.Steps[StepInstall] != second.Steps[StepInstall] || third.All == second.All {
		t.Error("another script to start does not change the start alone")
	}
	if got := inputs(Options{Source: cluster.Source{Repo: "https://example.org/hive", Ref: "main"}}); got.All != "" ||
		got.Steps[StepInstall] != "" || got.Steps[StepOS] == "" {
		t.Errorf("a branch, which can move, has the inputs %v", got)
	}
	if inputs(Options{Source: cluster.Source{Repo: "r", Ref: strings.Repeat("a", 40)}}).All == "" {
		t.Error("a commit has no inputs")
	}
	for _, missing := range []Options{
		{Source: cluster.Source{Binary: filepath.Join(dir, "none")}},
		{Source: cluster.Source{Tarball: filepath.Join(dir, "none")}},
		{Source: cluster.Source{SourceDir: filepath.Join(dir, "none")}},
	} {
		if _, err := missing.Inputs(); err == nil {
			t.Errorf("%+v has inputs", missing)
		}
	}
}

func TestASourceTreeIsKnownByItsContent(t *testing.T) {
	tree := func() string {
		dir := t.TempDir()
		os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o700)
		os.MkdirAll(filepath.Join(dir, "scripts"), 0o755)
		os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte(dir), 0o600)
		os.WriteFile(filepath.Join(dir, "Makefile"), []byte("build:\n"), 0o644)
		os.WriteFile(filepath.Join(dir, "scripts", "x.sh"), []byte("exit"), 0o755)
		os.Symlink("x.sh", filepath.Join(dir, "scripts", "y.sh"))
		return dir
	}
	program := func(dir string) string {
		t.Helper()
		made, err := Options{Source: cluster.Source{SourceDir: dir}}.Inputs()
		if err != nil {
			t.Fatal(err)
		}
		return made.All
	}
	one, two := tree(), tree()
	if program(one) != program(two) {
		t.Error("the same files elsewhere, or at another time, are other sources")
	}
	for _, change := range []func() error{
		func() error { return os.Chmod(filepath.Join(two, "scripts", "x.sh"), 0o644) },
		func() error { return os.WriteFile(filepath.Join(two, "new"), nil, 0o644) },
		func() error { return os.WriteFile(filepath.Join(two, "Makefile"), []byte("all:\n"), 0o644) },
	} {
		before := program(two)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if program(two) == before {
			t.Error("a change of the source is not noticed")
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	source := t.TempDir()
	os.WriteFile(filepath.Join(source, "Makefile"), []byte("build:\n"), 0o644)
	for _, tt := range []struct {
		name    string
		options Options
		want    []string
	}{
		{"nothing", Options{}, nil},
		{"repository", Options{Source: cluster.Source{Repo: "https://example.org/hive", Ref: "v1"}}, nil},
		{"tarball", Options{Source: cluster.Source{Tarball: release(t, map[string]string{"hive": "x"})}}, nil},
		{"what is no tarball", Options{Source: cluster.Source{Tarball: os.Args[0]}}, []string{"is not a tar archive"}},
		{"a tarball with the program too deep", Options{Source: cluster.Source{Tarball: release(t, map[string]string{"a/b/c/hive": "x"})}}, []string{"holds no program"}},
		{"a tarball of something else", Options{Source: cluster.Source{Tarball: release(t, map[string]string{"x": "x"})}}, []string{"holds no program"}},
		{"source", Options{Source: cluster.Source{SourceDir: source}}, nil},
		{"two sources", Options{Source: cluster.Source{Repo: "r", Binary: os.Args[0]}}, []string{"use one of --binary and --repo"}},
		{"all sources", Options{Source: cluster.Source{Repo: "r", Binary: os.Args[0], Tarball: os.Args[0], SourceDir: source}}, []string{"one of --binary and --tarball and --source-dir and --repo", "is not a tar archive"}},
		{"ref alone", Options{Source: cluster.Source{Ref: "v1"}}, []string{"add --repo URL"}},
		{"ref of a source", Options{Source: cluster.Source{Ref: "v1", SourceDir: source}}, []string{"add --repo URL"}},
		{"a directory", Options{Source: cluster.Source{Binary: t.TempDir()}}, []string{"is not a file"}},
		{"a text as program", Options{Source: cluster.Source{Binary: filepath.Join(source, "Makefile")}}, []string{"is no program for Linux"}},
		{"a file as source", Options{Source: cluster.Source{SourceDir: filepath.Join(source, "Makefile")}}, []string{"is not a directory", "not a directory"}},
		{"no source of hive", Options{Source: cluster.Source{SourceDir: t.TempDir()}}, []string{"Makefile"}},
		{"units from a program", Options{Source: cluster.Source{Binary: os.Args[0]}, Layout: LayoutSystemd}, []string{"use --tarball in place of --binary"}},
		{"units from what is no release", Options{Source: cluster.Source{Tarball: os.Args[0]}, Layout: LayoutSystemd}, []string{"not a tar archive"}},
		{"units from a release without setup.sh", Options{Source: cluster.Source{Tarball: release(t, map[string]string{"hive": "x"})}, Layout: LayoutSystemd}, []string{"holds no setup.sh"}},
		{"units from a release", Options{Source: cluster.Source{Tarball: release(t, map[string]string{"hive": "x", "setup.sh": "y"})}, Layout: LayoutSystemd}, nil},
		{"units that are there", Options{Layout: LayoutSystemd}, nil},
		{"two at once", Options{Source: cluster.Source{Ref: "v1", Binary: "/nowhere/hive"}}, []string{"add --repo URL", "there is no /nowhere/hive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := tt.options.Validate()
			if len(problems) != len(tt.want) {
				t.Fatalf("problems: %v", problems)
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("%v does not say %q", problems[i], want)
				}
			}
		})
	}
}

func TestWaitCloudInit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string // what `cloud-init status --long` prints
		exit   string
		marker bool
		failed string
		warned bool
	}{
		{name: "done", answer: "status: done\ndetail:\nDataSourceNoCloud", exit: "0"},
		{name: "done with complaints", answer: "status: done\nrecoverable_errors: a package is gone", exit: "2", warned: true},
		{name: "failed", answer: "status: error\ndetail:\nrunparts: 1 failures", exit: "1", failed: "runparts: 1 failures"},
		{name: "never ends", answer: "status: running", exit: "0", failed: "has not finished within 1 seconds"},
		{name: "disabled, marker there", answer: "status: disabled", exit: "0", marker: true},
		{name: "not run, no marker", answer: "status: not run", exit: "0", failed: "there is no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 1, Options{})
			l.options.SkipCloudInit = false
			l.options.CloudInitTimeout = time.Second
			l.hosts[0].unready = 2
			l.hosts[0].fake("cloud-init", "cat <<'END'\n"+tt.answer+"\nEND\nexit "+tt.exit)
			if tt.marker {
				l.override("wait-cloud-init.sh", func(text string) string {
					return "HIVE_CLOUD_INIT_MARKER=/\n" + text
				})
			}
			err := l.WaitCloudInit(t.Context())
			if failed := err != nil; failed != (tt.failed != "") ||
				failed && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("error: %v", err)
			}
			if !l.waited("SSH on ci-1", "connection refused") {
				t.Error("nothing says that the node is not ready yet")
			}
			if l.warned("a package is gone") != tt.warned {
				t.Errorf("warned: %v", !tt.warned)
			}
		})
	}
}

// waited tells whether a wait was reported with why it was not over.
func (l *local) waited(what, why string) bool {
	for _, e := range l.events.Events() {
		if e.Kind == progress.Wait && e.Message == what && e.Error == why {
			return true
		}
	}
	return false
}

// fake puts a command before all others on the node.
func (h *localHost) fake(name, script string) {
	h.t.Helper()
	dir := filepath.Join(h.home, "fake")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// override replaces one node script.
func (l *local) override(name string, change func(string) string) {
	t := l.hosts[0].t
	t.Helper()
	text, err := Script(name)
	if err != nil {
		t.Fatal(err)
	}
	l.options.ScriptsDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(l.options.ScriptsDir, name), []byte(change(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestInstallFromGit(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 2, Options{Source: cluster.Source{Build: BuildEach}})
	repo := gitRepo(t, l.options.Binary)
	l.options.Binary, l.options.Repo, l.options.Ref = "", repo, "v1"
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.hosts[1].read("Development/mulga/hive/stamp") != "built v1\n" {
		t.Error("it was not built on the second node")
	}
	if err := l.Install(t.Context()); err != nil { // the build has left changes in the tree
		t.Error(err)
	}
	l.options.Ref = "v9"
	err := l.Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "on ci-1, ci-2") ||
		!strings.Contains(err.Error(), "there is no ref v9") {
		t.Errorf("a missing ref: %v", err)
	}
}

func TestInstallFromATarball(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 2, Options{})
	dir, program := t.TempDir(), l.options.Binary
	release := func(name string) {
		t.Helper()
		releaseOf(t, dir, program, name)
	}
	release("hive")
	l.options.Binary, l.options.Tarball = "", filepath.Join(dir, "release.tar.gz")
	for range 2 {
		if err := l.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if l.hosts[1].read("hive/bin/nbdkit-viperblock-plugin.so") != "plugin" {
		t.Error("the plugin is not where it is looked for")
	}
	release("readme")
	if err := l.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "holds no program") {
		t.Errorf("a release without a program: %v", err)
	}
	os.WriteFile(l.options.Tarball, []byte("no archive"), 0o600)
	if err := l.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "not a tar archive") {
		t.Errorf("no archive: %v", err)
	}
}

// releaseOf makes a release in dir that holds the program under that name, and returns its path.
func releaseOf(t *testing.T, dir, program, name string) string {
	t.Helper()
	root, archive := filepath.Join(dir, "tree"), filepath.Join(dir, "release.tar.gz")
	os.RemoveAll(root)
	os.MkdirAll(filepath.Join(root, "hive-v1"), 0o755)
	// A script that becomes the program: that itself is large, and takes long to pack.
	text := "#!/bin/bash\nexec -a hive " + program + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(root, "hive-v1", name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(root, "hive-v1", "nbdkit-viperblock-plugin.so"), []byte("plugin"), 0o644)
	file, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	compressed := gzip.NewWriter(file)
	if err := errors.Join(pack(compressed, root), compressed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return archive
}

func TestInstallFromASourceTree(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 2, Options{Source: cluster.Source{Build: BuildEach}})
	repo := gitRepo(t, l.options.Binary)
	l.options.Binary, l.options.SourceDir = "", repo
	for range 2 { // a second time over what the first has left
		if err := l.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.hosts[1].read("Development/mulga/hive/stamp"); got != "built v1\n" {
		t.Errorf("it was not built on the second node: %q", got)
	}
	for _, change := range []Options{{Source: cluster.Source{Repo: repo, Ref: "v1"}}, {Source: cluster.Source{SourceDir: repo}}} { // a clone, then a source tree again
		l.options.Repo, l.options.Ref, l.options.SourceDir = change.Repo, change.Ref, change.SourceDir
		if err := l.Install(t.Context()); err != nil {
			t.Errorf("%+v: %v", change, err)
		}
		if got := l.hosts[1].read("Development/mulga/hive/stamp"); got != "built v1\n" {
			t.Errorf("%+v: %q", change, got)
		}
	}
	os.RemoveAll(filepath.Join(l.hosts[0].home, "Development/mulga/hive"))
	os.MkdirAll(filepath.Join(l.hosts[0].home, "Development/mulga/hive/own"), 0o700)
	if err := l.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("a directory that somebody else has made: %v", err)
	}
}

// gitRepo makes a repository whose build makes the given program.
func gitRepo(t *testing.T, program string) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	dir := t.TempDir()
	makefile := "build:\n\tmkdir -p bin\n\tln -f " + program + " bin/hive || cp " + program +
		" bin/hive\n\techo built $(VERSION) >stamp\n"
	os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600)
	os.WriteFile(filepath.Join(dir, "stamp"), []byte("not built\n"), 0o600)
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "first"},
		{"tag", "v1"},
	} {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func TestParseState(t *testing.T) {
	l := newLocal(t, 1, Options{})
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	host := l.hosts[0]
	os.MkdirAll(filepath.Join(host.home, "hive/config"), 0o700)
	config := "epoch = 1\nnode = \"ci-1\"\n[nodes.ci-1]\nhost = \"x\"\n[nodes.ci-1.nats]\nhost = \"y\"\n[nodes.ci-2]\nnode_x = \"z\"\n"
	os.WriteFile(filepath.Join(host.home, "hive/config/spinifex.toml"), []byte(config), 0o600)
	states, err := l.states(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := states[0]
	if !got.initialized || got.node != "ci-1" || got.nodes != 2 || got.used || got.ca != "" ||
		!strings.HasPrefix(got.version, "hive v") || got.skew.Abs() > maxSkew {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff("ci-1", got.host.Name()); diff != "" {
		t.Error(diff)
	}
}

// No hive has a `start`: its services are started one by one, under the names and with the variables of its era. What
// the scripts themselves take must not reach them, for hive takes any HIVE_* variable as a setting.
func TestServicesAreStartedOneByOne(t *testing.T) {
	for _, era := range []struct{ own, prefix string }{{"hive", "HIVE"}, {"spinifex", "SPINIFEX"}} {
		t.Run(era.own, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 1, Options{})
			host, dir := l.hosts[0], filepath.Join(l.hosts[0].home, "hive")
			nats, err := net.Listen("tcp", host.node.Management.String()+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer nats.Close()
			fakeHive(t, dir, era.own, nats.Addr().String())
			out, err := l.startServices(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Service{
				{"viperblock", ServiceOut, "the program came without nbdkit-viperblock-plugin.so"},
				{"vpcd", ServiceOut, "there is no Open vSwitch bridge br-int"},
			}, out); diff != "" {
				t.Error(diff)
			}
			if _, err := l.script(
				t.Context(), host, "start-gateway.sh", time.Minute,
				map[string]string{"HIVE_STARTS": "1", "HIVE_TIMEOUT": "0"}, nil,
			); err != nil {
				t.Fatal(err)
			}
			prefix, config := era.prefix+"_", dir+"/config"
			for name, want := range map[string][]string{
				"nats": {"CONFIG_PATH=" + config + "/nats/nats.conf"},
				"predastore": {
					"PREDASTORE_BACKEND=distributed", "PREDASTORE_BASE_PATH=" + dir + "/predastore/",
					"PREDASTORE_CONFIG_PATH=" + config + "/predastore/predastore.toml", "PREDASTORE_HOST=127.9.9.9",
					"PREDASTORE_NODE_ID=3", "PREDASTORE_PORT=8443", "PREDASTORE_TLS_CERT=" + config + "/server.pem",
					"PREDASTORE_TLS_KEY=" + config + "/server.key",
				},
				era.own: {
					"BASE_DIR=" + dir + "/" + era.own + "/", "CONFIG_PATH=" + config + "/" + era.own + ".toml",
					"WAL_DIR=" + dir + "/" + era.own,
				},
				"awsgw": {
					"AWSGW_TLS_CERT=" + config + "/server.pem", "AWSGW_TLS_KEY=" + config + "/server.key",
					"BASE_DIR=" + dir, "CONFIG_PATH=" + config + "/" + era.own + ".toml",
				},
			} {
				for i := range want {
					want[i] = prefix + want[i]
				}
				want = append(want, "SSL_CERT_FILE="+dir+"/run/ca-bundle.pem")
				if diff := cmp.Diff(want, host.lines("hive/logs/"+name+".log", len(want))); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			for _, name := range []string{"vpcd", "viperblock", "ui"} {
				if _, err := os.Stat(filepath.Join(dir, "logs", name+".log")); err == nil {
					t.Errorf("%s was started, which cannot run or is not listed", name)
				}
			}
			fakeServicesAreJudged(t, l, era.own, nats)
		})
	}
}

// fakeHive installs a program whose services print their environment and sleep, on a node that is initialized.
func fakeHive(t *testing.T, dir, own, nats string) {
	t.Helper()
	program := "#!/bin/bash\ncase $* in\n'service --help') printf 'Available Commands:\\n  nats  Manage nats\\n  " +
		own + "  Manage it\\n' ;;\n" +
		"service*) env | grep -E '^(HIVE_|SPINIFEX_|SSL)' | sort; exec -a hive sleep 60 ;;\n*) echo unknown command ;;\nesac\n"
	config := `version = "1.0"
node = "ci-1"
services = ["nats", "predastore", "viperblock", "daemon", "awsgw", "vpcd"]
[nodes.ci-2]
[nodes.ci-2.predastore]
host = "10.0.0.2:8443"
[nodes.ci-1]
node = "ci-1"
[nodes.ci-1.predastore]
host = "127.9.9.9:8443"
node_id = 3
[nodes.ci-1.nats]
host = "` + nats + `"
`
	for name, text := range map[string]string{
		"bin/hive": program, "config/" + own + ".toml": config, "config/ca.pem": "CA\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// fakeServicesAreJudged checks what is told of services that run and serve nothing, of one that accepts connections and
// answers none, of one that was killed, and of all when they were stopped, which takes them in order.
func fakeServicesAreJudged(t *testing.T, l *local, own string, nats net.Listener) {
	t.Helper()
	states := func() map[string]ServiceState {
		services, err := l.askServices(t.Context(), l.hosts[0])
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]ServiceState{}
		for _, s := range services {
			found[s.Name] = s.State
		}
		return found
	}
	want := map[string]ServiceState{
		"nats": ServiceSilent, "predastore": ServiceSilent, own: ServiceSilent, "awsgw": ServiceSilent,
		"viperblock": ServiceOut, "vpcd": ServiceOut,
	}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Error(diff)
	}
	go func() {
		for {
			client, err := nats.Accept()
			if err != nil {
				return
			}
			client.Write([]byte("INFO {}\r\n"))
			client.Close()
		}
	}()
	want["nats"] = ServiceUp
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Error(diff)
	}
	l.hosts[0].kill("predastore")
	want["predastore"] = ServiceDead
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Error(diff)
	}
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := states(); len(got) > 0 {
		t.Errorf("of hive that was stopped is told: %v", got)
	}
}

// lines waits until a file has so many lines.
func (h *localHost) lines(name string, count int) []string {
	h.t.Helper()
	var lines []string
	for end := time.Now().Add(30 * time.Second); len(lines) < count && time.Now().Before(end); time.Sleep(
		10 * time.Millisecond,
	) {
		text, _ := os.ReadFile(filepath.Join(h.home, name))
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return lines
}

// A service that lives is never taken for ended: not while it becomes another program either, when the kernel shows no
// command line of it.
func TestAProcessThatBecomesAnotherProgramRuns(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 1, Options{})
	dir := filepath.Join(l.hosts[0].home, "hive")
	fakeHive(t, dir, "hive", "127.0.0.1:1")
	again := "#!/bin/bash\nif [ $TIMES_LEFT -gt 0 ]; then TIMES_LEFT=$((TIMES_LEFT - 1)) exec \"$0\" \"$@\"; fi\nexec -a hive sleep 60\n"
	if err := os.WriteFile(filepath.Join(dir, "bin/hive"), []byte(again), 0o755); err != nil {
		t.Fatal(err)
	}
	watch := `mkdir -p "$log_dir"
start_service awsgw TIMES_LEFT=300
read -r pid <"$log_dir/awsgw.pid"
for ((i = 0; i < 300; i++)); do
  running awsgw >/dev/null || { look_up "$pid"; [ -z "$since" ]; } || fail "it was taken for ended (look $i)"
done
kill "$pid"`
	l.options.ScriptsDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(l.options.ScriptsDir, "state.sh"), []byte(watch), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.states(t.Context()); err != nil {
		t.Error(err)
	}
}
