package progress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vbauerster/mpb/v8"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGoldens(t *testing.T) {
	plainWith := func(o Options) func(*bytes.Buffer) Renderer {
		return func(b *bytes.Buffer) Renderer { return Plain(b, o) }
	}
	tests := []struct {
		file     string
		events   []at
		renderer func(*bytes.Buffer) Renderer
	}{
		{"plain.golden", failedRun(), plainWith(Options{})},
		{"plain-verbose-color.golden", failedRun(), plainWith(Options{Verbosity: Chatty, Color: true})},
		{"plain-quiet.golden", failedRun(), plainWith(Options{Verbosity: Quiet})},
		{"plain-cases.golden", testedRun(), plainWith(Options{})},
		{"github.golden", failedRun(), func(b *bytes.Buffer) Renderer { return GitHub(b, "", Options{Verbosity: Verbose}, nil) }},
		{"github-cases.golden", testedRun(), func(b *bytes.Buffer) Renderer { return GitHub(b, "", Options{}, nil) }},
		{"events.jsonl", failedRun(), func(b *bytes.Buffer) Renderer { return JSONLines(b) }},
		{"events-cases.jsonl", testedRun(), func(b *bytes.Buffer) Renderer { return JSONLines(b) }},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			golden(t, test.file, rendered(t, test.events, test.renderer))
		})
	}
}

func TestPlainShowsAWaitWhenItChanges(t *testing.T) {
	wait := func(why string) Event { return Event{Kind: Wait, Step: "health", Message: "node 2", Error: why} }
	var events []at
	for i := range 10 { // changes ten times a second
		events = append(events, at{second / 10, wait("try " + strconv.Itoa(i))})
	}
	for range 70 { // then stays
		events = append(events, at{second, wait("try 9")})
	}
	events = append(events, at{second, Event{Kind: StepEnd, Step: "health", Status: Passed, Seconds: 72}})
	got := string(rendered(t, events, func(b *bytes.Buffer) Renderer { return Plain(b, Options{}) }))
	want := "  … node 2 (try 9)\n  … node 2 (try 9) [1m02s so far]\n  ✓ health 1m12s\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlainShowsTheLastStateOfASilentWait(t *testing.T) {
	events := []at{
		{0, Event{Kind: Wait, Message: "node 2", Error: "booting"}},
		{2 * second, Event{Kind: Wait, Message: "node 2", Error: "cloud-init"}},
		{9 * second, Event{Kind: Info, Message: "later"}},
		{0, Event{Kind: Wait, Message: "node 2", Status: Passed}},
	}
	got := string(rendered(t, events, func(b *bytes.Buffer) Renderer { return Plain(b, Options{}) }))
	if want := "  … node 2 (booting)\n  … node 2 (cloud-init)\n  later\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlainSaysTheBeginningOfAStepThatLasts(t *testing.T) {
	begin := func(step string) Event { return Event{Kind: StepStart, Step: step} }
	end := func(step string) Event { return Event{Kind: StepEnd, Step: step, Status: Passed} }
	events := []at{
		{0, begin("short")},
		{second / 2, end("short")},
		{0, begin("outer")},
		{second / 10, begin("inner")},
		{second / 10, end("inner")},
		{second / 10, end("outer")},
		{0, begin("long")},
		{3 * second, end("long")},
	}
	got := string(rendered(t, events, func(b *bytes.Buffer) Renderer { return Plain(b, Options{}) }))
	want := "  ✓ short 0.0s\n  • outer\n    ✓ inner 0.0s\n  ✓ outer 0.0s\n  • long\n  ✓ long 0.0s\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An error that travels up is shown once, and afterwards only what was added to it.
func TestOnlyNewContextOfAnErrorIsShown(t *testing.T) {
	left := fmt.Errorf("VMs may remain: %w", errors.New("VM is locked"))
	end := func(kind Kind, name string, err error) at {
		return at{0, Event{Kind: kind, Phase: "down", Step: name, Status: Failed}.WithError(err)}
	}
	got := string(rendered(t, []at{
		{0, Event{Kind: StepStart, Phase: "down", Step: "delete"}},
		end(StepEnd, "delete", left),
		end(PhaseEnd, "", fmt.Errorf("timed out after 3s: %w", fmt.Errorf("delete: %w", left))),
		end(PhaseEnd, "", fmt.Errorf("still there: VM 7: %w", errors.New("VM is locked"))),
	}, func(b *bytes.Buffer) Renderer { return Plain(b, Options{}) }))
	want := "  ✗ delete 0.0s\n    error: VMs may remain: VM is locked\n✗ down 0.0s\n  error: timed out after 3s\n" +
		"✗ down 0.0s\n  error: still there: VM 7: VM is locked\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGitHubAppendsAJobSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	summary := func(events []Event) []byte {
		return []byte(fmt.Sprintf("%s of %s\n", events[0].Kind, events[0].Cluster))
	}
	rendered(t, failedRun(), func(b *bytes.Buffer) Renderer { return GitHub(b, path, Options{}, summary) })
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\nrun_start of ci-123\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each kind of case has annotations of its own kind, and leaves room for what comes after cases.
func TestGitHubAnnotatesCases(t *testing.T) {
	of := func(status Status, name, why, message string) at {
		return at{0, Event{
			Kind: Case, Suite: "s", Name: name, Status: status, Error: why, Message: message, File: "a, b_test.go", Line: 7,
		}}
	}
	events := []at{
		of(Passed, "fine", "", ""), of(Skipped, "left-out", "", "not here"),
		of(Quarantined, "known", "boom\nbang", "issue 5 (until 2027-01-31)"), of(Flaky, "now-and-then", "late", "passed again"),
	}
	for i := range 9 {
		events = append(events, of(Failed, "bad-"+strconv.Itoa(i), "no "+strconv.Itoa(i), ""))
	}
	for range 7 {
		events = append(events, of(Flaky, "shaky", "late", ""))
	}
	events = append(events, at{0, Event{Kind: PhaseEnd, Phase: "test", Status: Failed, Error: "tests failed"}})
	var commands []string
	for line := range strings.Lines(string(rendered(t, events, func(b *bytes.Buffer) Renderer {
		return GitHub(b, "", Options{}, nil)
	}))) {
		if strings.HasPrefix(line, "::") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	const where = "file=a%2C b_test.go,line=7,title="
	want := []string{
		"::notice " + where + "in quarantine%3A s%3A known::issue 5 (until 2027-01-31)%0Aboom%0Abang",
		"::warning " + where + "flaky%3A s%3A now-and-then::late",
	}
	for i := range 6 {
		want = append(want, fmt.Sprintf("::error %ss%%3A bad-%d::no %d", where, i, i))
	}
	want = append(want, slices.Repeat([]string{"::warning " + where + "flaky%3A s%3A shaky::late"}, 5)...)
	want = append(want, "::error::more failed cases: 3; the job summary has them",
		"::warning::more flaky cases: 2; the job summary has them", "::error title=test::tests failed")
	if diff := cmp.Diff(want, commands); diff != "" {
		t.Error(diff)
	}
}

func TestGitHubTakesNoCommandsFromOutput(t *testing.T) {
	for _, line := range []string{
		"::error::x", " \u00a0::set-output name=a::b", "x ##[error]y", "a\n::warning::b", "a\r::add-mask::b",
		"x ##vso[task.setvariable variable=PATH]y", "##teamcity[publishArtifacts '/']",
	} {
		got := Disarm("  " + line)
		for l := range strings.Lines(strings.ReplaceAll(got, "\r", "\n")) {
			if strings.HasPrefix(strings.TrimSpace(l), "::") || hashCommand.MatchString(l) {
				t.Errorf("%q still commands: %q", line, l)
			}
		}
	}
}

func TestJSONHoldsNoCommandsAndStaysTheSame(t *testing.T) {
	var b bytes.Buffer
	JSONLines(&b).Emit(Event{Kind: Info, Message: "##vso[a] ##[b]\r::c"})
	events, err := ReadEvents(bytes.NewReader(b.Bytes()))
	if strings.Contains(b.String(), "##") || err != nil || events[0].Message != "##vso[a] ##[b]\r::c" {
		t.Errorf("%s is read as %v, %v", b.String(), events, err)
	}
}

func TestRecorderKeepsEverythingPrivately(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	r, err := Recorder(path)
	if err != nil {
		t.Fatal(err)
	}
	sent := []Event{
		{Time: time.Unix(1, 0).UTC(), Kind: Output, Message: "a <b>\x00\x1b[31m"},
		{Time: time.Unix(2, 0).UTC(), Kind: Debug, Message: "c"},
	}
	for _, e := range sent {
		r.Emit(e)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(path) // before Close: every event is there at once
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadEvents(bytes.NewReader(append(data, `{"kind":"in`...)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	r.Emit(sent[0])
}

func TestRecorderTakesTheBeginningOfEndlessOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	r, err := Recorder(path)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 60_000)
	for i := range 1000 {
		r.Emit(Event{Kind: Output, Suite: "loud", Message: fmt.Sprint(i, " ", line)})
	}
	r.Emit(Event{Kind: Output, Suite: "other", Message: "heard"})
	r.Emit(Event{Kind: StepEnd, Step: "loud"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 9<<20 || !strings.HasPrefix(string(raw[bytes.Index(raw, []byte(`"message"`)):]), `"message":"0 xxx`) {
		t.Errorf("%d bytes are recorded, from %.200s", len(raw), raw)
	}
	end := string(raw[len(raw)-1000:])
	for _, want := range []string{"what follows is not recorded here", "output.log", `"heard"`, `"step_end"`} {
		if !strings.Contains(end, want) {
			t.Errorf("no %s at the end:\n%s", want, end)
		}
	}
}

func TestOutputOfSeveralLinesIsShownLineByLine(t *testing.T) {
	events := []at{
		{0, Event{Kind: Output, Node: "ci-1", Message: "one\n\n two"}},
		{0, Event{Kind: Output, Message: "three\r"}},
		{0, Event{Kind: Output, Message: ""}},
	}
	got := string(rendered(t, events, func(b *bytes.Buffer) Renderer { return Plain(b, Options{Verbosity: Verbose}) }))
	if want := "  ci-1 | one\n  ci-1 | \n  ci-1 |  two\n  | three\n  | \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMemoryOfOutputIsBounded(t *testing.T) {
	line := strings.Repeat("x", 1000)
	send := func(sink Sink) {
		sink.Emit(Event{Kind: Output, Suite: "quiet", Message: "the only line"})
		sink.Emit(Event{Kind: StepStart, Step: "loud"})
		for i := range 10_000 {
			sink.Emit(Event{Kind: Output, Suite: "loud", Message: fmt.Sprint(i, " ", line)})
		}
		sink.Emit(Event{Kind: RunEnd})
	}
	var memory Memory
	send(&memory)
	var file bytes.Buffer
	send(JSONLines(&file))
	read, err := ReadEvents(&file)
	if err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string][]Event{"emitted": memory.Events(), "read": read} {
		t.Run(name, func(t *testing.T) {
			n := len(events)
			if n < 700 || n > 2000 {
				t.Fatalf("%d events are kept", n)
			}
			if events[0].Suite != "quiet" || events[1].Kind != StepStart || events[n-1].Kind != RunEnd {
				t.Errorf("other events were dropped: %v, %v, %v", events[0], events[1], events[n-1])
			}
			if want := "9999 " + line; events[n-2].Message != want {
				t.Errorf("the last line is %.20q", events[n-2].Message)
			}
		})
	}
}

func TestReadEventsNamesABadLine(t *testing.T) {
	got, err := ReadEvents(strings.NewReader("{\"kind\":\"info\"}\n\nnonsense\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3") || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAutoFitsTheOutput(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want string
	}{
		"a pipe":         {nil, "==> up\n"},
		"GitHub Actions": {map[string]string{"GITHUB_ACTIONS": "true"}, "::group::up\n"},
		"Azure":          {map[string]string{"TF_BUILD": "True"}, "==> ## vso[task.setvariable]up\n"},
		"dumb":           {map[string]string{"TERM": "dumb"}, "==> up\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			r := Auto(&b, func(k string) string { return test.env[k] }, Options{Color: true}, nil)
			phase := "up"
			if test.env["TF_BUILD"] != "" {
				phase = "##vso[task.setvariable]up"
			}
			r.Emit(Event{Kind: PhaseStart, Phase: phase})
			if err := r.Close(); err != nil || b.String() != test.want {
				t.Errorf("got %q, %v, want %q", b.String(), err, test.want)
			}
		})
	}
}

func TestRenderersAreSafeForConcurrentUse(t *testing.T) {
	var b bytes.Buffer
	sinks := []Renderer{
		Plain(&b, Options{Verbosity: Chatty}), GitHub(&bytes.Buffer{}, "", Options{}, nil), JSONLines(&bytes.Buffer{}),
		newTerminal(
			&bytes.Buffer{}, Options{}, eighty, mpb.WithRefreshRate(time.Millisecond),
		),
	}
	for _, r := range sinks {
		var wg sync.WaitGroup
		r.Emit(Event{Kind: RunStart})
		for worker := range 4 {
			wg.Go(func() {
				for i := range 50 {
					step := fmt.Sprint("s", worker)
					r.Emit(Event{Kind: StepStart, Step: step})
					r.Emit(Event{Kind: Wait, Step: step, Message: fmt.Sprint(i)})
					r.Emit(Event{Kind: StepEnd, Step: step, Status: Passed})
				}
			})
		}
		wg.Go(func() { time.Sleep(2 * time.Millisecond); _ = r.Close() })
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// screen is the part of a terminal that the live view uses: lines, cursor up, erase below. It is wide enough for all.
type screen struct {
	mu    sync.Mutex
	lines []string
	row   int
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexAny(rest, "AJmhl")
			n, _ := strconv.Atoi(rest[:end])
			switch rest[end] {
			case 'A':
				s.row = max(0, s.row-max(n, 1))
			case 'J':
				s.lines = append(s.lines[:s.row:s.row], "")
			}
			text = rest[end+1:]
			continue
		}
		for len(s.lines) <= s.row {
			s.lines = append(s.lines, "")
		}
		if text[0] == '\n' {
			s.row++
		} else if text[0] != '\r' {
			s.lines[s.row] += text[:1]
		}
		text = text[1:]
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimRight(strings.Join(s.lines, "\n"), "\n") + "\n"
}

func eighty() (width, height int, err error) { return 80, 24, nil }

func TestTerminalShowsWhatRunsBelowTheLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		r := newTerminal(s, Options{}, eighty)
		var shots strings.Builder
		shot := func(title string) {
			time.Sleep(second / 2)
			synctest.Wait()
			fmt.Fprintf(&shots, "--- %s\n%s", title, s)
		}
		events := failedRun()
		play(r, events[:4])
		shot("a step runs")
		play(r, events[4:9])
		shot("it waits")
		play(r, events[9:16])
		shot("steps run on two nodes")
		play(r, events[16:])
		shot("the end")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&shots, "--- closed\n%s", s)
		golden(t, "terminal.golden", []byte(shots.String()))
	})
}

// While VMs are made and configured, each node has a line with what is done with it; steps that are parts of another one
// stand below it, and a phase says how long it took the last time.
func TestTerminalShowsEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		r := newTerminal(s, Options{}, eighty)
		show := func(want string, events ...at) {
			t.Helper()
			play(r, events)
			time.Sleep(second / 2)
			synctest.Wait()
			if diff := cmp.Diff(want, s.String()[strings.Index(s.String(), "==>"):]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		state := func(node, message string) at { return at{0, Event{Kind: NodeState, Node: node, Message: message}} }
		show(`==> up
  • create the VMs
⠸ up 0s, last time 41s  (full ci-123, 0s)
  • create the VMs 0s
    • tofu apply 0s
    ci-9   0s  creating
    ci-10  0s  waiting
`, at{0, Event{Kind: RunStart}}, at{0, Event{Kind: PhaseStart, Phase: "up", LastSeconds: 41.4}},
			at{0, Event{Kind: StepStart, Step: "create the VMs"}}, at{0, Event{Kind: StepStart, Step: "tofu apply"}},
			state("ci-10", "waiting"), state("ci-9", "waiting"), state("ci-9", "creating"),
			at{0, Event{Kind: Output, Step: "tofu apply", Node: "ci-9", Message: "Still creating..."}})
		show(`==> up
  • create the VMs
    ✓ tofu apply 3.0s
  ✓ create the VMs 4.0s
⠦ up 0s, last time 41s  (full ci-123, 0s)
  • find the addresses 0s
    ci-9   0s  address 10.0.0.9
    ci-10  0s  booting: no guest agent
`, at{0, Event{Kind: StepEnd, Step: "tofu apply", Status: Passed, Seconds: 3}},
			at{0, Event{Kind: StepEnd, Step: "create the VMs", Status: Passed, Seconds: 4}},
			at{0, Event{Kind: StepStart, Step: "find the addresses"}}, state("ci-9", "address 10.0.0.9"), state("ci-10", "booting"),
			at{0, Event{Kind: Wait, Step: "find the addresses", Node: "ci-10", Message: "no guest agent"}})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The view is replaced from its first line on, where the cursor waits: nothing depends on how many rows its lines take by then.
func TestTheViewIsReplacedFromItsBeginning(t *testing.T) {
	var out bytes.Buffer
	height := 24
	r := &redraw{out: &out, size: func() (int, int, error) { return 80, height, nil }}
	draw := func(want, text string, lines int) {
		t.Helper()
		out.Reset()
		r.WriteString(text)
		if err := r.Flush(lines); err != nil || out.String() != want {
			t.Errorf("%q, want %q (%v)", out.String(), want, err)
		}
	}
	draw("told\n\x1b[?7lx\ny\n\x1b[?7h\x1b[2A", "told\nx\ny\n", 2)
	draw("\r\x1b[J\x1b[?7lz\n\x1b[?7h\x1b[1A", "z\n", 1)
	draw("\r\x1b[Jtold\n", "told\n", 0)
	draw("more\n", "more\n", 0)
	draw("told\n", "told\n", -9) // as mpb has counted in a low window
	height = 2
	draw("told\n\x1b[?7lx\n\x1b[?7h\x1b[1A", "told\nx\ny\nz\n", 3)
	if _, rows, err := r.GetTermSize(); rows < maxLive+2 || err != nil {
		t.Errorf("mpb would leave lines out: %d rows", rows)
	}
}

func TestTerminalOfLittleWidthDoesNotWrap(t *testing.T) {
	for width := range 12 {
		line := fit("  • ✓ 漢字 install on ci-123-2", width)
		n := 0
		for _, r := range line {
			n++
			if r >= 0x2e80 {
				n++
			}
		}
		if n > width {
			t.Errorf("%q has %d columns of %d", line, n, width)
		}
	}
}

func TestTerminalBoundsTheLiveView(t *testing.T) {
	var l live
	now := time.Now()
	for i := range 30 {
		l.apply(Event{Kind: Wait, Step: "health", Node: fmt.Sprint("n", i), Message: "formed"}, now)
	}
	got := l.below(now, maxLive)
	if len(got) != maxLive || got[maxLive-1] != "  … and 15 more" {
		t.Errorf("got %d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestTerminalKeepsWritingWhenTheViewHasEnded(t *testing.T) {
	var b bytes.Buffer
	r := newTerminal(&b, Options{}, eighty)
	r.Emit(Event{Kind: RunStart})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	r.Emit(Event{Kind: Info, Message: "after"})
	if got, want := b.String(), "  after\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Outside a run, whoever else writes on the terminal is not drawn over: a shell, a question, a table.
func TestTerminalIsLeftAloneOutsideARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		r := newTerminal(s, Options{}, eighty)
		show := func(text string) {
			time.Sleep(second)
			synctest.Wait()
			fmt.Fprint(s, text)
			time.Sleep(second)
		}
		r.Emit(Event{Kind: StepStart, Step: "plan"})
		show("a table\n")
		r.Emit(Event{Kind: StepEnd, Step: "plan", Status: Passed})
		r.Emit(Event{Kind: RunStart, Verb: "up", Cluster: "ci"})
		r.Emit(Event{Kind: Info, Message: "told"})
		time.Sleep(second)
		r.Emit(Event{Kind: RunEnd, Status: Passed})
		show("{}\n")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for _, want := range []string{"  • plan\na table\n  ✓ plan 0.0s\n", "  told\n", "passed in 0.0s\n{}\n"} {
			if !strings.Contains(s.String(), want) {
				t.Errorf("%q is not on the screen:\n%s", want, s)
			}
		}
	})
}

func TestAFailedWriteIsReportedByClose(t *testing.T) {
	r := Plain(failing{}, Options{})
	r.Emit(Event{Kind: Info, Message: "x"})
	if err := r.Close(); err == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestACaseIsCalledByEachNameOnce(t *testing.T) {
	for _, c := range []struct{ suite, node, name, want string }{
		{"nope.sh", "", "nope.sh", "nope.sh"},
		{"ok.sh", "", "mine.b", "ok.sh: mine.b"},
		{"smoke", "ci-1", "health/ci-1", "smoke: health/ci-1"},
		{"smoke", "ci-1", "health/ci-11", "smoke: ci-1: health/ci-11"},
		{"", "", "dir/", "dir/"},
	} {
		if got := CaseName(c.suite, c.node, c.name); got != c.want {
			t.Errorf("%v: got %q", c, got)
		}
	}
}

// Of a matrix, the live view has a line for each cell that runs, with what it does, and one for what others wait for. Those
// that have ended are gone.
func TestLiveViewOfAMatrix(t *testing.T) {
	var l live
	now := time.Now()
	cell := func(kind Kind, name, message string) Event {
		return Event{Kind: kind, Phase: "cells", Step: "full", Node: name, Message: message}
	}
	l.apply(Event{Kind: PhaseStart, Phase: "cells"}, now)
	for _, e := range []Event{
		cell(StepStart, "m-1", "a=1"), cell(StepStart, "m-2", "a=2"), cell(NodeState, "m-1", "up"), cell(NodeState, "m-2", "test"),
		cell(Wait, "m-3", "waits for the budget of vms"),
	} {
		l.apply(e, now)
	}
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, l.below(now, maxLive)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	check("  • m-1: full (a=1) 0s, up 0s", "  • m-2: full (a=2) 0s, test 0s", "    … m-3: waits for the budget of vms 0s")
	over := cell(Wait, "m-3", "waits for the budget of vms")
	over.Status = Passed
	for _, e := range []Event{cell(NodeState, "m-1", ""), cell(StepEnd, "m-1", ""), over, cell(StepStart, "m-3", "a=3")} {
		l.apply(e, now)
	}
	check("  • m-2: full (a=2) 0s, test 0s", "  • m-3: full (a=3) 0s")
}
