package hive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/remote"
)

// release writes a release with these files.
func release(t *testing.T, files map[string]string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "release.tar.gz")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	zipped := gzip.NewWriter(file)
	archive := tar.NewWriter(zipped)
	for name, text := range files {
		err = errors.Join(
			err,
			archive.WriteHeader(&tar.Header{
				Name: "./" + name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg,
			}),
		)
		_, failed := archive.Write([]byte(text))
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, archive.Close(), zipped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

// setupScript installs the simulated hive as a release's setup.sh does, below $HOME/root.
const setupScript = `set -e
env | grep ^INSTALL_HIVE | sort >"$HOME/setup.env"
root=$HOME/root
mkdir -p "$root/etc/systemd/system" "$root/etc/hive/nats" "$root/etc/hive/predastore" "$root/usr/local/bin" "$root/var/lib/hive/nats"
ln -sfn "$root/etc/hive" "$root/var/lib/hive/config"
echo "# made by setup.sh" >"$root/etc/hive/systemd.env"
echo "# made by setup.sh" >"$root/var/lib/hive/wait-for-nats.sh"
ln -f "$PROGRAM" "$root/usr/local/bin/hive" || cp "$PROGRAM" "$root/usr/local/bin/hive"
unit() {
  name=$1 command=$2
  shift 2
  {
    printf '[Service]\nUser=hive\nExecStart=/usr/local/bin/hive service %s start\n' "$command"
    for variable; do printf 'Environment=HIVE_%s\n' "$variable"; done
  } >"$root/etc/systemd/system/hive-$name.service"
}
config=$root/etc/hive data=$root/var/lib/hive
unit nats nats "CONFIG_PATH=$config/nats/nats.conf"
unit predastore predastore "PREDASTORE_BASE_PATH=$data/predastore/" "PREDASTORE_CONFIG_PATH=$config/predastore/predastore.toml" \
  "PREDASTORE_TLS_CERT=$config/server.pem" "PREDASTORE_TLS_KEY=$config/server.key" PREDASTORE_HOST=$ADDRESS PREDASTORE_PORT=8443 \
  PREDASTORE_BACKEND=distributed PREDASTORE_NODE_ID=1
unit daemon hive "CONFIG_PATH=$config/hive.toml" "BASE_DIR=$data/hive/" "WAL_DIR=$data/hive/"
unit viperblock viperblock "CONFIG_PATH=$config/hive.toml" "BASE_DIR=$data/viperblock/" "VIPERBLOCK_PLUGIN_PATH=$data/wait-for-nats.sh"
unit ui hive-ui "UI_HOST=$ADDRESS" "UI_TLS_CERT=$config/server.pem" "UI_TLS_KEY=$config/server.key"
unit awsgw awsgw "CONFIG_PATH=$config/hive.toml" "BASE_DIR=$data" "AWSGW_TLS_CERT=$config/server.pem" "AWSGW_TLS_KEY=$config/server.key"
`

// fakeSystemctl runs what units say. It starts nothing again, and calls activating what has a file UNIT.starting.
const fakeSystemctl = `units=$HOME/root/etc/systemd/system state=$HOME/units
mkdir -p "$state"
for unit; do :; done
runs() { pid=$(cat "$state/$unit.pid" 2>/dev/null) && [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; }
case $1 in
show)
  if [ -f "$state/$unit.starting" ]; then printf 'ActiveState=activating\nMainPID=0\n'
  elif runs; then printf 'ActiveState=active\nMainPID=%s\n' "$pid"
  else printf 'ActiveState=failed\nMainPID=0\n'
  fi
  cat "$state/$unit.again" 2>/dev/null ;;
start)
  echo "start $unit" >>"$HOME/calls"
  setsid env $(sed -n 's/^Environment=//p' "$units/$unit") $HOME/root$(sed -n 's/^ExecStart=//p' "$units/$unit") </dev/null >>"$state/$unit.log" 2>&1 &
  echo $! >"$state/$unit.pid" ;;
stop)
  echo "stop $unit" >>"$HOME/calls"
  runs && kill "$pid"
  while runs; do sleep 0.02; done ;;
esac
exit 0`

const fakeJournalctl = `for word; do
  case $word in
  --unit=*) unit=${word#--unit=} ;;
  _SYSTEMD_UNIT=*) unit=${word#_SYSTEMD_UNIT=} ;;
  --lines=*) lines=${word#--lines=} ;;
  esac
done
[ -n "$unit" ] || exit 0
tail -n "$lines" "$HOME/units/$unit.log"`

// withSystemd makes the host one that systemd runs.
func (h *localHost) withSystemd() {
	h.t.Helper()
	h.fake("sudo", `[ "$1" = -n ] && shift`+"\n"+`exec "$@"`)
	h.fake("systemctl", fakeSystemctl)
	h.fake("journalctl", fakeJournalctl)
	h.fake("nbdkit", "")
	h.fake("chown", `echo "$*" >>"$HOME/chowned"`)
	for _, dir := range []string{"run/systemd/system", "proc/1"} {
		if err := os.MkdirAll(filepath.Join(h.home, "root", dir), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.home, "root/proc/1/comm"), []byte("systemd\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// uptime is how long this machine has run, in seconds.
func uptime(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var seconds float64
	if _, err := fmt.Sscan(string(text), &seconds); err != nil {
		t.Fatal(err)
	}
	return int(seconds)
}

// A release is installed by its setup.sh where that is asked for; then units run hive: they are started, judged and
// stopped, and what setup.sh has made survives what is removed of a cluster.
func TestLayoutSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	l := newLocal(t, 1, Options{Layout: LayoutSystemd})
	host := l.hosts[0]
	host.withSystemd()
	setup := strings.NewReplacer(
		"$PROGRAM", l.options.Binary, "$ADDRESS", host.node.Management.String(),
	).Replace(setupScript)
	l.options.Binary, l.options.Tarball = "", release(t, map[string]string{"setup.sh": setup, "hive": "not this one"})
	for _, step := range l.Steps() {
		if err := step.Run(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
	}
	if got := host.read("setup.env"); !strings.Contains(
		got, "INSTALL_HIVE_TARBALL="+host.home+"/hive/run/release.tar.gz\n",
	) ||
		!strings.Contains(got, "INSTALL_HIVE_SKIP_AWS=1\n") {
		t.Errorf("setup.sh was told %s", got)
	}
	l.options.Layout = LayoutAuto // the units are there, so it is the same
	host.judged(l, map[string]ServiceState{
		"nats": ServiceUp, "predastore": ServiceUp, "hive": ServiceUp, "awsgw": ServiceUp,
	})
	os.WriteFile(filepath.Join(host.home, "units/hive-predastore.service.starting"), nil, 0o600)
	host.judged(l, map[string]ServiceState{"predastore": ServiceSilent})
	os.Remove(filepath.Join(host.home, "units/hive-predastore.service.starting"))
	for _, again := range []struct {
		seconds int // since systemd has started it again
		want    ServiceState
	}{{2, ServiceSilent}, {60, ServiceUp}} {
		host.write(
			"units/hive-awsgw.service.again",
			fmt.Sprintf("NRestarts=3\nActiveEnterTimestampMonotonic=%d\n", (uptime(t)-again.seconds)*1e6),
		)
		host.judged(l, map[string]ServiceState{"awsgw": again.want})
	}
	os.Remove(filepath.Join(host.home, "units/hive-awsgw.service.again"))

	// Early versions of init leave to root what units read as another user; later ones have a user for each service.
	if got := host.read("chowned"); !strings.HasPrefix(
		got, "-Rh hive: "+host.home+"/root/etc/hive "+host.home+"/root/var/lib/hive\n",
	) {
		t.Errorf("handed over by %q", got)
	}
	os.Remove(filepath.Join(host.home, "chowned"))
	nats := "root/etc/systemd/system/hive-nats.service"
	unit := host.read(nats)
	host.write(nats, strings.Replace(unit, "User=hive", "User=hive-nats", 1))
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(host.home, "chowned")); err == nil {
		t.Error("what belongs to several users was handed over")
	}
	host.write(
		nats,
		unit+"ExecStartPre=/bin/sh -c 'for i in $(seq 1 30); do nc -z 127.0.0.1 4222 && exit 0; sleep 1; done; exit 1'\n",
	)
	if err := l.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "wait for NATS at 127.0.0.1") {
		t.Errorf("units that wait at another address: %v", err)
	}
	host.write(nats, unit)

	os.Remove(filepath.Join(host.home, "calls"))
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"awsgw", "ui", "daemon", "viperblock", "predastore", "nats"}
	for i := range want {
		want[i] = "stop hive-" + want[i] + ".service"
	}
	if got := strings.Split(strings.TrimSpace(host.read("calls")), "\n"); !slices.Equal(got, want) {
		t.Errorf("stopped by %q, not %q", got, want)
	}

	dir := t.TempDir()
	if _, err := l.Collect(t.Context(), host, dir); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "logs/nats.log")); err != nil || len(kept) == 0 {
		t.Errorf("the journal of nats is not kept: %v", err)
	}
	if _, err := l.script(t.Context(), host, "reset.sh", shortTimeout, nil, nil); err != nil {
		t.Fatal(err)
	}
	left := []string{
		"etc/hive", "etc/hive/nats", "etc/hive/predastore", "etc/hive/systemd.env",
		"var/lib/hive/config", "var/lib/hive/nats", "var/lib/hive/wait-for-nats.sh",
	}
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(host.home, "root", name)); err != nil {
			t.Errorf("reset.sh has removed what setup.sh made: %v", err)
		}
	}
	for _, name := range []string{"etc/hive/hive.toml", "etc/hive/ca.pem", "etc/hive/master.key"} {
		if _, err := os.Stat(filepath.Join(host.home, "root", name)); err == nil {
			t.Errorf("reset.sh has left %s", name)
		}
	}
}

// judged checks what is told of some services.
func (h *localHost) judged(l *local, want map[string]ServiceState) {
	h.t.Helper()
	services, err := l.askServices(h.t.Context(), h)
	if err != nil {
		h.t.Fatal(err)
	}
	for name, state := range want {
		if i := slices.IndexFunc(
			services, func(s Service) bool { return s.Name == name },
		); i < 0 || services[i].State != state {
			h.t.Errorf("%s is not %s: %v", name, state, services)
		}
	}
}

// Nodes without systemd, or without units of hive's, say what to do.
func TestLayoutSystemdIsNotThere(t *testing.T) {
	l := newLocal(t, 1, Options{Layout: LayoutSystemd})
	l.options.Binary = ""
	refused := func(want string) {
		t.Helper()
		_, err := l.script(t.Context(), l.hosts[0], "install-binary.sh", shortTimeout, nil, nil)
		if exit, ok := errors.AsType[*remote.ExitError](err); !ok ||
			!strings.Contains(string(exit.Result.Stderr), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	refused("this node has no systemd")
	l.hosts[0].withSystemd()
	refused("hive is not installed with systemd units here")
}
