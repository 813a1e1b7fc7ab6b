package host

import (
	"bytes"
	"strings"
	"testing"
)

func TestAptGetInstallsNothing(t *testing.T) {
	t.Setenv("SUDO_USER", "tf-user")
	for _, tc := range []struct {
		args, want string
		status     int
	}{
		{"-q -o DPkg::Lock::Timeout=300 update", "", 0},
		{"-q -y -o DPkg::Lock::Timeout=300 install jq make", "jq: not installed, this is a simulated host\nmake: not installed, this is a simulated host\n", 0},
		{"install", "only update and install are simulated", 100},
		{"dist-upgrade", "only update and install are simulated", 100},
		{"--purge install jq", "is not understood", 100},
	} {
		var out bytes.Buffer
		if status := runAptGet(strings.Fields(tc.args), &out, &out); status != tc.status ||
			!strings.Contains(out.String(), tc.want) {
			t.Errorf("apt-get %s: status %d, %q", tc.args, status, out.String())
		}
	}
}
