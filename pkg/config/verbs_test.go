package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What doctor checks is what up would do: it takes all that up takes.
func TestDoctorTakesWhatUpTakes(t *testing.T) {
	ofRuns := []string{"junit", "evidence_dir", "i_know"} // doctor keeps nothing
	for _, s := range Table() {
		if s.UsedBy("up") && !s.UsedBy("doctor") && !slices.Contains(ofRuns, s.Key) {
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
		case s.Flag == "" && !s.Secret && !s.Kind.Structured():
			t.Errorf("%s has no flag, and is no secret", s.Key)
		case s.Flag != "" && s.Secret:
			t.Errorf("%s is a secret, and has a flag", s.Key)
		case (s.Kind == Text || s.Kind == List || s.Kind == Hypervisors) && s.Value == "" && len(s.OneOf) == 0:
			t.Errorf("help has no word for a value of %s", s.Key)
		}
	}
}

// sampleOf is a value of a setting, as a flag and a variable have it.
func sampleOf(s Setting) string {
	switch {
	case len(s.OneOf) > 0:
		return s.OneOf[slices.IndexFunc(s.OneOf, func(word string) bool { return word != s.DefaultText() })]
	case s.Key == "config", s.Key == "proxmox.token_file", s.Key == "environment":
		return "" // what must be there, and has tests of its own
	case s.Key == "suite_env":
		return "NAME=value"
	case s.Key == "proxmox.vmid_range", s.Key == "proxmox.template_range":
		return "30000-30999"
	case s.Kind == Hypervisors:
		return `[{name = "pve7", address = "10.0.0.7"}]`
	case s.Kind == Int:
		return "2"
	case s.Kind == Bool:
		return strconv.FormatBool(s.DefaultText() != "true")
	case s.Kind == Duration:
		return "1d1h"
	}
	return "some-" + s.Value
}

// What a flag says is what the variable of the same setting says.
func TestFlagsSayWhatVariablesSay(t *testing.T) {
	for _, s := range Table() {
		text := sampleOf(s)
		if s.Flag == "" || text == "" {
			continue
		}
		fromFlag, err := Load(LoadOptions{Flags: flags(t, "--"+s.Flag+"="+text), Env: env(), WorkDir: t.TempDir()})
		if err != nil {
			t.Errorf("--%s=%s: %v", s.Flag, text, err)
		}
		fromEnv, err := Load(LoadOptions{Env: env(s.Env[0] + "=" + text), WorkDir: t.TempDir()})
		if err != nil {
			t.Errorf("%s=%s: %v", s.Env[0], text, err)
		}
		if !fromFlag.Explicit(s.Key) || fromEnv.Explicit(s.Key) || !fromEnv.Given(s.Key) {
			t.Errorf("%s comes from %s and %s", s.Key, fromFlag.Source(s.Key), fromEnv.Source(s.Key))
		}
		value := func(settings Settings) (text string) {
			for _, v := range settings.Values() {
				if v.Key == s.Key {
					text = v.Value
				}
			}
			return text
		}
		usual, err := Load(LoadOptions{Env: env(), WorkDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got := value(fromFlag); got != value(fromEnv) || got == value(usual) {
			t.Errorf("%s: by flag %q, by variable %q, by default %q", s.Key, got, value(fromEnv), value(usual))
		}
	}
}
