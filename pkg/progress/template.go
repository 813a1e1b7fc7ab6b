package progress

import "fmt"

// TemplateUse is what a run that has cloned its nodes from a template has spared, against the last one of as many nodes without a template.
type TemplateUse struct {
	Version string `json:"version"`
	// Seconds and ColdSeconds are what up and configure took together, with the template and in that run, which is ColdRun: CLUSTER/RUN.
	Seconds     float64 `json:"seconds"`
	ColdSeconds float64 `json:"cold_seconds"`
	ColdRun     string  `json:"cold_run"`
}

func (u TemplateUse) String() string {
	word, gain := "less", u.ColdSeconds-u.Seconds
	if gain < 0 {
		word, gain = "more", -gain
	}
	return fmt.Sprintf("cloned from %s: up and configure took %.0f s, %.0f s %s than without a template (%s, %.0f s)",
		u.Version, u.Seconds, gain, word, u.ColdRun, u.ColdSeconds)
}
