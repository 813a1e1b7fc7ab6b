package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The fault matrix: each kind of request that a whole run makes is answered wrongly in each way, from the beginning of
// each phase in which it is made. The run ends in time, with the right code and the reason, and what it leaves it
// names. All of it runs with HIVE_TEST_CRASH (`make crash`), a sample else; HIVE_TEST_FAULTS is a regular expression of
// the cells to run, such as "down GET".

// wrong is a way to answer wrongly.
type wrong struct {
	name  string
	fault map[string]any
	says  string // what a user must be told, as a regular expression
	// passes says that it goes wrong a few times only, and that reads are made again until it does not: the run ends
	// well.
	passes bool
}

func wrongs() []wrong {
	list := []wrong{
		{name: "401", fault: map[string]any{"status": 401, "reason": "authentication failure"}, says: `401|authentication failure`},
		{name: "403", fault: map[string]any{"status": 403, "reason": "Permission check failed (/vms, VM.Seeded)"}, says: `403|VM\.Seeded`},
		{name: "500", fault: map[string]any{"status": 500, "reason": "seeded failure"}, says: `seeded failure|500`},
		{name: "595", fault: map[string]any{"status": 595, "reason": "No route to host"}, says: `595|No route to host`},
		{name: "drop", fault: map[string]any{"drop": true}, says: `EOF|connection|closed|reset|no answer`},
		{name: "stall", fault: map[string]any{"delay": "30s"}, says: `timed? ?out|deadline|no answer|time is up|took longer`},
		{name: "task", fault: map[string]any{"task_error": "seeded task failure"}, says: `seeded task failure`},
	}
	for _, times := range []int{1, 3} {
		for status, reason := range map[int]string{502: "Bad Gateway", 503: "Service Unavailable", 596: "Broken pipe"} {
			list = append(list, wrong{
				name:  fmt.Sprintf("%dx%d", status, times),
				fault: map[string]any{"status": status, "reason": reason, "times": times}, passes: true,
			})
		}
		list = append(list, wrong{
			name: fmt.Sprintf("dropx%d", times), fault: map[string]any{"drop": true, "times": times}, passes: true,
		})
	}
	slices.SortStableFunc(list, func(a, b wrong) int {
		return strings.Compare(a.name[:min(3, len(a.name))], b.name[:min(3, len(b.name))])
	})
	return list
}

// on reports whether requests of a kind can go wrong in this way.
func (w wrong) on(kind string) bool {
	switch {
	case w.passes:
		return strings.HasPrefix(kind, "GET ")
	case w.name == "task":
		return begun.MatchString(kind)
	}
	return true
}

// begun is how each request kind that starts a task looks.
var begun = regexp.MustCompile(`^(POST /nodes/\*/qemu|POST /nodes/\*/qemu/\*/(clone|status/\w+)|DELETE /nodes/\*/qemu/\*|PUT /nodes/\*/qemu/\*/resize|POST /nodes/\*/qemu/\*/config)$`)

// optional are requests that a run, or one phase of it, can do without, with the reason: all that begin so, or, to a $,
// this one.
var optional = []struct{ kind, reason string }{
	{"GET /version", "it is asked for first; what else is asked tells as well"},
	{"GET /access/", "what the token may do is asked beforehand, to explain; the requests themselves decide"},
	{"POST /pools", "without pools, ids are claimed on this machine only; that is said"},
	{"PUT /pools", "the same"},
	{"DELETE /pools", "claims end by themselves; that is said"},
	{"GET /pools", "the same"},
	{"GET /nodes/*/qemu/*/agent/file-read", "the first contact pins the host keys"},
	{"GET /nodes/*/tasks/*/log", "only for the reason of a task that failed"},
	{"GET /nodes/*/storage/*/content", "what is left there is looked for; where that cannot be seen, it is said"},
	{"DELETE /nodes/*/storage/*/content", "the same"},
	{"GET /cluster/status", "the quorum is checked where the token may see it"},
	{"GET /storage", "what storages are for is checked beforehand"},
	{"configure GET /nodes/*/qemu/*/agent/network-get-interfaces", "whether a node that is slow has another address by now"},
	{"test GET /nodes/*/qemu/*/agent/network-get-interfaces", "the same"},
	{"down GET /nodes/*/storage", "whether a storage keeps snippets at all: what it lists is looked at in any case"},
	{"GET /nodes/*/tasks$", "what tofu's tasks have warned of, and the reason of one that failed"},
	{"down GET /nodes/*/tasks/*/status", "in the end it counts that the VM is gone, which is proved"},
}

func (c faultCell) optional() bool {
	return slices.ContainsFunc(optional, func(o struct{ kind, reason string }) bool {
		return strings.HasPrefix(c.kind+"$", o.kind) || strings.HasPrefix(c.phase+" "+c.kind, o.kind)
	})
}

// faultCell is one request kind, gone wrong in one way from the beginning of one phase.
type faultCell struct {
	phase, kind string
	wrong       wrong
}

func (c faultCell) String() string { return c.phase + " " + c.kind + " " + c.wrong.name }

// limits keep every run short, whatever hangs; the provider's own tries fit into them. On a machine on which a whole run takes
// longer than it should, they are as much longer.
func (w wrong) limits(slow float64) []string {
	up, configure := 90*time.Second, 40*time.Second
	if w.name == "stall" {
		up = 20 * time.Second
	}
	longer := func(limit time.Duration) string {
		return (time.Duration(slow*float64(limit/time.Second)) * time.Second).String()
	}
	return []string{"--timeout-up=" + longer(up), "--timeout-configure=" + longer(configure), "--timeout-down=" + longer(up)}
}

// A whole run takes usualRun at most on a machine on which the limits are as they are written. faultLimit is more than the limits of
// all phases, the minute that tofu has to stop, and what checks and evidence may take.
const (
	usualRun   = 15 * time.Second
	faultLimit = 4 * time.Minute
)

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	table := &faultTable{results: map[string]string{}}
	cells := make(chan faultCell)
	var once sync.Once
	workers := 1 // each begins with a whole run
	if os.Getenv("HIVE_TEST_CRASH") != "" {
		workers = 2 * runtime.NumCPU() // many of them wait for something that stalls
	}
	for worker := range workers {
		t.Run(fmt.Sprintf("worker %d", worker+1), func(t *testing.T) {
			t.Parallel()
			f := &faultHarness{testbed: newArena(t), table: table}
			kinds := f.kinds()
			once.Do(func() {
				list := chosen(kinds)
				t.Logf("%d cells", len(list))
				go feed(cells, list)
			})
			for cell := range cells {
				f.check(cell)
			}
		})
	}
	t.Cleanup(func() { t.Log(table.String()) })
}

func feed(into chan<- faultCell, cells []faultCell) {
	defer close(into)
	for _, cell := range cells {
		into <- cell
	}
}

// chosen are all cells, or a sample of them.
func chosen(kinds map[string][]string) []faultCell {
	var cells []faultCell
	for _, phase := range slices.Sorted(maps.Keys(kinds)) {
		for _, kind := range kinds[phase] {
			for _, w := range wrongs() {
				if w.on(kind) {
					cells = append(cells, faultCell{phase, kind, w})
				}
			}
		}
	}
	if pattern := os.Getenv("HIVE_TEST_FAULTS"); pattern != "" {
		chosen := regexp.MustCompile(pattern)
		return slices.DeleteFunc(cells, func(c faultCell) bool { return !chosen.MatchString(c.String()) })
	}
	if os.Getenv("HIVE_TEST_CRASH") != "" {
		return cells
	}
	rand.New(rand.NewPCG(crashSeed, 1)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	cells = slices.DeleteFunc(cells, func(c faultCell) bool { return c.wrong.name == "stall" }) // these take their time
	return cells[:min(5, len(cells))]
}

// faultHarness runs the cells of the matrix.
type faultHarness struct {
	*testbed
	table *faultTable
	slow  float64 // how much longer a whole run takes than usualRun; 1 at least
}

// before is the phase that is none yet: the checks before up.
const before = "before"

// kinds are the kinds of requests that a whole run makes, by phase.
func (f *faultHarness) kinds() map[string][]string {
	f.Helper()
	f.must("DELETE", "/sim/journal")
	began := time.Now()
	run := f.start(f.here("full", "faulty", "--sim", "--node-count=2"))
	if code := run.wait(); code != 0 {
		f.Fatalf("a whole run ends with %d:\n%s", code, run.log())
	}
	f.slow = max(1, float64(time.Since(began))/float64(usualRun))
	kinds := map[string][]string{}
	for _, e := range f.journal() {
		phase := run.phaseAt(e.Time)
		kind := e.kind()
		if e.Method != "SSH" && !strings.HasPrefix(e.Path, "/sim") && !slices.Contains(kinds[phase], kind) {
			kinds[phase] = append(kinds[phase], kind)
		}
	}
	for _, list := range kinds {
		slices.Sort(list)
	}
	return kinds
}

// asked is a request that the simulator has had.
type asked struct {
	Time         time.Time
	Method, Path string
}

func (a asked) kind() string { return a.Method + " " + general(a.Path) }

// journal is what the simulator was asked since its journal was emptied.
func (f *faultHarness) journal() []asked {
	f.Helper()
	var journal struct{ Data []asked }
	if err := json.Unmarshal(f.must("GET", "/sim/journal"), &journal); err != nil {
		f.Fatal(err)
	}
	return journal.Data
}

func (r *liveRun) phaseAt(at time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	phase, begun := before, time.Time{}
	for name, began := range r.phases {
		if !at.Before(began) && began.After(begun) {
			phase, begun = name, began
		}
	}
	return phase
}

var particular = regexp.MustCompile(`(/(?:nodes|qemu|tasks|storage|pools|content|users|token)/)[^/]+`)

// general is a path with what names one thing replaced by *.
func general(path string) string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/api2/json"), "/")
	for {
		next := particular.ReplaceAllStringFunc(path, func(part string) string {
			return part[:strings.LastIndex(part, "/")+1] + "*"
		})
		if next == path {
			return path
		}
		path = next
	}
}

// check runs one cell.
func (f *faultHarness) check(cell faultCell) {
	f.Helper()
	method, path, _ := strings.Cut(cell.kind, " ")
	fault := maps.Clone(cell.wrong.fault)
	if name, ofVolume := strings.CutSuffix(path, "/content/*"); ofVolume {
		path = name + "/content/**" // the name of a volume has a slash
	}
	fault["method"], fault["path"] = method, path
	raw, err := json.Marshal(fault)
	if err != nil {
		f.Fatal(err)
	}
	f.must("DELETE", "/sim/journal")
	if cell.phase == before {
		f.must("POST", "/sim/faults", string(raw))
	}
	run := f.start(f.here(append([]string{"full", "faulty", "--sim", "--node-count=2"}, cell.wrong.limits(f.slow)...)...))
	began := time.Now()
	if cell.phase != before && run.begins(cell.phase) {
		f.must("POST", "/sim/faults", string(raw))
	}
	code := run.wait()
	took := time.Since(began)
	f.must("DELETE", "/sim/faults")
	// Some requests are made only by runs that a busy machine slows down.
	met := slices.ContainsFunc(
		f.journal(), func(a asked) bool { return a.kind() == cell.kind && !a.Time.Before(run.phaseBegan(cell.phase)) },
	)
	problems := f.judge(cell, code, took, met, run)
	problems = append(problems, f.tidy(run)...)
	f.table.add(cell, code, met, problems)
	f.Logf("%s: code %d after %s", cell, code, took.Round(time.Second)) // seen at once with -v
	if len(problems) > 0 {
		f.Errorf(
			"%s: code %d after %s: %s\n%s", cell, code, took.Round(time.Second), strings.Join(problems, "; "),
			run.log(),
		)
	}
}

// phaseBegan is when a phase began; the zero time for the checks before up, and for a phase that did not begin.
func (r *liveRun) phaseBegan(phase string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phases[phase]
}

// begins waits until a phase begins; false if the run ends first.
func (r *liveRun) begins(phase string) bool {
	return r.until(func() bool { return !r.phases[phase].IsZero() })
}

// judge says what is wrong with how a run has ended.
func (f *faultHarness) judge(cell faultCell, code int, took time.Duration, met bool, run *liveRun) []string {
	var problems []string
	if float64(took) > f.slow*float64(faultLimit) {
		problems = append(problems, "it hung")
	}
	wanted := map[string]int{"": 3, "up": 4, "configure": 5, "test": 6, "down": 7}[run.failed()]
	named := regexp.MustCompile(cell.wrong.says).MatchString(run.whole())
	// a check that could not be made is a warning: what it would have found shows later
	checked := cell.phase == before && named
	switch {
	case cell.wrong.passes && code != 0:
		problems = append(problems, "it should have ended well")
	case cell.wrong.passes:
	case code == 0 && met && !cell.optional() && !checked && cell.wrong.name != "stall":
		problems = append(problems, "it ended well")
	case code != 0 && code != wanted:
		problems = append(problems, fmt.Sprintf("the code should be %d", wanted))
	case code != 0 && !named:
		problems = append(problems, "the cause is not named")
	}
	return problems
}

var saidLeft = regexp.MustCompile(`still there|may be there|may remain|may have been made|not removed to the end`)

// tidy removes what the run has left, which it must have said, as a user would.
func (f *faultHarness) tidy(run *liveRun) []string {
	var problems []string
	if left := f.leaksNow(); len(left) > 0 && !saidLeft.MatchString(run.whole()) {
		if left = f.leaks(); slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, "VM ") }) {
			problems = append(problems, "it left, and did not say: "+strings.Join(left, ", "))
		}
	}
	if down := f.run(f.here("down", "faulty")); down.code != 0 && down.code != 9 {
		problems = append(problems, fmt.Sprintf("down ends with %d: %s", down.code, down.stderr))
	}
	problems = append(problems, f.reap()...)
	// What has stalled is carried out in the end, whoever has given it up: a mark or a claim may come of it, and goes
	// at once.
	f.until(f.idle)
	if late := slices.DeleteFunc(
		f.leaksNow(), func(l string) bool { return !strings.HasPrefix(l, "VM ") },
	); len(late) > 0 {
		problems = append(problems, "made after all was destroyed: "+strings.Join(late, ", "))
	}
	problems = append(problems, f.reap()...)
	if left := f.leaks(); len(left) > 0 {
		problems = append(problems, "down and reap leave: "+strings.Join(left, ", "))
		f.still = f.look() // told once
	}
	return problems
}

func (f *faultHarness) reap() []string {
	f.Helper()
	if reap := f.run(f.there("reap", "--yes")); reap.code != 0 {
		return []string{fmt.Sprintf("reap ends with %d: %s", reap.code, reap.stderr)}
	}
	return nil
}

// idle tells whether nothing is under way that was asked of the API.
func (f *faultHarness) idle() bool {
	f.Helper()
	var status struct{ Data struct{ Serving int } }
	if err := json.Unmarshal(f.must("GET", "/sim/status"), &status); err != nil {
		f.Fatal(err)
	}
	return status.Data.Serving == 0
}

// faultTable is what came of each cell.
type faultTable struct {
	mu      sync.Mutex
	results map[string]string
	rows    []string
}

func (t *faultTable) add(cell faultCell, code int, met bool, problems []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprint(code)
	if !met {
		text = "-"
	}
	if len(problems) > 0 {
		text += "!"
	}
	row := fmt.Sprintf("%-10s %s", cell.phase, cell.kind)
	if !slices.Contains(t.rows, row) {
		t.rows = append(t.rows, row)
	}
	t.results[row+cell.wrong.name] = text
}

// String is the table: exit codes, a - where the request was not made, with a ! where something was wrong.
func (t *faultTable) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.rows)
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-70s", "request, from the beginning of phase")
	for _, w := range wrongs() {
		fmt.Fprintf(&text, " %6s", w.name)
	}
	wrong := 0
	for _, row := range t.rows {
		fmt.Fprintf(&text, "\n%-70s", row)
		for _, w := range wrongs() {
			result := t.results[row+w.name]
			fmt.Fprintf(&text, " %6s", result)
			if strings.HasSuffix(result, "!") {
				wrong++
			}
		}
	}
	fmt.Fprintf(&text, "\n%d cells, %d of them wrong", len(t.results), wrong)
	return text.String()
}
