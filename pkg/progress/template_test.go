package progress_test

import (
	"strings"
	"testing"

	"hive-test/pkg/progress"
)

func TestTemplateUseTellsWhichWay(t *testing.T) {
	for want, use := range map[string]progress.TemplateUse{
		"took 20 s, 40 s less than without a template (cold/1, 60 s)": {Seconds: 20, ColdSeconds: 60, ColdRun: "cold/1"},
		"took 60 s, 40 s more than without a template (cold/1, 20 s)": {Seconds: 60, ColdSeconds: 20, ColdRun: "cold/1"},
	} {
		if use.Version = "hive-dev-1"; !strings.HasPrefix(use.String(), "cloned from hive-dev-1: ") || !strings.HasSuffix(use.String(), want) {
			t.Errorf("%q, want %q", use, want)
		}
	}
}
