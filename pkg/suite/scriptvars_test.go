package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVariablesThatScriptsUse(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"all forms": {
			"#!/usr/bin/env bash\necho $A \"${B}\" \"${C:?is needed}\" ${D:-none} ${#E} <<EOF\n$F\nEOF\n: \"${G:=1}\"", "A B C D E F G",
		},
		"no shebang":                  {"echo $A", "A"},
		"neither text nor expanded":   {"# $A\necho '$B' \\$C \"\\$D\" $1 $? $(echo ok)\ncat <<'END'\n$E\nEND", ""},
		"given a value before":        {"A=1; export B=2; echo $A $B", ""},
		"given a value after":         {"echo $A; A=1", "A"},
		"given a value of itself":     {"A=${A:-1}\necho $A", "A"},
		"only exported":               {"export A; echo $A", "A"},
		"for one command":             {"A=1 true; echo $A", "A"},
		"by builtins":                 {"read -r A B; mapfile -t C <x; printf -v D %s x; getopts ab E; echo $A $B $C $D $E", ""},
		"by for":                      {"for A in 1 2; do echo $A; done", ""},
		"unset":                       {"unset A; echo $A", ""},
		"in a function, called later": {"f() { local B=1; echo $A $B $C; }\nA=1\nf", "C"},
		"no shell":                    {"#!/usr/bin/perl\nprint $A", ""},
		"Python":                      {"#!/usr/bin/env python3\nimport os\nos.environ['A'], os.environ.get(\"B\", 1), os.getenv('C'), \"$D\"", "A B C"},
		"cannot be parsed":            {"echo $A; if", ""},
		"no text":                     {"echo $A\n\x00", ""},
		"large":                       {"echo $A\n" + strings.Repeat("#", maxScript), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "run"), []byte(test.text), 0o755); err != nil {
				t.Fatal(err)
			}
			var got []string
			if s, ok := scriptOf("./run", dir); ok {
				got = s.variables()
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The script of a suite is looked into where it is what the line runs, and what the line itself names is told once.
func TestVariablesOfScriptsAreWarnedOf(t *testing.T) {
	for command, want := range map[string]string{
		"./e2e.sh":                    "e2e.sh MINE",
		"timeout 60 ./e2e.sh 3":       "e2e.sh MINE",
		"bash -e e2e.sh":              "e2e.sh MINE",
		"cd sub && bash ../e2e.sh":    "e2e.sh MINE",
		"python3 -u e2e.py":           "e2e.py MINE",
		"python3 -m e2e.py":           "",
		"true ./e2e.sh":               "",
		"bash missing.sh; true":       "",
		`[ -n "$MINE" ] || ./e2e.sh`:  "MINE",
		`./e2e.sh "$MINE"`:            "MINE",
		`MINE=other ./e2e.sh; true`:   "",
		`bash e2e.sh "$MINE" "$MINE"`: "MINE",
	} {
		o, events := external(t, command+"; true")
		for name, text := range map[string]string{
			"e2e.sh": "echo $MINE $MINE $PATH $HIVE_NODES $NOT_SET", "e2e.py": "import os\nos.getenv('MINE')",
			"sub/file": "",
		} {
			path := filepath.Join(o.Dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		var expected []string
		switch file, name, found := strings.Cut(want, " "); {
		case found:
			expected = []string{fmt.Sprintf("$%s, which %s uses, is set here, and suites do not get it: --suite-env %[1]s passes it", name, file)}
		case want != "":
			expected = []string{"$MINE is set here, and suites do not get it: --suite-env MINE passes it"}
		}
		if got := warnings(events); !slices.Equal(got, expected) {
			t.Errorf("%s: warned of %q, want %q", command, got, expected)
		}
	}
}
