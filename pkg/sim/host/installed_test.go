package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestInstalled: nothing boots from an empty disk. What an installer has put onto it lets the installer's user in, and nobody whom the
// drive names, until both of its files are gone.
func TestInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		empty := l.spec("101")
		empty.Unbooted = true
		l.start(t, empty)
		if state := l.State("101"); state != Running {
			t.Errorf("with an empty disk the machine is %s", state)
		}
		if _, err := l.Interfaces(t.Context(), "101"); err == nil {
			t.Error("the agent of an empty disk answers")
		}
		restart := func(spec Spec) {
			t.Helper()
			if err := l.Stop(t.Context(), spec.ID); err != nil {
				t.Fatal(err)
			}
			l.start(t, spec)
		}
		installer := newKey(t)
		first := l.spec("101")
		first.Install = fmt.Appendf(nil, "#cloud-config\n{\"users\": [{\"name\": \"made\", \"ssh_authorized_keys\": [%q]}]}\n",
			bytes.TrimSpace(ssh.MarshalAuthorizedKey(installer.PublicKey())))
		restart(first)
		for range 2 {
			if _, _, err := l.dial(t, "101", "ubuntu", l.key); err == nil {
				t.Error("the drive's user was let in")
			}
			c, _, err := l.dial(t, "101", "made", installer)
			if err != nil {
				t.Fatal(err)
			}
			if out, status := sh(t, c, "sudo ls \"$SIM_HOST_ROOT/etc/cloud/cloud.cfg.d\""); status != 0 || !strings.Contains(out, "99-installer.cfg") {
				t.Errorf("%s (%d)", out, status)
			}
			restart(l.spec("101"))
		}
		c, _, err := l.dial(t, "101", "made", installer)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, c, "sudo rm \"$SIM_HOST_ROOT"+installerSource+"\"")
		restart(l.spec("101"))
		if _, _, err := l.dial(t, "101", "ubuntu", l.key); err == nil {
			t.Error("cloud-init ran, although it is disabled")
		}
		l.agentRun(t, "101", "", "rm", l.inside(kind, cloudInitOff))
		restart(l.spec("101"))
		l.client(t, "101")
	})
}

// inside is where the guest agent finds a file.
func (l *lab) inside(kind Kind, name string) string {
	if kind == KindProcess {
		return l.dir("101") + "/upper" + name
	}
	return name
}
