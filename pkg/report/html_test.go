package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

var samples = flag.String("samples", "", "a directory to write reports to, for who wants to look at them with a browser")

func TestHTMLGoldens(t *testing.T) {
	for name, events := range map[string][]progress.Event{
		"passed": passedRun(3), "suites": failedRun(30),
	} {
		page := report.HTML(report.Build(events))
		golden(t, filepath.Join("html", name+".html"), page)
		checkPage(t, page)
		if again := report.HTML(report.Build(events)); !bytes.Equal(page, again) {
			t.Errorf("%s: the same events give other bytes", name)
		}
	}
}

// Events that come from a file make the report that they made when they happened.
func TestHTMLOfEventsThatWereKept(t *testing.T) {
	var events []progress.Event
	for i, kind := range []progress.Kind{
		progress.RunStart, progress.PhaseStart, progress.StepStart, progress.Wait, progress.StepEnd, progress.PhaseEnd,
	} {
		now := time.Now()
		for time.Since(now) < time.Duration(i)*time.Millisecond/3 { // some time, and none that is round
			continue
		}
		events = append(events, progress.Event{
			Time: time.Now().UTC(), Kind: kind, Phase: "up", Step: "create", Message: "VMs", Seconds: 0.001,
		})
	}
	var file bytes.Buffer
	lines := progress.JSONLines(&file)
	for _, e := range events {
		lines.Emit(e)
	}
	again := *bytes.NewBuffer(file.Bytes())
	kept, err := progress.ReadEvents(&file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := report.Read(&again)
	if err != nil {
		t.Fatal(err)
	}
	page := report.HTML(report.Build(events))
	if !bytes.Equal(page, report.HTML(report.Build(kept))) || !bytes.Equal(page, report.HTML(read)) {
		t.Error("the report is another one")
	}
	for i := range kept {
		if built := report.Build(events[:i+1]); strings.Contains(built.Ended.String(), "m=") {
			t.Fatalf("times are those of this process: %s", built.Ended)
		}
	}
}

// oddCases are events of as many cases that say what suites should not, with each status in turn.
func oddCases(count int, statuses ...progress.Status) []progress.Event {
	pieces := []string{
		"\x00", "\x1b[31m", "\x1b[0m", "\x1b[", "\x1b]8;;javascript:x\x07", "\x1bP", "]]>", "<![CDATA[", "<!--", "-->",
		"</pre>",
		"</script>", "<script>alert(1)</script>", "<img src=x onerror=x>", "\"'`", "&lt;", "&#0;", "\xed\xa0\x80", "\xff",
		"\ufffe",
		"\r", "\r\n", "\n", "\t", "\u2028", "\u202e", "word ", "{{.}}", "::error::", "é", "🐝", strings.Repeat("x", 300),
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(30) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	events := []progress.Event{{Kind: progress.RunStart, Verb: "test", Cluster: "ci-123", RunDir: text()}}
	for i := range count {
		events = append(events, progress.Event{
			Kind: progress.Case, Suite: text(), Name: text(), Status: statuses[i%len(statuses)], Error: text(), Output: text(),
			Message: text(), File: text(), Line: i,
		})
	}
	return events
}

// Whatever a suite prints, its report is a page as any other, and says so in as few bytes as a page should have.
func TestHTMLOfWhateverIsPrinted(t *testing.T) {
	const cases = 1000
	events := oddCases(cases, progress.Failed)
	page := report.HTML(report.Build(events))
	checkPage(t, page)
	if got := bytes.Count(page, []byte("<li id=\"case-")); got != cases {
		t.Errorf("%d cases are shown of %d", got, cases)
	}
	huge := strings.Repeat("<\x1b[31mx", 50<<20/7)
	page = report.HTML(report.Build([]progress.Event{{
		Kind: progress.Case, Suite: "s", Name: huge[:1<<20], Status: progress.Failed, Error: huge[:1<<20], Output: huge,
	}}))
	checkPage(t, page)
	if len(page) > 2<<20 {
		t.Errorf("a line of 50 MB makes a page of %d bytes", len(page))
	}
}

// TestWriteSamples writes the reports of runs that never were, beside their events.
func TestWriteSamples(t *testing.T) {
	dir := *samples
	if dir == "" {
		t.Skip("-samples names no directory to write reports to")
	}
	for name, events := range map[string][]progress.Event{
		"passed": passedRun(3), "failed": failedRun(30), "nodes": passedRun(10), "cases": failedRun(300),
		"long": longRun(100_000),
	} {
		run := filepath.Join(dir, name)
		files := report.Files(report.Build(events))
		files["suites/e2e.sh/output.log"] = []byte("what e2e.sh printed\n")
		var kept bytes.Buffer
		lines := progress.JSONLines(&kept)
		for _, e := range events {
			lines.Emit(e)
		}
		files["events.jsonl"] = kept.Bytes()
		for file, data := range files {
			path := filepath.Join(run, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkHTML makes the report of a run of 100,000 events out of their file, beside reading it and nothing else.
func BenchmarkHTML(b *testing.B) {
	var file bytes.Buffer
	lines := progress.JSONLines(&file)
	for _, e := range longRun(100_000) {
		lines.Emit(e)
	}
	debug.FreeOSMemory() // of the events
	for b.Loop() {
		start := time.Now()
		if err := progress.EachEvent(bytes.NewReader(file.Bytes()), func(progress.Event) {}); err != nil {
			b.Fatal(err)
		}
		plain := time.Since(start)
		start = time.Now()
		r, err := report.Read(bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		page := report.HTML(r)
		took := time.Since(start)
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(took.Seconds()/plain.Seconds(), "html/read")
		b.ReportMetric(float64(after.Sys-after.HeapReleased)/1e6, "MB")
		b.Logf(
			"100,000 events, %d MB: read in %s, read and drawn in %s (wanted: under 2s); the process has %d MB of the system "+
				"(wanted: under 200), the events among them; the page has %d kB", file.Len()/1e6,
			plain.Round(time.Millisecond), took.Round(time.Millisecond), (after.Sys-after.HeapReleased)/1e6, len(page)/1000,
		)
	}
}

// allowed are the elements that a page may have, and their attributes besides class and id.
func allowed() map[string]string {
	all := map[string]string{
		"html": "lang", "meta": "charset http-equiv content name", "link": "rel href", "a": "href",
		"form": "hidden", "label": "for hidden", "input": "type placeholder autocomplete value", "option": "value",
		"button": "type", "span": "role", "details": "open", "td": "data-name",
		"li":  "data-status data-suite data-number data-order data-seconds",
		"svg": "role aria-label aria-hidden", "use": "href", "rect": "x y width height rx", "line": "x1 x2 y1 y2",
		"text": "x y", "pattern": "width height patternUnits patternTransform",
	}
	for _, name := range strings.Fields(
		"head title style body header main section div p h1 h2 br strong code pre ul table thead tbody tr th " +
			"summary fieldset legend select script defs g",
	) {
		all[name] = ""
	}
	return all
}

// checkPage holds a page to what it may do: nothing but its own style and script, which its policy names.
func checkPage(t *testing.T, page []byte) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	elements, policy := allowed(), ""
	own := map[string]string{}
	for n := range root.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("a comment: %q", n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		attributes, known := elements[n.Data]
		if !known {
			t.Errorf("the element %q is none of ours", n.Data)
		}
		for _, a := range n.Attr {
			if !slices.Contains(append(strings.Fields(attributes), "class", "id"), a.Key) {
				t.Errorf("%s has the attribute %s=%q", n.Data, a.Key, a.Val)
			}
			if a.Key == "href" {
				checkAddress(t, n.Data, a.Val)
			}
			if a.Key == "content" && strings.HasPrefix(a.Val, "default-src 'none'") {
				policy = a.Val
			}
		}
		if n.Data == "script" || n.Data == "style" {
			if own[n.Data] != "" || n.FirstChild == nil {
				t.Fatalf("there is not one %s", n.Data)
			}
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			own[n.Data] = fmt.Sprintf("%s-src 'sha256-%s'", n.Data, base64.StdEncoding.EncodeToString(sum[:]))
		}
	}
	for _, part := range []string{own["style"], own["script"]} {
		if part == "" || !strings.Contains(policy, part) {
			t.Errorf("the policy %q does not name %q", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

func checkAddress(t *testing.T, element, address string) {
	t.Helper()
	if strings.HasPrefix(address, "#") || element == "link" && address == "data:," {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(address, "./") ||
		slices.Contains(strings.Split(u.Path, "/"), "..") {
		t.Errorf("%s leads to %q", element, address)
	}
}

func FuzzHTML(f *testing.F) {
	f.Add("<script>alert(1)</script>", "\x1b[31mred\x1b[0m<img src=x onerror=alert(1)>")
	f.Add("javascript:alert(1)", "../../etc/passwd")
	f.Add("..", "</style></title></pre>]]>\x00\x1b]8;;javascript:x\x07y")
	f.Add(`"><svg onload=x>`, "'--><!--\xff\xfe\u2028{{.}}")
	f.Add("\x1b[38;5;1;31m", "\x1b[1m\x1b[0;32;44mx\x1b[")
	f.Fuzz(func(t *testing.T, name, text string) {
		start := time.Unix(1e9, 0)
		at := func(s int, e progress.Event) progress.Event {
			e.Time = start.Add(time.Duration(s) * time.Second)
			return e
		}
		page := report.HTML(report.Build([]progress.Event{
			at(0, progress.Event{
				Kind: progress.RunStart, Cluster: name, Verb: text, RunDir: name, OwnerID: text, Flags: []string{text},
				Settings: []progress.Setting{{Key: name, Value: text, From: text}},
				History:  []progress.PastRun{{Run: name, Verb: text, Result: progress.Status(text)}},
				Nodes:    []progress.Node{{Name: name, Hypervisor: text, Management: text, Hive: text}},
			}),
			at(0, progress.Event{Kind: progress.PhaseStart, Phase: name}),
			at(1, progress.Event{Kind: progress.StepStart, Phase: name, Step: text, Suite: name, Command: text}),
			at(1, progress.Event{Kind: progress.NodeState, Phase: name, Step: text, Node: name, Message: text}),
			at(2, progress.Event{Kind: progress.Wait, Phase: name, Step: text, Node: name, Message: text, Error: name}),
			at(3, progress.Event{
				Kind: progress.StepEnd, Phase: name, Step: text, Status: progress.Failed, Error: text, Hint: text,
			}),
			at(3, progress.Event{
				Kind: progress.Case, Suite: name, Name: text, Status: progress.Failed, Error: text, Output: text, File: name,
			}),
			at(3, progress.Event{Kind: progress.Case, Suite: text, Name: name, Status: progress.Skipped, Message: text}),
			at(3, progress.Event{Kind: progress.Warning, Message: text, Hint: name}),
			at(3, progress.Event{Kind: progress.Note, Message: text, Evidence: []string{text, name, "../" + name}}),
			at(4, progress.Event{
				Kind: progress.RunEnd, Status: progress.Failed, RunDir: name, Explanation: &progress.Explanation{
					What: text, Where: name, Lines: []string{text}, From: name + "/" + text, Cause: text, Next: text,
				},
			}),
		}))
		checkPage(t, page)
	})
}

// rowsOf are the names of what a timeline shows, and of those on the critical path.
func rowsOf(t *testing.T, page []byte) (all, critical []string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Data != "span" || len(n.Attr) == 0 || n.Attr[0].Val != "name" {
			continue
		}
		var text strings.Builder
		for below := range n.Descendants() {
			if below.Type == html.TextNode {
				text.WriteString(below.Data)
			}
		}
		name, on := strings.CutSuffix(strings.TrimLeft(text.String(), "✓✗!– "), " (on the critical path)")
		all = append(all, name)
		if on {
			critical = append(critical, name)
		}
	}
	return all, critical
}

func TestTimeline(t *testing.T) {
	start := time.Unix(1e9, 0).UTC()
	var events []progress.Event
	at := func(second float64, e progress.Event) {
		e.Time, e.Phase = start.Add(time.Duration(second*float64(time.Second))), "up"
		events = append(events, e)
	}
	step := func(from, to float64, name, node string) {
		at(from, progress.Event{Kind: progress.StepStart, Step: name, Node: node})
		at(to, progress.Event{Kind: progress.StepEnd, Step: name, Node: node, Status: progress.Passed, Seconds: to - from})
	}
	state := func(second float64, node, message string) {
		at(second, progress.Event{Kind: progress.NodeState, Step: "join", Node: node, Message: message})
	}
	wait := func(second float64, why string) {
		at(second, progress.Event{Kind: progress.Wait, Step: "join", Node: "n1", Message: "a leader", Error: why})
	}
	at(0, progress.Event{Kind: progress.RunStart})
	at(0, progress.Event{Kind: progress.PhaseStart})
	step(0, 2, "claim", "")
	step(2, 3, "install", "n1")
	step(2, 6, "install", "n2")
	at(6, progress.Event{Kind: progress.StepStart, Step: "join"})
	state(6, "n1", "join")
	state(6, "n2", "join")
	state(7, "n2", "join: done")
	wait(7, "none")
	wait(8, "two")
	at(9, progress.Event{Kind: progress.StepEnd, Step: "join", Status: progress.Passed, Seconds: 3})
	at(9, progress.Event{Kind: progress.PhaseEnd, Status: progress.Passed, Seconds: 9})
	r := report.Build(events)
	all, critical := rowsOf(t, report.HTML(r))
	want := []string{"up", "claim", "install", "n1", "n2", "join", "n1", "n2", "waits for a leader", "n1", "n2"}
	if !slices.Equal(all, want) {
		t.Errorf("the rows are %q, want %q", all, want)
	}
	want = []string{"up", "claim", "install", "n2", "join", "n1", "waits for a leader"}
	if !slices.Equal(critical, want) {
		t.Errorf("the critical path is %q, want %q", critical, want)
	}
	waits := []report.Wait{
		{What: "a leader", Why: "two", Node: "n1", Started: start.Add(7 * time.Second), Seconds: 2},
	}
	if got := r.Phases[0].Steps[3].Waits; !slices.Equal(got, waits) {
		t.Errorf("the waits are %+v, want %+v", got, waits)
	}
}

func TestALongTimelineIsCutAndSaysSo(t *testing.T) {
	page := report.HTML(report.Build(longRun(5000)))
	checkPage(t, page)
	if all, _ := rowsOf(t, page); len(all) > 400 || len(all) < 100 {
		t.Errorf("%d rows are drawn", len(all))
	}
	if !bytes.Contains(page, []byte(" not drawn: events.jsonl has all.")) {
		t.Error("the page does not say that rows are left out")
	}
}

// A case is run again as it was: on a cluster that is there, or on a new one where full has destroyed it.
func TestTheCommandThatRunsACaseAgain(t *testing.T) {
	failed := progress.Event{Kind: progress.Case, Suite: "e2e.sh", Name: "x", Status: progress.Failed}
	suite := progress.Event{
		Kind: progress.StepStart, Phase: "test", Step: "e2e.sh", Suite: "e2e.sh", Command: "./e2e.sh 'a b'",
		Asked: "./e2e.sh 'a b'",
	}
	named := suite
	named.Asked = "nightly"
	chosen := failed
	chosen.Run = "^TestX$/^it's$"
	down := progress.Event{Kind: progress.PhaseEnd, Phase: "down", Status: progress.Passed}
	kept := progress.Event{Kind: progress.PhaseEnd, Phase: "down", Status: progress.Skipped}
	const flag = "ci '--clusters-dir=my clusters'"
	for name, c := range map[string]struct {
		verb   string
		events []progress.Event
		want   string
	}{
		"test": {
			"test",
			[]progress.Event{suite, failed},
			"hive-test test " + flag + ` --node-count=5 --config=my.yaml --suite './e2e.sh '"'"'a b'"'"''`,
		},
		"destroyed": {
			"full", []progress.Event{named, failed, down}, "hive-test full " + flag + " --node-count=5 --config=my.yaml --suite nightly",
		},
		"kept": {
			"full", []progress.Event{named, failed, kept}, "hive-test test " + flag + " --config=my.yaml --suite nightly",
		},
		"chosen": {
			"test",
			[]progress.Event{named, chosen},
			"hive-test test " + flag + ` --node-count=5 --config=my.yaml --suite nightly --run '^TestX$/^it'"'"'s$'`,
		},
		"not told of": {
			"test", []progress.Event{failed}, "hive-test test " + flag + " --node-count=5 --config=my.yaml --suite e2e.sh",
		},
	} {
		start := progress.Event{
			Kind: progress.RunStart, Cluster: "ci", Verb: c.verb,
			Flags: []string{"--clusters-dir=my clusters", "--node-count=5", "--config=my.yaml"},
		}
		if name == "chosen" {
			start.Flags = append(start.Flags, "--run=TestX|TestY")
		}
		r := report.Build(append([]progress.Event{start}, c.events...))
		text := "Run it again: `" + c.want + "`"
		if strings.Contains(string(report.Markdown(r)), text) != (name == "chosen") {
			t.Errorf("%s: of %s report.md says: %s", name, text, report.Markdown(r))
		}
		page := report.HTML(r)
		if !strings.Contains(html.UnescapeString(string(page)), `<code class="run">`+c.want+`</code>`) {
			t.Errorf("%s: the page does not say %s", name, c.want)
		}
	}
}
