package hive

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/progress"
)

// TestOSEssentials runs the script with the commands of a Debian that is not this machine, whose own files stay as they
// are.
func TestOSEssentials(t *testing.T) {
	const present, absent = "echo installed", "exit 1"
	for _, tt := range []struct {
		name    string
		query   string // dpkg-query
		apt     string // apt-get
		calls   int    // of apt-get
		told    string // while it runs
		failed  string
		printed string
	}{
		{
			name: "the lists are locked for a while", query: absent,
			apt:   `[ $(wc -l <"$HOME/calls") -gt 2 ] || { echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4242 (apt-get)"; exit 100; }`,
			calls: 4,
			told:  "waiting for apt: /var/lib/apt/lists/lock is held by process 4242 (apt-get)",
		},
		{
			name: "the archives are locked, and an early apt does not say by whom", query: absent, apt: `mkdir -p "$HOME/root/proc/77" "$HOME/root/var/cache/apt/archives"; file=$HOME/root/var/cache/apt/archives/lock; : >>"$file"
			printf '%s\0' /usr/bin/python3 /usr/bin/unattended-upgrade >"$HOME/root/proc/77/cmdline"
			printf '1: FLOCK ADVISORY WRITE 5 fe:01:1 0 EOF\n2: POSIX ADVISORY WRITE 77 fe:01:%s 0 EOF\n' "$(stat -c %i "$file")" >"$HOME/root/proc/locks"
			case "$*" in *install*) [ $(wc -l <"$HOME/calls") -gt 3 ] || { echo "E: Could not get lock /var/cache/apt/archives/lock - open (11: Resource temporarily unavailable)"; exit 100; } ;; esac`, calls: 4,
			told: "waiting for apt: /var/cache/apt/archives/lock is held by process 77 (/usr/bin/python3 /usr/bin/unattended-upgrade)",
		},
		{
			name: "locked for good", query: absent,
			apt:    `echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4242 (apt-get)"; exit 100`,
			calls:  60,
			failed: "/var/lib/apt/lists/lock is held by process 4242 (apt-get) for too long",
		},
		{name: "all there, no network", query: present, apt: "exit 100"},
		{name: "installed", query: absent, apt: "exit 0", calls: 2},
		{name: "some are missing", query: `case "$*" in *jq) exit 1 ;; *) echo installed ;; esac`, apt: "exit 0", calls: 2, printed: "install jq"},
		{name: "no network", query: absent, apt: "echo 'Temporary failure resolving deb.debian.org'; exit 100", calls: 1, failed: "Temporary failure resolving"},
		{name: "a package that does not exist", query: absent, apt: `case "$*" in *install*) echo 'E: Unable to locate package'; exit 100 ;; esac`, calls: 2, failed: "cannot be installed: put them into the image or template"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 1, Options{})
			l.options.OSEssentials = true
			host := l.hosts[0]
			host.fake("sudo", `shift; exec "$@"`)
			host.fake("dpkg-query", tt.query)
			host.fake("sleep", "exit 0")
			host.fake("apt-get", `echo "$*" >>"$HOME/calls"`+"\n"+tt.apt)
			l.override(
				"os-essentials.sh",
				func(text string) string { return "SIM_HOST_ROOT=$HOME/root\n: >\"$HOME/calls\"\n" + text },
			)
			for range 2 { // a second run finds what the first has done
				err := l.InstallOS(t.Context())
				text := ""
				if err != nil {
					text = err.Error()
					if failed, ok := err.(*StepError); ok {
						for _, node := range failed.Nodes {
							text += node.Log
						}
					}
				}
				if failed := err != nil; failed != (tt.failed != "") || !strings.Contains(text, tt.failed) {
					t.Errorf("error: %s", text)
				}
			}
			if said := func(e progress.Event) bool { return e.Kind == progress.Output && e.Message == tt.told }; tt.told != "" && !slices.ContainsFunc(l.events.Events(), said) {
				t.Errorf("it does not say %q", tt.told)
			}
			calls := host.read("calls")
			if got := strings.Count(calls, "\n"); got != tt.calls || !strings.Contains(calls, tt.printed) {
				t.Errorf("apt-get was called %d times:\n%s", got, calls)
			}
			if tt.failed == "" &&
				host.read(
					"root/etc/sysctl.d/90-hive.conf",
				) != "net.core.rmem_max = 4194304\nnet.core.wmem_max = 4194304\n" {
				t.Error("the socket buffers are not set")
			}
		})
	}
}

// Packages that were asked for are all that is done on nodes that somebody else has set up.
func TestPackagesAlone(t *testing.T) {
	l := newLocal(t, 1, Options{Packages: []string{"awscli", "jq=1.6-2"}})
	host := l.hosts[0]
	host.fake("sudo", `shift; exec "$@"`)
	host.fake("dpkg-query", `case "$*" in *jq) echo installed ;; *) exit 1 ;; esac`)
	host.fake("apt-get", `echo "$*" >>"$HOME/calls"`)
	l.override(
		"os-essentials.sh", func(text string) string { return "SIM_HOST_ROOT=$HOME/root\n: >\"$HOME/calls\"\n" + text },
	)
	if err := l.InstallOS(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := host.read("calls"); !strings.HasSuffix(calls, " install awscli\n") {
		t.Errorf("apt-get was called so:\n%s", calls)
	}
	if _, err := os.Stat(host.home + "/root"); err == nil {
		t.Error("the host's own settings were changed")
	}
	with, without := Options{Packages: []string{"awscli"}}, Options{}
	if a, b := mustInputs(t, with), mustInputs(t, without); a.All == b.All || a.Steps[StepOS] == b.Steps[StepOS] {
		t.Error("other packages change nothing")
	}
	if problems := (Options{Packages: []string{"jq", "-y", "a b"}}).Validate(); len(problems) != 2 {
		t.Errorf("problems: %v", problems)
	}
}

func mustInputs(t *testing.T, o Options) Inputs {
	t.Helper()
	inputs, err := o.Inputs()
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

func TestOSEssentialsAreAStepOnlyWhereTheyAreNeeded(t *testing.T) {
	for _, tt := range []struct {
		options Options
		needed  bool
	}{{Options{}, false}, {Options{OSEssentials: true}, true}, {Options{Packages: []string{"jq"}}, true}} {
		steps := newLocal(t, 1, tt.options).Steps()
		if found := steps[1].Name == StepOS; found != tt.needed {
			t.Errorf("needed %v, second step %s", tt.needed, steps[1].Name)
		}
	}
}
