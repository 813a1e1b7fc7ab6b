package engine

import "hive-test/pkg/progress"

// advising is a sink whose advice is complete: hints, what comes next, warnings, and why a phase was left out.
func (e *Engine) advising(next progress.Sink) progress.Sink {
	return progress.SinkFunc(func(event progress.Event) { next.Emit(e.advised(event)) })
}

// advised returns an event whose advice is complete.
func (e *Engine) advised(event progress.Event) progress.Event {
	event.Hint = e.Advise(event.Hint)
	if event.Kind == progress.Warning || event.Kind == progress.PhaseEnd {
		event.Message = e.Advise(event.Message)
	}
	if event.Problem != nil {
		p := *event.Problem
		p.Hint = e.Advise(p.Hint)
		event.Problem = &p
	}
	if event.Explanation != nil {
		x := *event.Explanation
		x.Next = e.Advise(x.Next)
		event.Explanation = &x
	}
	return event
}
