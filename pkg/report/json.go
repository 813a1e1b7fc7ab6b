package report

import (
	"bytes"
	"encoding/json"
	"math"
)

// JSON returns r as an indented JSON object (see Report for its shape), ending in a line end.
func JSON(r Report) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(finite(r)); err != nil {
		// Strings, finite numbers and times within the years of RFC 3339 always encode; a time beyond them is dropped.
		b.Reset()
		r = finite(r)
		r.Started = Report{}.Started
		_ = encoder.Encode(r)
	}
	return b.Bytes()
}

// finite replaces what JSON has no number for. Build's reports have none; a caller's own may.
func finite(r Report) Report {
	fix := func(f float64) float64 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0
		}
		return f
	}
	r.Seconds = fix(r.Seconds)
	phases := make([]Phase, len(r.Phases))
	for i, p := range r.Phases {
		p.Seconds = fix(p.Seconds)
		p.Steps = append([]Step(nil), p.Steps...)
		for j := range p.Steps {
			p.Steps[j].Seconds = fix(p.Steps[j].Seconds)
		}
		phases[i] = p
	}
	cases := make([]Case, len(r.Cases))
	for i, c := range r.Cases {
		c.Seconds = fix(c.Seconds)
		cases[i] = c
	}
	r.Phases, r.Cases = phases, cases
	r.Errors = append([]Problem{}, r.Errors...)
	r.Warnings = append([]Problem{}, r.Warnings...)
	return r
}
