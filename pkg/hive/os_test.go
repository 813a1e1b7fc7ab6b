package hive

import (
	"strings"
	"testing"
)

// TestOSEssentials runs the script with the commands of a Debian that is not this machine, whose own files stay as they are.
func TestOSEssentials(t *testing.T) {
	const present, absent = "echo installed", "exit 1"
	for _, tt := range []struct {
		name    string
		query   string // dpkg-query
		apt     string // apt-get
		calls   int    // of apt-get
		failed  string
		printed string
	}{
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
			host.fake("apt-get", `echo "$*" >>"$HOME/calls"`+"\n"+tt.apt)
			l.override("os-essentials.sh", func(text string) string { return "SIM_HOST_ROOT=$HOME/root\n: >\"$HOME/calls\"\n" + text })
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
			calls := host.read("calls")
			if got := strings.Count(calls, "\n"); got != tt.calls || !strings.Contains(calls, tt.printed) {
				t.Errorf("apt-get was called %d times:\n%s", got, calls)
			}
			if tt.failed == "" && host.read("root/etc/sysctl.d/90-hive.conf") != "net.core.rmem_max = 4194304\nnet.core.wmem_max = 4194304\n" {
				t.Error("the socket buffers are not set")
			}
		})
	}
}

func TestOSEssentialsAreAStepOnlyWhereTheyAreNeeded(t *testing.T) {
	for _, needed := range []bool{false, true} {
		steps := newLocal(t, 1, Options{OSEssentials: needed}).Steps()
		if found := steps[1].Name == StepOS; found != needed {
			t.Errorf("needed %v, second step %s", needed, steps[1].Name)
		}
	}
}
