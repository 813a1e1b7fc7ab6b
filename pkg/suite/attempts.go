package suite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// attempt is one run of a suite, or of some of its cases.
type attempt struct {
	Spec
	number int                    // 1 is the first
	wanted func(name string) bool // of one that is built in; nil: all
}

// ended is what one attempt came to.
type ended struct {
	exit
	cases []Case
	form  string // what they were read of
	told  bool   // each when it ended
	lacks string // what was missing for all of them
}

// attempts runs a suite, and what failed of it again as often as it may, and tells its cases. The error is for what is
// not the suite's own failure.
func (r *runner) attempts(ctx context.Context, s Spec, record *recorder) (ended, error) {
	first := attempt{Spec: s, number: 1}
	if err := r.choose(&first); err != nil {
		record.add(0, "", Case{Name: s.Name, Status: progress.Failed, Error: err.Error(), whole: true})
		return ended{}, nil
	}
	last, err := r.once(ctx, first, record)
	cases := last.cases
	for n := 2; n <= s.Retries+1 && err == nil && ctx.Err() == nil && r.decides(s, cases); n++ {
		again := attempt{Spec: s, number: n}
		failed, what := namesOfFailed(cases), "the suite"
		chosen := r.chooseFailed(&again, cases)
		if chosen {
			what = "what failed"
		}
		record.info(fmt.Sprintf("%s failed: running %s again (%d of %d)", failed, what, n-1, s.Retries))
		last, err = r.once(ctx, again, record)
		cases = merged(cases, last.cases, n)
		if !chosen && ctx.Err() == nil {
			cases = recovered(cases, last.cases, n)
		}
	}
	if word := formWords(last.form); word != "" && s.Results == "" {
		record.info("its cases are read of " + word)
	}
	whole := cases
	if last.lacks == "" {
		whole = r.whole(ctx, s, cases)
	}
	if last.told {
		whole = whole[len(cases):]
	}
	for _, c := range r.excused(s, whole) {
		if !s.Chooses() {
			c.run = ""
		}
		record.add(c.place, c.node, c)
	}
	return last, err
}

// decides reports whether any of the cases makes the suite fail.
func (r *runner) decides(s Spec, cases []Case) bool {
	return slices.ContainsFunc(r.excused(s, cases), Case.Failed)
}

// mostNamed is how many cases a line names.
const mostNamed = 3

// namesOfFailed says which cases failed, as far as a line can.
func namesOfFailed(cases []Case) string {
	var names []string
	for _, c := range cases {
		if c.Failed() {
			names = append(names, progress.ClipMiddle(progress.OneLine(c.Name), 60))
		}
	}
	if more := len(names) - mostNamed; more > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %s more", progress.Count(more, "case"))
	}
	return strings.Join(names, ", ")
}

// whole adds a case that failed where a suite ran none: what was chosen may leave a suite without any, which is told of
// all suites together.
func (r *runner) whole(ctx context.Context, s Spec, cases []Case) []Case {
	ran := func(c Case) bool { return c.Status != progress.Skipped }
	if slices.ContainsFunc(cases, ran) || ctx.Err() != nil || r.Run != "" || r.Skip != "" {
		return cases
	}
	return append(cases, Case{Name: s.Name, Status: progress.Failed, Error: "no test ran", whole: true})
}

// once runs a suite one time.
func (r *runner) once(ctx context.Context, a attempt, record *recorder) (ended, error) {
	inTime, cancel := ctx, context.CancelFunc(func() {})
	if a.Timeout > 0 {
		inTime, cancel = context.WithTimeoutCause(ctx, a.Timeout, &EndedError{
			fmt.Errorf("suite %s: its time was up after %s", a.Name, progress.FormatLimit(a.Timeout)),
		})
	}
	defer cancel()
	heal, err := r.apply(ctx, a.Spec)
	if err != nil {
		return ended{exit: exit{code: -1}, cases: []Case{{
			Name: a.Name, Status: progress.Failed, Error: err.Error(), whole: true,
		}}}, nil
	}
	defer heal()
	if a.isBuiltin() {
		return r.builtinOnce(inTime, a, record)
	}
	return r.external(inTime, a, record)
}

// apply applies the suite's fault, if it has one.
func (r *runner) apply(ctx context.Context, s Spec) (heal func(), err error) {
	if r.Fault == nil || s.Fault.What == "" {
		return func() {}, nil
	}
	return r.Fault(ctx, s)
}

// builtinOnce runs a suite that is no command one time. Where nothing of it can be run again, each case is told when it
// ends.
func (r *runner) builtinOnce(ctx context.Context, a attempt, record *recorder) (end ended, err error) {
	told := a.Retries == 0
	if told {
		record.excuse = func(c Case) Case { return r.quarantined(a.Spec, c) }
	} else {
		record = &recorder{suite: a.Name, sink: record.quiet(), mask: r.known.Mask}
	}
	if a.isSmoke() {
		record.wanted = a.wanted
		r.smoke(ctx, record)
	} else {
		end.lacks, err = r.builtin(ctx, a, record)
	}
	end.cases, end.form, end.told = record.cases(), ByCommand, told
	return end, err
}

// choose makes an attempt run what Options.Run and Skip choose.
func (r *runner) choose(a *attempt) error {
	if r.Run == "" && r.Skip == "" {
		return nil
	}
	if !a.Chooses() {
		return fmt.Errorf("cases of %s cannot be chosen: only those that are built in, and suites with `results: gotest` and a plain command line, can", a.Name)
	}
	if !a.isBuiltin() {
		a.Command = a.choosing(r.Run, r.Skip, remote.Quote)
		return nil
	}
	run, err := regexp.Compile(r.Run)
	if err != nil {
		return err
	}
	skip, err := regexp.Compile(r.Skip)
	if err != nil {
		return err
	}
	a.wanted = func(name string) bool { return run.MatchString(name) && (r.Skip == "" || !skip.MatchString(name)) }
	return nil
}

// chooseFailed makes an attempt run only what has failed, and reports whether it can: else it runs all again.
func (r *runner) chooseFailed(a *attempt, cases []Case) bool {
	if err := r.choose(a); err != nil || !a.Chooses() {
		return false
	}
	var names []string
	for _, c := range cases {
		switch {
		case !c.Failed():
		case a.isBuiltin():
			names = append(names, c.Name)
		case c.test == "": // such as a package that did not compile
			return false
		case !slices.Contains(names, c.test):
			names = append(names, c.test)
		}
	}
	if a.isBuiltin() {
		a.wanted = func(name string) bool { return slices.Contains(names, name) }
		return true
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	a.Command = a.Spec.choosing("^("+strings.Join(names, "|")+")$", r.Skip, remote.Quote)
	return true
}

// merged lays the cases of a further attempt over those of the ones before: what failed once and passed once is flaky.
func merged(before, again []Case, number int) []Case {
	all := slices.Clone(before)
	seen := map[string]int{} // of several cases with one name, the first is the first again
	for _, c := range again {
		i := nth(all, c.Name, seen[c.Name])
		seen[c.Name]++
		switch {
		case i < 0:
			all = append(all, c)
		case all[i].Status == progress.Failed && c.Status == progress.Passed:
			all[i].Status = progress.Flaky
			all[i].Reason = fmt.Sprintf("it failed, and passed when it was run again (attempt %d)", number)
		case all[i].Status == progress.Skipped && c.Status != progress.Skipped:
			c.place, c.node = all[i].place, all[i].node
			all[i] = c
		case all[i].Status == progress.Passed && c.Failed():
			c.Status, c.place, c.node = progress.Flaky, all[i].place, all[i].node
			c.Reason = fmt.Sprintf("it passed, and failed when the suite was run again (attempt %d)", number)
			all[i] = c
		}
	}
	return all
}

// recovered makes flaky what was wrong with a suite as a whole, and is not with one that was run again from its beginning.
func recovered(all, again []Case, number int) []Case {
	if slices.ContainsFunc(again, func(c Case) bool { return c.whole && c.Failed() }) {
		return all
	}
	for i, c := range all {
		if c.whole && c.Status == progress.Failed {
			all[i].Status = progress.Flaky
			all[i].Reason = fmt.Sprintf("it was not so when the suite was run again (attempt %d)", number)
		}
	}
	return all
}

// nth is the place of a case of that name that has so many of the same name before it; -1: there is none.
func nth(cases []Case, name string, before int) int {
	for i, c := range cases {
		if c.Name != name {
			continue
		}
		if before == 0 {
			return i
		}
		before--
	}
	return -1
}
