package cli

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/config"
)

// A verb has the flags of the settings that it uses, by the table, and no others (but settings, which only tells of them);
// a secret has none.
func TestVerbsHaveTheFlagsOfTheirSettings(t *testing.T) {
	root := (&app{}).root()
	verbs := map[string]bool{}
	commands := root.Commands()
	for _, cmd := range commands {
		for _, sub := range cmd.Commands() {
			if sub.Annotations[firstWord] != "" {
				commands = append(commands, sub)
			}
		}
	}
	for _, cmd := range commands {
		if cmd.Annotations[documents] == "" && cmd.Name() != "ssh" {
			continue // it reads no settings
		}
		verb := cmp.Or(cmd.Annotations[firstWord], cmd.Name())
		verbs[verb] = true
		for _, s := range config.Table() {
			flag := cmd.Flag(s.Flag)
			switch has := s.Flag != "" && flag != nil && !flag.Hidden; {
			case s.Secret && has:
				t.Errorf("%s has --%s, which is in process lists", cmd.Name(), s.Flag)
			case s.Flag != "" && has != s.UsedBy(verb):
				t.Errorf("%s: --%s is there: %t, and the table says %t", cmd.Name(), s.Flag, has, s.UsedBy(verb))
			case has && !config.OfSetting(flag):
				t.Errorf("%s: --%s is another flag than that of %s", cmd.Name(), s.Flag, s.Key)
			}
		}
	}
	for _, cmd := range root.Commands() {
		for _, word := range cmd.Commands() { // of which the table names those with flags that their verb has not
			verbs[word.Name()] = word.Annotations[documents] != ""
		}
	}
	for _, s := range config.Table() {
		for _, verb := range strings.Fields(s.Verbs) {
			if !s.Global() && !verbs[verb] {
				t.Errorf("%s is used by %s, which is no verb with settings", s.Key, verb)
			}
		}
	}
}

// helpOf is the help of a command as it is shown.
func helpOf(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	if code := Main(append(wordsOf(cmd), "--help"), Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, WorkDir: t.TempDir(),
		Getenv: func(string) string { return "" },
	}); code != 0 {
		t.Fatalf("%s --help: exit code %d\n%s", cmd.CommandPath(), code, out.String())
	}
	return out.String()
}

var flagRow = regexp.MustCompile(`^  (?:-[a-z],|   ) --([a-z-]+)`)

// Help shows how a verb is used, tells of every flag in the group that is its own, and fits a terminal.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	for _, cmd := range tree(root) {
		help := helpOf(t, cmd)
		generated := strings.HasPrefix(cmd.CommandPath(), "hive-test completion")
		for _, line := range strings.Split(help, "\n") {
			if len([]rune(line)) > 80 && !generated {
				t.Errorf("%s: %d columns: %q", cmd.CommandPath(), len([]rune(line)), line)
			}
		}
		if cmd.GroupID == verbGroup && !strings.Contains(help, "\nExamples:\n  ") {
			t.Errorf("%s: no examples", cmd.CommandPath())
		}
		if cmd.GroupID == topicGroup {
			continue // it tells of no flags of its own
		}
		group, seen := "", []string(nil)
		cmd.InitDefaultHelpFlag()
		for _, line := range strings.Split(help, "\n") {
			if name, found := strings.CutSuffix(line, ":"); found && !strings.HasPrefix(line, " ") {
				group = name
			}
			row := flagRow.FindStringSubmatch(line)
			if row == nil || cmd.Flag(row[1]) == nil {
				continue
			}
			flag := cmd.Flag(row[1])
			seen = append(seen, flag.Name)
			want := config.GroupOf(flag)
			if want == "" {
				want = "Flags"
			}
			if group != want {
				t.Errorf("%s: --%s is in group %q, want %q", cmd.CommandPath(), flag.Name, group, want)
			}
		}
		check := func(f *pflag.Flag) {
			if !f.Hidden && !slices.Contains(seen, f.Name) {
				t.Errorf("%s: help does not tell of --%s", cmd.CommandPath(), f.Name)
			}
		}
		cmd.LocalFlags().VisitAll(check)
		cmd.InheritedFlags().VisitAll(check)
	}
}
