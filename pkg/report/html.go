package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// The parts of the page that are always the same. Style and script are named in the page's policy by their hashes.
var (
	//go:embed report.html.tmpl
	htmlSource string
	//go:embed report.css
	htmlStyle string
	//go:embed report.js
	htmlScript string
)

var htmlTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"mark":      mark,
	"time":      progress.FormatSeconds,
	"count":     progress.Count,
	"called":    func(node, name string) string { return progress.CaseName("", node, name) },
	"isCommand": func(text string) bool { return strings.HasPrefix(text, "hive-test ") },
	"where":     Problem.where,
	"style":     func() template.CSS { return template.CSS(htmlStyle) },
	"code":      func() template.JS { return template.JS(htmlScript) },
}).Parse(htmlSource))

// What of cases is drawn at most: those that did not pass come first.
const (
	mostCases   = 5000
	mostOpen    = 50      // of those that failed; the others are folded
	mostDetails = 8 << 20 // bytes of what cases printed
	mostOutput  = 1 << 16 // of one case, from its end
	mostError   = 1 << 14 // of one case, from its beginning
	mostName    = 1 << 10
)

// page is what the template draws.
type page struct {
	Report
	Policy   string
	Title    string
	Timeline *timeline
	Errors   problems
	Warnings problems
	Notes    problems
	Counts   []statusCount
	Suites   []string
	Shown    []shownCase
	Left     int  // cases that are not shown
	Clipped  int  // of those that are shown, how many show nothing of what they printed
	From     link // of the lines that explain it
	Members  []member
	Grid     *grid
	Cells    []cellRow
	History  []pastRun // the oldest first, and this run as the last
	Files    []link
}

type statusCount struct {
	Status progress.Status
	Number int
}

// link is a file below the run's directory.
type link struct{ Name, Href string }

// problems are those that are shown, and how many there are beside them.
type problems struct {
	Shown []Problem
	Left  int
}

func problemsOf(all []Problem) problems {
	const most = 200
	shown := all[:min(most, len(all))]
	return problems{shown, len(all) - len(shown)}
}

// Count is how many there are.
func (p problems) Count() int { return len(p.Shown) + p.Left }

// member is a node of the cluster, and in how much of each phase it was done.
type member struct {
	progress.Node
	Times string
}

// shownCase is a case as it is shown. Number is its place in the report.
type shownCase struct {
	Case
	Number int
	Order  int // of its status: the worst first
	Place  string
	Text   template.HTML // Output
	Links  []link
	Again  string // the command that runs it again
	Open   bool   // it is what the page is opened for
}

// Folded reports whether there is more of the case than fits a line.
func (c shownCase) Folded() bool {
	return c.Error != "" || c.Text != "" || c.Status == progress.Failed || c.Status == progress.Interrupted
}

// pastRun is a run in the history, and its bar.
type pastRun struct {
	progress.PastRun
	X, Width, Y, Height string
	Current             bool
}

// HTML returns r as one HTML page that needs nothing else and asks nobody for anything: its policy allows no more than
// the style and the script in it. It tells all without the script, which only searches, filters and sorts.
func HTML(r Report) []byte {
	var b bytes.Buffer
	// The template is fixed and its functions do not fail, nor does a buffer.
	_ = htmlTemplate.Execute(&b, pageOf(r))
	return b.Bytes()
}

func pageOf(r Report) page {
	p := page{
		Report: r, Timeline: timelineOf(r), Files: filesOf(r), History: historyOf(r),
		Errors: problemsOf(r.Errors), Warnings: problemsOf(r.Warnings), Notes: problemsOf(r.Notes),
		Title: strings.Join(strings.Fields("hive-test "+r.Verb+" "+r.Cluster), " "),
		Policy: "default-src 'none'; style-src '" + hashOf(htmlStyle) + "'; script-src '" + hashOf(htmlScript) +
			"'; img-src data:; base-uri 'none'; form-action 'none'",
	}
	if r.Explanation != nil {
		p.From = below(r.RunDir, r.Explanation.From)
	}
	for _, n := range r.Nodes {
		p.Members = append(p.Members, member{n, p.Timeline.doneOf(n.Name)})
	}
	p.Grid, p.Cells = gridOf(r), cellRows(r)
	p.addCases()
	return p
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// order is where cases of a status stand: what is to be looked at first.
func order(s progress.Status) int {
	return slices.Index([]progress.Status{
		progress.Failed, progress.Interrupted, progress.Flaky, progress.Quarantined, progress.Skipped, progress.Passed,
	}, s)
}

func (p *page) addCases() {
	counts := map[progress.Status]int{}
	suites := map[string]bool{}
	index := make([]int, len(p.Cases))
	for i, c := range p.Cases {
		counts[c.Status]++
		if !suites[c.Suite] {
			suites[c.Suite] = true
			p.Suites = append(p.Suites, c.Suite)
		}
		index[i] = i
	}
	for _, s := range progress.Statuses() {
		if counts[s] > 0 {
			p.Counts = append(p.Counts, statusCount{s, counts[s]})
		}
	}
	slices.SortStableFunc(index, func(i, j int) int {
		return cmp.Compare(order(p.Cases[i].Status), order(p.Cases[j].Status))
	})
	p.Left = max(0, len(index)-mostCases)
	again, size := newAgain(p.Report), 0
	for _, i := range index[:len(index)-p.Left] {
		c := shownCase{Case: p.Cases[i], Number: i + 1, Order: order(p.Cases[i].Status)}
		c.Open = c.Status.Bad() && len(p.Shown) < mostOpen
		c.Place = c.place()
		if c.Folded() {
			c.Again, c.Links = again.command(c.Case), again.links(c.Suite)
		}
		c.Name, c.Message, c.Error = clip(c.Name, mostName), clip(c.Message, mostError), clip(c.Error, mostError)
		output := lastOf(cmp.Or(c.Colored, c.Output), mostOutput)
		if size += len(c.Error) + len(output); size <= mostDetails {
			c.Text = drawn(output)
		} else if c.Output != "" || c.Error != "" {
			p.Clipped++
			c.Error = clip(progress.FirstLine(c.Error), 300)
		}
		p.Shown = append(p.Shown, c)
	}
}

// clip bounds text to so many bytes, and marks where it was cut.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// lastOf is the end of text, in whole lines where one ends in it, and marked where it was cut.
func lastOf(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		text = rest
	}
	return "…\n" + strings.ToValidUTF8(text, "")
}

// again tells how cases are run again.
type again struct {
	report Report
	suites map[string]Step
}

func newAgain(r Report) again {
	a := again{r, map[string]Step{}}
	for _, p := range r.Phases {
		for _, s := range p.Steps {
			if s.Suite != "" {
				a.suites[s.Suite] = s
			}
		}
	}
	return a
}

// command is the command that runs a case again, or its suite where that cannot choose: on the cluster, or on a new one
// where that was destroyed; of a matrix, its cell.
func (a again) command(c Case) string {
	if m := a.report.Matrix; m != nil {
		i := slices.IndexFunc(m.Cells, func(cell progress.MatrixCell) bool { return cell.Label == c.Suite })
		return remote.Quote(slices.Concat(
			[]string{"hive-test", "matrix", "run", m.File}, m.Args, []string{"--cell", m.Cells[max(0, i)].Name})...)
	}
	verb, flags := "test", a.report.Flags
	if a.report.Verb == "full" {
		i := slices.IndexFunc(a.report.Phases, func(p Phase) bool { return p.Name == "down" })
		if i >= 0 && a.report.Phases[i].Status != progress.Skipped {
			verb = "full"
		} else { // test does not take all flags of full
			flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool {
				return !strings.HasPrefix(f, "--clusters-dir=") && !strings.HasPrefix(f, "--config=")
			})
		}
	}
	words := []string{"hive-test", verb, a.report.Cluster}
	for _, f := range flags {
		if c.Run == "" || !strings.HasPrefix(f, "--run=") {
			words = append(words, f)
		}
	}
	s := a.suites[c.Suite]
	words = append(words, "--suite", cmp.Or(s.Asked, s.Command, c.Suite))
	if c.Run != "" {
		words = append(words, "--run", c.Run)
	}
	return remote.Quote(words...)
}

// links are what a suite has left.
func (a again) links(suite string) []link {
	if a.suites[suite].Command == "" {
		return nil
	}
	var links []link
	for _, name := range []string{"output.log", ""} {
		if href := relative("suites/" + suite + "/" + name); href != "" {
			links = append(links, link{"suites/" + suite + "/" + name, href})
		}
	}
	return links
}

// relative is the address of a file below the run's directory, in which the page stands; empty where the path leads
// elsewhere.
func relative(path string) string {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i, part := range parts {
		if part == "" || part == "." || part == ".." || strings.Contains(part, `\`) {
			return ""
		}
		parts[i] = url.PathEscape(part)
	}
	address := "./" + strings.Join(parts, "/")
	if strings.HasSuffix(path, "/") {
		address += "/"
	}
	return address
}

// below is the file of a run that is named with its directories; without address where it is not below the run's.
func below(runDir, path string) link {
	if rest, found := strings.CutPrefix(path, runDir+"/"); found && runDir != "" {
		return link{rest, relative(rest)}
	}
	return link{Name: path}
}

// filesOf are the files of the run that its events tell of.
func filesOf(r Report) []link {
	names := []string{"events.jsonl", "debug.log", JUnitFile, JSONFile, MarkdownFile}
	for _, p := range r.Phases {
		for _, s := range p.Steps {
			if strings.HasPrefix(s.Name, "tofu ") {
				names = append(names, "tofu.log")
			}
			if s.Command != "" {
				names = append(names, "suites/"+s.Suite+"/")
			}
		}
		if p.Problem != nil && p.Problem.Log != "" {
			names = append(names, strings.TrimPrefix(p.Problem.Log, r.RunDir+"/"))
		}
	}
	var links []link
	for _, name := range append(names, r.Evidence...) {
		one := link{name, relative(name)}
		if one.Href != "" && !slices.Contains(links, one) {
			links = append(links, one)
		}
	}
	return links
}

// historyOf are the runs before, the oldest first, and this one.
func historyOf(r Report) []pastRun {
	if len(r.History) == 0 {
		return nil
	}
	const most = 20
	runs := slices.Clone(r.History[:min(most, len(r.History))])
	slices.Reverse(runs)
	runs = append(runs, progress.PastRun{Verb: r.Verb, Result: r.Result, Started: r.Started, Seconds: r.Seconds})
	longest := 0.0
	for _, run := range runs {
		longest = max(longest, run.Seconds)
	}
	var past []pastRun
	for i, run := range runs {
		height := 100.0
		if longest > 0 {
			height = max(8, run.Seconds/longest*100)
		}
		slot := 100 / float64(max(len(runs), most+1))
		past = append(past, pastRun{
			PastRun: run, X: percent(float64(i) * slot), Width: percent(slot * 0.8), Y: percent(100 - height),
			Height: percent(height), Current: i == len(runs)-1,
		})
	}
	return past
}
