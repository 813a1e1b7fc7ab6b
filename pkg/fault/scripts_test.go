package fault

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"hive-test/pkg/wait"
)

func scriptFiles(t *testing.T) map[string]string {
	t.Helper()
	entries, err := embedded.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := embedded.ReadFile("scripts/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	return files
}

func TestScriptsParse(t *testing.T) {
	for name, text := range scriptFiles(t) {
		if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name); err != nil {
			t.Error(err)
		}
	}
}

// Every variable that a script takes is said in its header, or in that of common.sh, and is given to it.
func TestScriptsDocumentTheirVariables(t *testing.T) {
	variable := regexp.MustCompile(`FAULT_[A-Z]+`)
	files := scriptFiles(t)
	header := func(text string) string {
		head, _, _ := strings.Cut(text, "\nset -")
		return head
	}
	given := Spec{}.variables()
	for _, name := range []string{"FAULT_ID", "FAULT_SECONDS", "FAULT_PEERS", "FAULT_PORTS", "FAULT_HEAL", "FAULT_IDS"} {
		given[name] = ""
	}
	for name, text := range files {
		for _, used := range variable.FindAllString(text, -1) {
			if !strings.Contains(header(text), used) && !strings.Contains(header(files["common.sh"]), used) {
				t.Errorf("%s takes %s and does not say what it is", name, used)
			}
			if _, found := given[used]; !found {
				t.Errorf("%s takes %s, which nobody gives it", name, used)
			}
		}
	}
}

func TestScriptsPassShellcheck(t *testing.T) {
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	// Variables of common.sh, of records and of the caller are not assigned in a script.
	args := []string{"-s", "bash", "-S", "warning", "-e", "SC2153,SC2154,SC2034,SC1090,SC1091"}
	for name := range scriptFiles(t) {
		args = append(args, filepath.Join("scripts", name))
	}
	if out, err := exec.Command(shellcheck, args...).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

// node is a home with fake programs before all others: what is root's, and what the simulator has not, is told in a log.
type node struct {
	t         *testing.T
	home, log string
}

func newNode(t *testing.T, programs map[string]string) node {
	t.Helper()
	n := node{t: t, home: t.TempDir()}
	n.log = filepath.Join(n.home, "log")
	bin := filepath.Join(n.home, "bin")
	for name, text := range programs {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		text = "#!/bin/bash\n" + text + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// root stands before the paths of its system: that of this machine is not touched.
func (n node) root() string { return filepath.Join(n.home, "root") }

// write writes a file of its system.
func (n node) write(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.root(), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// run runs a script as a node does.
func (n node) run(name string, vars map[string]string) (string, error) {
	n.t.Helper()
	text, err := script(name)
	if err != nil {
		n.t.Fatal(err)
	}
	text = strings.Replace(text, "PATH=$PATH:", "PATH="+filepath.Join(n.home, "bin")+":$PATH:", 1)
	cmd := exec.Command("bash", "-c", text)
	path := filepath.Join(n.home, "bin") + ":" + os.Getenv("PATH")
	cmd.Env = []string{"HOME=" + n.home, "PATH=" + path, "LOG=" + n.log, "HIVE_ROOT=" + n.root()}
	for key, value := range vars {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n node) vars(fault, id string) map[string]string {
	n.t.Helper()
	s, err := Parse(fault)
	if err != nil {
		n.t.Fatal(err)
	}
	heal, err := healer()
	if err != nil {
		n.t.Fatal(err)
	}
	vars := s.variables()
	vars["FAULT_ID"], vars["FAULT_SECONDS"], vars["FAULT_HEAL"] = id, "600", heal
	vars["FAULT_PEERS"], vars["FAULT_PORTS"] = "10.9.9.2 fd00::2", "22"
	return vars
}

func (n node) logged() string {
	n.t.Helper()
	text, err := os.ReadFile(n.log)
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return string(text)
}

// must runs a script that ends well.
func (n node) must(name string, vars map[string]string) string {
	n.t.Helper()
	out, err := n.run(name, vars)
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return out
}

// sudo and what tells of itself, for nodes.
const (
	asIs   = `[ "$1" = -n ] && shift; exec "$@"`
	logged = `echo "${0##*/} $*" >>"$LOG"`
)

// A clock is stepped, NTP is kept from mending that, and both are as before when it is healed, whatever NTP did.
func TestClock(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs,
		"date": `case $1 in --set=*) echo "date $1" >>"$LOG" ;; *) exec /bin/date "$@" ;; esac`,
		"timedatectl": logged + `; [ "$1" != show ] || echo yes
			[ "$2" != true ] || [ -e "$HOME/waited" ] || { touch "$HOME/waited"; exit 1; }`, // it has waited for too long
		"systemctl": `case "$*" in *is-active\ other*) exit 3 ;; *is-active*) exit ;; esac
			` + logged + `; [ "$1" != start ] || [ ! -e "$HOME/broken" ] || { echo "it does not start" >&2; exit 1; }`,
	})
	n.write("usr/lib/systemd/ntp-units.d/50-other.list", "# another\nother.service\n")
	n.write("usr/lib/systemd/ntp-units.d/80-some.list", "some.service\n")
	n.must("apply.sh", n.vars("clock:-1h", "1-clock"))
	text := n.logged()
	stepped := regexp.MustCompile(`(?s)timedatectl set-ntp false\ndate --set=@(\d+)\.\d{9}\n$`).FindStringSubmatch(text)
	if stepped == nil {
		t.Fatalf("it did:\n%s", text)
	}
	if out := n.must("list.sh", nil); !strings.HasPrefix(out, "fault\t1-clock\tclock:-1h\t") {
		t.Errorf("it is listed as %q", out)
	}
	if out, err := n.run("apply.sh", n.vars("clock:+1s", "2-clock")); err == nil || !strings.Contains(out, "1-clock") {
		t.Errorf("a second one is applied: %v\n%s", err, out)
	}
	// timedatectl is content where what it switches on does not start.
	n.write("../broken", "")
	if out := n.must("heal-now.sh", nil); out != "failed\t1-clock\tclock:-1h\tit does not start\n" {
		t.Errorf("healing says %q", out)
	}
	if err := os.Remove(filepath.Join(n.home, "broken")); err != nil {
		t.Fatal(err)
	}
	if out := n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""}); out != "healed\t1-clock\tclock:-1h\n" {
		t.Errorf("healing says %q", out)
	}
	healed := regexp.MustCompile(`(?s)date --set=@(\d+)\.\d\d\ntimedatectl set-ntp true\n` +
		`systemctl reset-failed some.service\nsystemctl start some.service\n$`).FindStringSubmatch(n.logged())
	if healed == nil {
		t.Fatalf("it did:\n%s", n.logged())
	}
	if from, to := number(t, stepped[1]), number(t, healed[1]); to-from < 3595 || to-from > 3660 {
		t.Errorf("it was set to %d, and back to %d", from, to)
	}
	if out := n.must("list.sh", nil); out != "" {
		t.Errorf("afterwards there is %q", out)
	}
}

// Where systemd runs the node, a timer of it heals, and a unit that is for its next start: both are there before anything
// is done, and healing by hand takes them away.
func TestTimer(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "systemd-run": logged, "systemctl": logged, "nft": `cat >/dev/null; echo "nft $1" >>"$LOG"`,
	})
	n.write("proc/1/comm", "systemd\n")
	n.write("run/systemd/system/none", "")
	n.write("etc/systemd/system/none", "")
	n.must("apply.sh", n.vars("partition:2", "1-partition"))
	want := regexp.MustCompile(`^systemd-run --quiet --collect --unit=hive-test-fault-1-partition --on-active=600s ` +
		`--timer-property=AccuracySec=100ms bash \S+/heal.sh \S+/1-partition\nnft -f\n$`)
	if !want.MatchString(n.logged()) {
		t.Errorf("it did:\n%s", n.logged())
	}
	const unit = "hive-test-fault-1-partition-restart.service"
	wanted := filepath.Join(n.root(), "etc/systemd/system/multi-user.target.wants", unit)
	text, err := os.ReadFile(wanted)
	dir := filepath.Join(n.home, ".hive-test/faults/1-partition")
	if err != nil || !strings.Contains(string(text), "\nExecStart=/bin/bash \""+dir+"/heal.sh\" \""+dir+"\"\n") {
		t.Errorf("after a restart there is (%v):\n%s", err, text)
	}
	n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""})
	for _, path := range []string{wanted, filepath.Join(n.root(), "etc/systemd/system", unit)} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("what heals after a restart is left: %v", err)
		}
	}
	if !strings.HasSuffix(n.logged(), "nft add table inet hive_test_partition; delete table inet hive_test_partition\n"+
		"systemctl stop hive-test-fault-1-partition.timer\n") {
		t.Errorf("it did:\n%s", n.logged())
	}
}

// What is asked of tc and nft for a link with all that one can have. This kernel may lack what tc needs.
func TestLink(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "ip": `case $4 in fd00::2) dev=eth1 ;; *) dev=eth0 ;; esac; echo "$4 dev $dev src 10.9.9.1"`,
		"nft": `[ "$1" != -f ] || { echo "nft:"; cat "$([ "$2" = - ] && echo /dev/stdin || echo "$2")"; } >>"$LOG"`,
		"tc":  `echo "tc $*" >>"$LOG"`,
	})
	vars := n.vars("link:delay=100ms,jitter=1.5ms,loss=0.5%,rate=512kbit,up=10s,down=500ms", "1-link")
	n.must("apply.sh", vars)
	want, err := os.ReadFile("testdata/link.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), n.logged()); diff != "" {
		t.Errorf("it did (-want +got):\n%s", diff)
	}
	down, err := os.ReadFile(filepath.Join(n.home, ".hive-test/faults/1-link/down.nft"))
	if err != nil || !strings.Contains(string(down), "ip saddr @four counter drop") ||
		!strings.Contains(string(down), "ip6 daddr @six counter drop") {
		t.Errorf("down is (%v):\n%s", err, down)
	}
	n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""})
}

// A fault whose time is up before a slow node has applied it is applied whole, and healed whole after that.
func TestTimeIsUpBeforeItIsApplied(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "ip": `echo "10.9.9.2 dev eth7 src 10.9.9.1"`,
		"nft": `[ "$1" = -f ] && cat >/dev/null; echo "nft $1" >>"$LOG"`,
		"tc": `echo "tc $2 $1" >>"$LOG"
			case "$*" in *class*) sleep 1.5 ;; *show*) echo "qdisc htb 7e57: root refcnt 2" ;; esac`,
	})
	vars := n.vars("link:rate=1mbit,up=1s,down=1s", "1-link")
	vars["FAULT_SECONDS"] = "0"
	if out := n.must("apply.sh", vars); out != "" {
		t.Errorf("it says %q", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(ctx) {
		if exec.Command("pgrep", "-f", n.home).Run() != nil { // the processes that the node has for it have ended
			break
		}
	}
	if out := n.must("list.sh", nil); out != "" {
		t.Errorf("afterwards there is %q", out)
	}
	applied, healed, _ := strings.Cut(n.logged(), "nft add table inet hive_test_link; delete table inet hive_test_link\n")
	if strings.Count(applied, "tc ") != 3 || strings.Contains(applied, "tc del") || !strings.Contains(healed, "tc del") {
		t.Errorf("it did:\n%s", n.logged())
	}
}

// What fails half-way is taken back at once, and nothing is left; what cannot be healed stays, with the reason.
func TestHalfApplied(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "ip": `echo "10.9.9.2 dev eth7 src 10.9.9.1"`,
		"nft": `[ "$1" = -f ] && cat >/dev/null; echo "nft $1" >>"$LOG"
			[ ! -e "$HOME/broken" ] || { echo "nft: out of order" >&2; exit 1; }`,
		"tc": `echo "tc $*" >>"$LOG"; case "$*" in *class*) exit 1 ;; *show*) echo "qdisc htb 7e57: root refcnt 2" ;; esac`,
	})
	out, err := n.run("apply.sh", n.vars("link:rate=1mbit", "1-link"))
	if err == nil {
		t.Fatalf("it is applied:\n%s", out)
	}
	taken := "tc qdisc del dev eth7 root\n" +
		"nft add table inet hive_test_link_down; delete table inet hive_test_link_down\n"
	if text := n.logged(); !strings.HasSuffix(text, taken) {
		t.Errorf("it did:\n%s", text)
	}
	if out := n.must("list.sh", nil); out != "" {
		t.Errorf("there is %q", out)
	}
	n.must("apply.sh", n.vars("link:loss=1%", "2-link"))
	if err := os.WriteFile(filepath.Join(n.home, "broken"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out = n.must("heal-now.sh", map[string]string{"FAULT_IDS": "2-link"})
	if out != "failed\t2-link\tlink:loss=1%\tnft: out of order\n" {
		t.Errorf("healing says %q", out)
	}
	if out := n.must("list.sh", nil); !strings.HasSuffix(out, "\tnft: out of order\n") {
		t.Errorf("it is listed as %q", out)
	}
	if err := os.Remove(filepath.Join(n.home, "broken")); err != nil {
		t.Fatal(err)
	}
	if out := n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""}); out != "healed\t2-link\tlink:loss=1%\n" {
		t.Errorf("healing says %q", out)
	}
}

// A link goes up and down whatever happens to the clock meanwhile.
func TestFlappingWithSteppedClock(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "ip": `echo "10.9.9.2 dev eth7 src 10.9.9.1"`,
		"nft":  `[ "$2" = - ] && cat >/dev/null; echo "nft $1" >>"$LOG"`,
		"date": `[ -e "$HOME/stepped" ] && exec /bin/date --date=@1 "$@"; touch "$HOME/stepped"; exec /bin/date "$@"`,
	})
	n.must("apply.sh", n.vars("link:up=100ms,down=100ms", "1-link"))
	for end := time.Now().Add(20 * time.Second); strings.Count(n.logged(), "nft -f") < 4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did:\n%s", n.logged())
		}
	}
	n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""})
}

// A file system with blocks that are reserved for root, as ext4 has them: of what is asked to be left, others than root
// can have all. Where nothing is left, other faults can be applied still, and what that takes is filled again.
func TestFullDisk(t *testing.T) {
	n := newNode(t, map[string]string{
		"sudo": asIs, "ip": `echo "10.9.9.2 dev eth7 src 10.9.9.1"`,
		"nft": `[ "$1" = -f ] && cat >/dev/null; exit 0`,
		// 2000 kB, 500 of them for root.
		"stat": `[ "$1" = -f ] || exec /usr/bin/stat "$@"
			free=$((2000 - $(cat "$HOME"/disk/.hive-test-fault-* 2>/dev/null | wc -c) / 1024))
			available=$((free > 500 ? free - 500 : 0))
			case $3 in
			"%f %S") echo "$free 1024" ;;
			"%a %S") echo "$available 1024" ;;
			"%f %a %S") echo "$free $available 1024" ;;
			esac`,
		// A record takes more than there is, unless there is room for others than root.
		"mkdir": `case "$*" in *-partition)
			[ "$(/usr/bin/stat -c %s "$HOME"/disk/.hive-test-fault-*)" -lt 1500000 ] || { echo full >&2; exit 1; }
			esac
			[ ! -e "$HOME/broken" ] || exit 1
			exec /bin/mkdir "$@"`,
	})
	disk := filepath.Join(n.home, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(fault, want string) {
		t.Helper()
		if out := n.must("check.sh", n.vars(fault, "9-disk")); !strings.Contains(out, want) || (want == "") != (out == "") {
			t.Errorf("check of %s says %q, want %q", fault, out, want)
		}
	}
	check("disk:"+disk+",free=1499KB", "")
	check("disk:"+disk+",free=1500KB", "no more than 1536000 bytes are free")
	size := func(id string, want int64) {
		t.Helper()
		file, err := os.Stat(filepath.Join(disk, ".hive-test-fault-"+id))
		if err != nil || file.Size() != want<<10 {
			t.Errorf("the file that takes the room: %v, %v; want %d kB", file, err, want)
		}
	}
	n.must("apply.sh", n.vars("disk:"+disk+",free=100KB", "1-disk"))
	size("1-disk", 1400)
	n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""})
	n.must("apply.sh", n.vars("disk:"+disk, "2-disk"))
	size("2-disk", 2000)
	n.must("apply.sh", n.vars("partition:2", "1-partition"))
	size("2-disk", 2000)
	n.write("../broken", "")
	if out, err := n.run("apply.sh", n.vars("link:loss=1%", "1-link")); err == nil {
		t.Errorf("it is applied: %s", out)
	}
	size("2-disk", 2000)
	if err := os.Remove(filepath.Join(n.home, "broken")); err != nil {
		t.Fatal(err)
	}
	out := n.must("heal-now.sh", map[string]string{"FAULT_IDS": ""})
	if want := "healed\t2-disk\tdisk:" + disk + "\nhealed\t1-partition\tpartition:2\n"; out != want {
		t.Errorf("healing says %q, want the disk first: services may not start while it is full", out)
	}
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	for _, digit := range text {
		n = n*10 + int(digit-'0')
	}
	return n
}
