package config

import (
	"strings"
	"testing"
)

// What doctor checks is what up would do: it takes all that up takes.
func TestDoctorTakesWhatUpTakes(t *testing.T) {
	for _, s := range Table() {
		if s.UsedBy("up") && !s.UsedBy("doctor") && s.Key != "junit" { // which doctor has nothing to write of
			t.Errorf("%s is used by up and not by doctor", s.Key)
		}
	}
}

// full is up, configure, test and down: what one of them takes, it takes.
func TestFullTakesWhatItsPhasesTake(t *testing.T) {
	for _, s := range Table() {
		for _, phase := range []string{"up", "configure", "test", "down"} {
			if s.UsedBy(phase) && !s.UsedBy("full") {
				t.Errorf("%s is used by %s and not by full", s.Key, phase)
			}
		}
	}
}

// Every row says all that help and completion are made of.
func TestEveryRowIsComplete(t *testing.T) {
	for _, s := range Table() {
		switch {
		case strings.TrimSpace(s.Verbs) == "":
			t.Errorf("%s is used by no verb", s.Key)
		case s.Group == "":
			t.Errorf("%s is in no group", s.Key)
		case s.Flag == "" && !s.Secret:
			t.Errorf("%s has no flag, and is no secret", s.Key)
		case s.Flag != "" && s.Secret:
			t.Errorf("%s is a secret, and has a flag", s.Key)
		case (s.Kind == Text || s.Kind == List || s.Kind == Hypervisors) && s.Value == "" && len(s.OneOf) == 0:
			t.Errorf("help has no word for a value of %s", s.Key)
		}
	}
}
