package progress

// Explanation is why a run did not pass, in few words: it stands at the run's end and in every report.
type Explanation struct {
	Phase string `json:"phase,omitempty"`
	Step  string `json:"step,omitempty"`
	Node  string `json:"node,omitempty"`
	// Where is the phase, the step and the node as one text: "configure, step join on ci-2".
	Where string `json:"where,omitempty"`
	// What failed, as one line.
	What string `json:"what"`
	// Suites are those that failed where several did, a line for each: how, and where its output is.
	Suites []string `json:"suites,omitempty"`
	// Lines are the last ones of output or a log that matter, and From is where they stand: a node's output, or a file
	// below the run's directory.
	Lines []string `json:"lines,omitempty"`
	From  string   `json:"from,omitempty"`
	// Signature is the id of what is known of such failures, and Cause what it most likely means; empty if nothing is.
	Signature string `json:"signature,omitempty"`
	Cause     string `json:"cause,omitempty"`
	// Next is the command, or the act, that comes next.
	Next string `json:"next,omitempty"`
}

// mapped returns a copy with every text changed by change.
func (x *Explanation) mapped(change func(string) string) *Explanation {
	if x == nil {
		return nil
	}
	y := *x
	y.Lines, y.Suites = mapAll(x.Lines, change), mapAll(x.Suites, change)
	for _, text := range []*string{&y.Phase, &y.Step, &y.Node, &y.Where, &y.What, &y.From, &y.Cause, &y.Next} {
		if *text != "" {
			*text = change(*text)
		}
	}
	return &y
}

// Cleaned returns x with every text as Clean has it, on one line. It is nil for nil.
func (x *Explanation) Cleaned() *Explanation { return x.mapped(OneLine) }

// Headline is where it failed, and what: "configure, step join on ci-2: ...".
func (x *Explanation) Headline() string {
	where := x.Where
	if where == "" { // of an earlier release
		where = x.Phase + prefixedWith(", step ", x.Step) + prefixedWith(" on ", x.Node)
	}
	return prefixed(where, ": ") + x.What
}
