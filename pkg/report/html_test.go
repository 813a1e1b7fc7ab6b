package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

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

// TestWriteSamples writes reports for who wants to look at them with a browser.
func TestWriteSamples(t *testing.T) {
	dir := os.Getenv("HIVE_TEST_SAMPLES_DIR")
	if dir == "" {
		t.Skip("HIVE_TEST_SAMPLES_DIR names no directory to write reports to")
	}
	for name, events := range map[string][]progress.Event{
		"passed": passedRun(3), "failed": failedRun(30), "nodes": passedRun(10), "cases": failedRun(300), "long": longRun(100_000),
	} {
		run := filepath.Join(dir, name)
		files := report.Files(report.Build(events))
		files["suites/e2e.sh/output.log"] = []byte("what e2e.sh printed\n")
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

// BenchmarkHTML makes the report of a run of 100,000 events, beside reading these events and making its JSON.
func BenchmarkHTML(b *testing.B) {
	events := longRun(100_000)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.ReadMemStats(&before)
		start := time.Now()
		r := report.Build(events)
		built := time.Since(start)
		start = time.Now()
		page := report.HTML(r)
		drawn := time.Since(start)
		runtime.ReadMemStats(&after)
		start = time.Now()
		report.JSON(r)
		plain := time.Since(start)
		b.ReportMetric((built + drawn).Seconds(), "s")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "MB")
		b.ReportMetric(drawn.Seconds()/plain.Seconds(), "html/json")
		b.Logf("%d events: built in %s, drawn in %s, JSON in %s; all allocations together %d MB; the page has %d kB", len(events),
			built.Round(time.Millisecond), drawn.Round(time.Millisecond), plain.Round(time.Millisecond),
			(after.TotalAlloc-before.TotalAlloc)/1e6, len(page)/1000)
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
			at(3, progress.Event{Kind: progress.StepEnd, Phase: name, Step: text, Status: progress.Failed, Error: text, Hint: text}),
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
