package host

import (
	"testing"
)

func TestMarkerCommands(t *testing.T) {
	tests := []struct {
		line string
		argv []string
		ok   bool
	}{
		{line: "touch /var/lib/hive-test/cloud-init-done", ok: true},
		{line: "mkdir -p /var/lib/hive-test && touch /var/lib/hive-test/done", ok: true},
		{line: `echo "done" > /tmp/vendor-cloud-init-done`, ok: true},
		{line: "printf '%s\\n' done >> /run/hive/done", ok: true},
		{argv: []string{"touch", "/run/x"}, ok: true},
		{argv: []string{"sh", "-c", "echo done > /tmp/x"}, ok: true},
		{line: "touch /etc/done"},
		{line: "touch /tmp/../etc/done"},
		{line: "touch done"},
		{line: "echo x > /etc/passwd"},
		{line: "echo x > /tmp/a > /etc/b"},
		{line: "echo $(reboot) > /tmp/x"},
		{line: "echo `reboot` > /tmp/x"},
		{line: "touch /tmp/$HOME"},
		{line: "rm -rf /tmp/x"},
		{line: "touch /tmp/x; reboot"},
		{line: "touch /tmp/x || reboot"},
		{line: "touch /tmp/x &"},
		{line: "systemctl enable --now qemu-guest-agent"},
		{line: "apt-get install -y make"},
		{line: "touch /run/"},
		{line: "if true; then touch /tmp/x; fi"},
		{line: "touch '"},
		{line: ""},
	}
	for _, tt := range tests {
		cmds, reason := markerCommands(tt.line, tt.argv)
		if (reason == "") != tt.ok || tt.ok && len(cmds) == 0 {
			t.Errorf("%q %q: %d commands, reason %q, want ok %v", tt.line, tt.argv, len(cmds), reason, tt.ok)
		}
	}
}
