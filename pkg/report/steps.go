package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/progress"
)

// stepKey is what the start and the end of a step have in common.
type stepKey struct{ phase, step, node string }

// stepAt is where a step is: phases and steps are appended, and stay where they are.
type stepAt struct{ phase, step int }

func (b *builder) at(at stepAt) *Step { return &b.Phases[at.phase].Steps[at.step] }

// startStep appends a step to its phase.
func (b *builder) startStep(e progress.Event) {
	b.addStep(e, Step{
		Name: e.Step, Node: e.Node, Message: e.Message, Started: e.Time, Suite: e.Suite, Command: e.Command,
		Asked: e.Asked,
	})
}

func (b *builder) addStep(e progress.Event, s Step) stepAt {
	p := b.phase(e.Phase)
	p.Steps = append(p.Steps, s)
	at := stepAt{b.index(p), len(p.Steps) - 1}
	if b.open == nil {
		b.open, b.steps = map[stepKey][]stepAt{}, map[string]stepAt{}
		b.waiting, b.working = map[ofNode]int{}, map[ofNode]int{}
	}
	key := stepKey{p.Name, s.Name, s.Node}
	b.open[key] = append(b.open[key], at)
	if s.Node == "" {
		b.steps[s.Name] = at
	}
	return at
}

// index is the place of a phase, which is among the latest.
func (b *builder) index(p *Phase) int {
	for i := range b.Phases {
		if &b.Phases[i] == p {
			return i
		}
	}
	return -1
}

// endStep ends the step of that name and node that began first, or adds one that has not told of its start.
func (b *builder) endStep(e progress.Event) {
	key := stepKey{b.phase(e.Phase).Name, e.Step, e.Node}
	if len(b.open[key]) == 0 {
		b.addStep(e, Step{Name: e.Step, Node: e.Node, Suite: e.Suite, Started: startOf(e)})
	}
	at := b.open[key][0]
	s := b.at(at)
	if b.open[key] = b.open[key][1:]; len(b.open[key]) == 0 {
		delete(b.open, key)
	}
	s.Status, s.Seconds, s.Error = cmp.Or(e.Status, progress.Passed), e.Seconds, e.Error
	s.Message = cmp.Or(e.Message, s.Message)
	b.endAll(at, e.Time)
	b.problem(e)
}

// startOf is when what ends with e has begun.
func startOf(e progress.Event) time.Time {
	if e.Time.IsZero() {
		return e.Time
	}
	return e.Time.Add(-seconds(e.Seconds))
}

// seconds is a duration of so many seconds, or of the longest that there is.
func seconds(n float64) time.Duration {
	const most = float64(1<<63-1) / float64(time.Second)
	return time.Duration(min(n, most/2) * float64(time.Second))
}

// stepOf finds the step that an event tells of, of its node or else of all nodes, and reports whether it runs.
func (b *builder) stepOf(e progress.Event) (at stepAt, runs bool) {
	for _, node := range []string{e.Node, ""} {
		if all := b.open[stepKey{e.Phase, e.Step, node}]; len(all) > 0 {
			return all[len(all)-1], true
		}
	}
	if at, runs = b.steps[e.Step]; runs { // it does not say of which phase it is
		runs = b.at(at).Status == running
	}
	return at, runs
}

// ofNode is a node in a step.
type ofNode struct {
	stepAt
	node string
}

// wait begins a wait, which lasts until its step, or its node in it, waits for something else or goes on.
func (b *builder) wait(e progress.Event) {
	at, running := b.stepOf(e)
	if !running {
		return
	}
	s := b.at(at)
	if i, waiting := b.waiting[ofNode{at, e.Node}]; waiting && s.Waits[i].What == e.Message {
		s.Waits[i].Why = cmp.Or(e.Error, s.Waits[i].Why)
		return
	}
	b.goOn(ofNode{at, e.Node}, e.Time)
	s.Waits = append(s.Waits, Wait{What: e.Message, Why: e.Error, Node: e.Node, Started: e.Time})
	b.waiting[ofNode{at, e.Node}] = len(s.Waits) - 1
}

// goOn ends what a node waits for in a step.
func (b *builder) goOn(node ofNode, now time.Time) {
	if i, waiting := b.waiting[node]; waiting {
		w := &b.at(node.stepAt).Waits[i]
		w.Seconds = max(0, now.Sub(w.Started).Seconds())
		delete(b.waiting, node)
	}
}

// state notes what a node does from now on.
func (b *builder) state(e progress.Event) {
	at, running := b.stepOf(e)
	if !running {
		return
	}
	s, node := b.at(at), ofNode{at, e.Node}
	b.goOn(node, e.Time)
	if i, working := b.working[node]; working {
		s.States[i].Ended = e.Time
		delete(b.working, node)
	}
	if !isEnd(e.Message) {
		s.States = append(s.States, State{Node: e.Node, Name: e.Message, Started: e.Time})
		b.working[node] = len(s.States) - 1
	}
}

// endAll ends what nodes do and wait for in a step that has ended.
func (b *builder) endAll(at stepAt, now time.Time) {
	s := b.at(at)
	for _, w := range s.Waits {
		b.goOn(ofNode{at, w.Node}, now)
	}
	for i := range s.States {
		if state := &s.States[i]; state.Ended.IsZero() {
			state.Ended = now
		}
		delete(b.working, ofNode{at, s.States[i].Node})
	}
}

// isEnd reports whether a state of a node is that it has come to the end of what it did.
func isEnd(state string) bool {
	return state == "" || state == "deleted" || strings.HasSuffix(state, ": done") || strings.HasPrefix(state, "address ")
}

// know takes from an event what it tells of the run as a whole.
func (b *builder) know(e progress.Event) {
	if len(e.Settings) > 0 {
		b.Settings = e.Settings
	}
	if len(e.Flags) > 0 {
		b.Flags = e.Flags
	}
	if e.Matrix != nil {
		b.Matrix = e.Matrix.Cleaned()
	}
	if len(e.History) > 0 {
		b.History = e.History
	}
	for _, path := range e.Evidence {
		if !slices.Contains(b.Evidence, path) {
			b.Evidence = append(b.Evidence, path)
		}
	}
	for _, n := range e.Nodes {
		b.knowNode(n)
	}
}

func (b *builder) knowNode(n progress.Node) {
	for i := range b.Nodes {
		if old := &b.Nodes[i]; old.Name == n.Name {
			*old = progress.Node{
				Name: n.Name, VMID: cmp.Or(n.VMID, old.VMID), Hypervisor: cmp.Or(n.Hypervisor, old.Hypervisor),
				Management: cmp.Or(n.Management, old.Management), Data: cmp.Or(n.Data, old.Data),
				Hive: cmp.Or(n.Hive, old.Hive),
			}
			return
		}
	}
	b.Nodes = append(b.Nodes, n)
}

func cleanNodes(nodes []progress.Node) []progress.Node {
	clean := make([]progress.Node, len(nodes))
	for i, n := range nodes {
		clean[i] = progress.Node{
			Name: progress.OneLine(n.Name), VMID: n.VMID, Hypervisor: progress.OneLine(n.Hypervisor),
			Management: progress.OneLine(n.Management), Data: progress.OneLine(n.Data), Hive: progress.OneLine(n.Hive),
		}
	}
	return clean
}

func cleanSettings(settings []progress.Setting) []progress.Setting {
	clean := make([]progress.Setting, len(settings))
	for i, s := range settings {
		clean[i] = progress.Setting{
			Key: progress.OneLine(s.Key), Value: progress.OneLine(s.Value), From: progress.OneLine(s.From),
		}
	}
	return clean
}

func cleanRuns(runs []progress.PastRun) []progress.PastRun {
	clean := make([]progress.PastRun, len(runs))
	for i, r := range runs {
		clean[i] = r
		clean[i].Run, clean[i].Verb = progress.OneLine(r.Run), progress.OneLine(r.Verb)
		clean[i].Result, clean[i].Seconds = cleanStatus(r.Result), cleanSeconds(r.Seconds)
	}
	return clean
}

func cleanAll(texts []string) []string {
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = progress.OneLine(text)
	}
	return clean
}
