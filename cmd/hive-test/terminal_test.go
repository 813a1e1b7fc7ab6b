package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
)

// size is that of a window.
type size struct{ width, height int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.width, s.height) }

// TestTerminal records what people see in windows of three sizes, in tmux. Nothing is wider than the window; what is left on the
// screen is kept in testdata/terminal, without colors, times and ids (-update writes it).
func TestTerminal(t *testing.T) {
	needTmux(t)
	for _, window := range []size{{60, 20}, {80, 24}, {120, 40}} {
		t.Run(window.String(), func(t *testing.T) {
			if usual := (size{80, 24}); window != usual && !soaking() && !*update {
				t.Skip("takes a minute: make soak runs it")
			}
			t.Parallel()
			w := startSimulator(t, "--task-duration", "0s", "--boot-delay", "0s")
			r := newRecorder(w, window)
			r.record("doctor", 3, "doctor --sim --data-bridge vmbr9 --pool qa --memory-mb 1000000 --vmid-base 24000")
			r.record("dry-run", 0, "up record --sim --node-count 3 --vmid-base 24000 --dry-run")
			r.record("full", 0, "full record --sim --node-count 2 --vmid-base 24000 --keep always")
			r.record("dry-run-change", 0, "up record --memory-mb 9000 --dry-run")
			r.fits("status", r.run(0, "status")) // its golden would depend on how long the names of user and host are
			r.watch()
			r.record("exec", 3, "exec record -- 'echo one; echo another; exit 3'")
			r.run(0, `exec record -- 'echo "{\"fail\":{\"init\":{\"exit\":1,\"stderr\":\"no space left on device\"}}}" >~/.hive-sim.json'`)
			r.record("configure-fails", 5, "configure record --force --keep always")
			r.record("reap", 0, "reap --sim --older-than 1s --dry-run")
		})
	}
}

// TestTerminalIsResized makes and deletes a cluster while the window becomes narrower and wider: the live view is never there
// twice, and nothing of it is left.
func TestTerminalIsResized(t *testing.T) {
	needTmux(t)
	w := startSimulator(t)
	r := newRecorder(w, size{120, 40})
	window := r.open("full record --sim --node-count 3 --vmid-base 24000 --keep never")
	sizes := []size{{60, 20}, {80, 24}, {120, 40}, {40, 20}, {30, 8}, {100, 30}, {80, 12}}
	for i := 0; !strings.Contains(window.text(), "[exit "); i++ {
		if i > 1200 {
			t.Fatalf("it does not end:\n%s", window.text())
		}
		if i%4 == 0 {
			window.resize(sizes[i/4%len(sizes)])
		}
		time.Sleep(pace)
		once(t, window.text())
	}
	window.ended(0)
	if left := headline.FindString(window.text()); left != "" {
		t.Errorf("%q is left of the live view:\n%s", left, window.text())
	}
}

// TestLowTerminal makes and deletes a cluster in windows that are lower than the live view might be.
func TestLowTerminal(t *testing.T) {
	soak(t)
	needTmux(t)
	r := newRecorder(startSimulator(t, "--task-duration", "0s", "--boot-delay", "0s"), size{80, 12})
	for _, low := range []size{{80, 12}, {80, 6}, {40, 2}} {
		r.window = low
		r.run(0, "full record --sim --node-count 3 --vmid-base 24000 --keep never")
	}
}

// TestTerminalTellsOnce waits for a cluster that is not configured: why it is not healthy, and what comes next, is told once.
func TestTerminalTellsOnce(t *testing.T) {
	needTmux(t)
	r := newRecorder(startSimulator(t, "--task-duration", "0s", "--boot-delay", "0s"), size{60, 20})
	r.run(0, "up record --sim --node-count 1 --vmid-base 24000")
	text := r.run(10, "wait record --timeout 500ms").text()
	for _, once := range []string{"not configured yet", "configure record", "not healthy after"} {
		if strings.Count(text, once) != 1 {
			t.Errorf("%q is not told once:\n%s", once, text)
		}
	}
}

// TestTerminalIsInterrupted presses Ctrl-C while the live view is there: what is said of that stands above it, whole. Before,
// another run is refused: the cluster is locked, which is told in the width of its window, and to what is no terminal in one line.
func TestTerminalIsInterrupted(t *testing.T) {
	needTmux(t)
	r := newRecorder(startSimulator(t), size{60, 20})
	window := r.open("up record --sim --node-count 2 --vmid-base 24000 --keep never")
	window.await("• tofu apply")
	refused := r.run(8, "up record").text()
	for line := range strings.Lines(refused) {
		if runewidth.StringWidth(strings.TrimRight(line, " \n")) > r.window.width {
			t.Errorf("what a run is refused with is too wide:\n%s", refused)
		}
	}
	if !strings.Contains(refused, "`hive-test up record`") {
		t.Errorf("the command that locks it is broken:\n%s", refused)
	}
	if plain := r.run(8, "up record 2>err").text(); strings.Contains(plain, "locked") {
		t.Errorf("stderr is no terminal:\n%s", plain)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, "err")); err != nil || !regexp.MustCompile(`^error: .*\)\nhint: .*\n$`).Match(text) {
		t.Errorf("%v\n%s", err, text)
	}
	window.keys("C-c")
	window.await("[exit ")
	window.ended(130)
	r.fits("up", window)
	text := window.text()
	if !strings.Contains(text, "interrupt: stopping, and cleaning up") || headline.MatchString(text) {
		t.Errorf("the view was torn:\n%s", text)
	}
}

// pace is how often a window is looked at.
const pace = 50 * time.Millisecond

// headline is the first line of the live view.
var headline = regexp.MustCompile(`(?m)^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] .*$`)

// once checks that the live view is there at most once.
func once(t testing.TB, text string) {
	t.Helper()
	if found := headline.FindAllString(text, -1); len(found) > 1 {
		t.Errorf("the live view is there %d times:\n%s", len(found), text)
	}
}

func needTmux(t *testing.T) {
	t.Helper()
	skipInShort(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: apt-get install tmux")
	}
}

// recorder runs hive-test in windows of one size.
type recorder struct {
	*testEnv
	window size
	opened int
}

func newRecorder(w *testEnv, window size) *recorder {
	w.Helper()
	if err := os.Symlink(w.tofu, filepath.Join(w.dir, "tofu")); err != nil {
		w.Fatal(err)
	}
	return &recorder{testEnv: w, window: window}
}

// record runs a command line of hive-test and compares what is on the screen at its end with the golden.
func (r *recorder) record(name string, code int, line string) {
	r.Helper()
	window := r.open(line)
	window.settled(func(text string) bool {
		once(r, text)
		return strings.Contains(text, "[exit ")
	})
	window.ended(code)
	r.fits(name, window)
	r.golden(name, window.text())
}

// run runs a command line to its end.
func (r *recorder) run(code int, line string) *window {
	r.Helper()
	window := r.open(line)
	window.await("[exit ")
	window.ended(code)
	return window
}

// watch looks at the cluster in a window that is made smaller, and ends it as people do.
func (r *recorder) watch() {
	r.Helper()
	window := r.open("status record --watch --interval 10m") // it is not the next look that fits the window
	window.await("(Ctrl-C ends)")
	r.fits("status --watch", window)
	head := regexp.MustCompile(`(?m)^NODE .*$`)
	columns := head.FindString(window.text())
	window.resize(size{44, 8})
	window.await("NODE")
	window.settled(func(text string) bool { return len(wide(text, 44)) == 0 && strings.HasPrefix(text, "20") })
	window.resize(r.window)
	window.await(columns)
	window.keys("C-c")
	window.await("[exit ")
	window.ended(0)
	r.fits("status --watch", window)
	r.golden("status-watch", window.text())
}

// fits checks that no line is wider than the window, but for those that are to be copied: commands, and paths.
func (r *recorder) fits(name string, w *window) {
	r.Helper()
	for _, line := range wide(w.text(), r.window.width) {
		r.Errorf("%s in a window of %s: this line is too wide:\n%s", name, r.window, line)
	}
}

// command is a line that is to be copied.
var command = regexp.MustCompile(`hive-test |^ *(cd|export) `)

// wide returns the lines that a window breaks though it need not.
func wide(text string, width int) []string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if runewidth.StringWidth(line) > width && !command.MatchString(line) && strings.Contains(strings.TrimSpace(line), " ") {
			list = append(list, line)
		}
	}
	return list
}

// golden compares text with what is kept.
func (r *recorder) golden(name, text string) {
	r.Helper()
	path := filepath.Join("..", "..", "testdata", "terminal", name+"-"+r.window.String()+".txt")
	got := timeless(text, r.dir)
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			r.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		r.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

// timeless is text without what is another at every run: times, ids, addresses, and the order in which nodes are done.
func timeless(text, dir string) string {
	for _, change := range []struct{ from, to string }{
		{`\s+` + regexp.QuoteMeta(dir), " DIR"}, // where the line is broken depends on it
		{regexp.QuoteMeta(dir), "DIR"},
		{`/bin/[0-9a-f]{16}/`, "/bin/HASH/"},
		{`[\w.-]+@[\w.-]+`, "USER@HOST"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "DATE"},
		{`\d{8}T\d{6}\.\d{3}Z`, "TIME"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "ID"},
		{`\b(\d+m)?\d+(\.\d+)?s\b`, "N.Ns"},
		{`\b(10|127)\.\d+\.\d+\.\d+\b`, "ADDRESS"},
		{`(OpenTofu|Terraform) \d+\.\d+\.\d+`, "OpenTofu N.N.N"},
		{`(?m)([^ \n])  +`, "$1  "}, // how wide a column is depends on these
		{`(?m) +$`, ""},
	} {
		text = regexp.MustCompile(change.from).ReplaceAllString(text, change.to)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	ofNode := regexp.MustCompile(`^  record-\d+: `)
	for i := 0; i < len(lines); i++ {
		end := i
		for end < len(lines) && ofNode.MatchString(lines[end]) {
			end++
		}
		slices.Sort(lines[i:end])
		i = max(i, end-1)
	}
	return strings.Join(lines, "\n") + "\n"
}

// window is one of tmux, on a server of its own.
type window struct {
	*testEnv
	socket string
}

// open runs a command line of hive-test in a new window. When it has ended, the window says with which code.
func (r *recorder) open(line string) *window {
	r.Helper()
	r.opened++
	w := &window{testEnv: r.testEnv, socket: filepath.Join(r.dir, fmt.Sprintf("tmux-%d", r.opened))}
	script := filepath.Join(r.dir, fmt.Sprintf("line-%d.sh", r.opened))
	text := "trap : INT\ncd " + r.dir + "\nhive-test " + line + "\necho \"[exit $?]\"\nexec cat\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	w.tmux(
		"-u", "-f", "/dev/null", "new-session", "-d", "-s", "it", "-x", fmt.Sprint(r.window.width), "-y", fmt.Sprint(r.window.height),
		"sh "+script,
	)
	w.Cleanup(w.close)
	return w
}

func (w *window) close() { _ = w.command("kill-server").Run() }

func (w *window) command(args ...string) *exec.Cmd {
	command := exec.Command("tmux", append([]string{"-S", w.socket}, args...)...)
	command.Env = append(
		plainEnviron(), "PATH="+w.bin+":"+os.Getenv("PATH"), "HOME="+w.dir, "XDG_CACHE_HOME="+filepath.Join(w.dir, "cache"),
		"HIVE_TEST_CLUSTERS_DIR=clusters", "HIVE_TEST_TOFU_BIN="+filepath.Join(w.dir, "tofu"), "LC_ALL=C.UTF-8", "TERM=xterm-256color", "CI=", "GITHUB_ACTIONS=",
		"SHELL=/bin/sh", "TMUX=",
	)
	return command
}

func (w *window) tmux(args ...string) string {
	w.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// text is all that the window has shown and still knows, with lines that it has broken in one.
func (w *window) text() string {
	w.Helper()
	return w.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "it")
}

func (w *window) keys(keys string) { w.tmux("send-keys", "-t", "it", keys) }

func (w *window) resize(s size) {
	w.tmux("resize-window", "-t", "it", "-x", fmt.Sprint(s.width), "-y", fmt.Sprint(s.height))
}

// await waits until text is there.
func (w *window) await(text string) {
	w.Helper()
	w.settled(func(shown string) bool { return strings.Contains(shown, text) })
}

// settled waits until what is shown is as it should be.
func (w *window) settled(holds func(text string) bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(w.text()); {
		if time.Now().After(deadline) {
			w.Fatalf("it never comes to be, and this is shown:\n%s", w.text())
		}
		time.Sleep(pace)
	}
}

// ended checks the exit code.
func (w *window) ended(code int) {
	w.Helper()
	if !strings.Contains(w.text(), fmt.Sprintf("[exit %d]", code)) {
		w.Errorf("not exit code %d:\n%s", code, w.text())
	}
}

// TestTerminalAsks lets init ask in a narrow window, and presses Ctrl-C at a question: there is nothing to clean up.
func TestTerminalAsks(t *testing.T) {
	needTmux(t)
	r := newRecorder(startSimulator(t), size{60, 20})
	window := r.open(`init --proxmox-endpoint "$(hive-sim pve env --clusters-dir clusters --format json | sed -n 's/.*"endpoint": "\(.*\)".*/\1/p')"`)
	window.await("Trust it? [y/N]")
	r.fits("init", window)
	window.keys("C-c")
	window.await("[exit ")
	window.ended(130)
	if text := window.text(); strings.Contains(text, "clean") || !strings.Contains(text, "\nerror: interrupted by INT\n") {
		t.Errorf("Ctrl-C at a question:\n%s", text)
	}
}
