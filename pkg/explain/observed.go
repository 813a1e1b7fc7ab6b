package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

const mostObserved = 5

// observation is what the run itself has seen of a node that explains what failed there, or elsewhere for want of it.
type observation struct {
	node, why string
	dead      bool // a service of hive is, on a node that is alive; else the node is lost
}

// deadVM is what a case says of a node whose VM does not run.
var deadVM = regexp.MustCompile(`\bits VM is (?:stopped|paused|gone)\b`)

// observe returns what was seen until the first suite that failed had ended. What was well again before is left out.
func (f *failure) observe(events []progress.Event) []observation {
	var seen []observation
	forget := func(node string, dead bool) {
		seen = slices.DeleteFunc(seen, func(o observation) bool { return o.node == node && o.dead == dead })
	}
	keep := func(o observation) {
		forget(o.node, o.dead) // it is known better now
		if !o.dead {
			forget(o.node, true)
		}
		seen = append(seen, o)
	}
	for _, e := range events {
		if e.Phase != f.phase {
			continue
		}
		switch {
		case e.Name == progress.NodeLost:
			keep(observation{node: e.Node, why: e.Error})
		case e.Name == progress.ServiceDead:
			keep(observation{e.Node, why(e), true})
		case e.Name == progress.NodeBack:
			forget(e.Node, false)
		case e.Name == progress.ServiceBack:
			forget(e.Node, true)
		case e.Kind == progress.Case && e.Suite == f.suites[0].name && e.Node != "" && deadVM.MatchString(e.Error):
			keep(observation{node: e.Node, why: deadVM.FindString(e.Error)})
		}
		if e.Kind == progress.StepEnd && e.Suite == f.suites[0].name {
			break
		}
	}
	return seen
}

// why says what is wrong with a service.
func why(e progress.Event) string {
	if e.Error != "" {
		return "hive's daemon does not answer: " + e.Error
	}
	return e.Message
}

// blame makes what was observed the cause, unless the state of a VM tells why.
func (f *failure) blame(x *progress.Explanation, signatures []Signature) {
	if f.take(x, match(signatures, InError, f, f.reasons)) {
		return
	}
	var causes []string
	for _, o := range f.observed[:min(mostObserved, len(f.observed))] {
		causes = append(causes, o.node+": "+o.why)
	}
	if more := len(f.observed) - len(causes); more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	first := f.observed[0] // a node that is lost comes before what is dead on others: it has to be there for that
	if i := slices.IndexFunc(f.observed, func(o observation) bool { return !o.dead }); i >= 0 {
		first = f.observed[i]
	}
	x.Node = first.node
	f.take(x, match(signatures, InError, f, first.why))
	x.Cause = strings.Join(causes, "; ")
	switch {
	case first.dead:
		x.Next = "hive-test configure " + f.name + " --from start"
	case deadVM.MatchString(first.why) && !f.hosts:
		x.Next = "hive-test up " + f.name
	}
}
