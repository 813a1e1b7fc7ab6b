package remote

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// words parses a line as a shell would and returns the words of its one command.
func words(t *testing.T, line string) []string {
	t.Helper()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "")
	if err != nil {
		t.Fatalf("%q does not parse: %v", line, err)
	}
	if len(file.Stmts) != 1 {
		t.Fatalf("%q has %d statements, not one", line, len(file.Stmts))
	}
	call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(file.Stmts[0].Redirs) > 0 {
		t.Fatalf("%q is not a plain command", line)
	}
	fields, err := expand.Fields(&expand.Config{Env: expand.ListEnviron("HOME=/expanded")}, call.Args...)
	if err != nil {
		t.Fatalf("expanding %q: %v", line, err)
	}
	return fields
}

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"true"}, `true`},
		{[]string{"echo", "a b"}, `echo 'a b'`},
		{[]string{"echo", ""}, `echo ''`},
		{[]string{"echo", "it's"}, `echo 'it'"'"'s'`},
		{[]string{"echo", "$HOME", "`id`", "$(id)"}, "echo '$HOME' '`id`' '$(id)'"},
		{[]string{"echo", "~", "*", "a;b", "a&b", "a|b"}, `echo '~' '*' 'a;b' 'a&b' 'a|b'`},
		{[]string{"echo", "two\nlines", "tab\t"}, "echo 'two\nlines' 'tab\t'"},
		{[]string{"printf", "%s", "--flag=x/y:z@1"}, `printf %s --flag=x/y:z@1`},
		{[]string{"echo", "#no", "A=b", "{a,b}", "ü"}, `echo '#no' A=b '{a,b}' 'ü'`},
	} {
		got := Quote(c.argv...)
		if got != c.want {
			t.Errorf("Quote(%q) = %s, want %s", c.argv, got, c.want)
		}
		if diff := cmp.Diff(c.argv, words(t, got)); diff != "" {
			t.Errorf("%s does not come back (-want +got):\n%s", got, diff)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "it's", "$(id)", "\\", "\"", "\n", "-n", "\xff", "!x", "~root", "a=b"} {
		f.Add(s, "second "+s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) || !utf8.ValidString(a) || !utf8.ValidString(b) {
			t.Skip("no shell takes NUL, and the parser used here no invalid UTF-8")
		}
		// mvdan.cc/sh drops CR before LF, as no shell does.
		if strings.Contains(a+b, "\r") {
			t.Skip("the parser used here changes CR")
		}
		if diff := cmp.Diff([]string{"echo", a, b}, words(t, Quote("echo", a, b))); diff != "" {
			t.Errorf("%q, %q do not come back (-want +got):\n%s", a, b, diff)
		}
	})
}

func TestExports(t *testing.T) {
	got, err := Exports(map[string]string{"B": "it's", "A": "1 2"})
	if want := "export A='1 2'\nexport B='it'\"'\"'s'\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []map[string]string{{"A-B": ""}, {"": ""}, {"1": ""}, {"A;id": ""}, {"A": "\x00"}} {
		if _, err := Exports(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestShellTextsParse(t *testing.T) {
	for name, text := range map[string]string{"endScript": endScript, "asRoot": asRoot} {
		if _, err := syntax.NewParser(syntax.Variant(
			syntax.LangPOSIX,
		)).Parse(strings.NewReader(text), name); err != nil {
			t.Error(err)
		}
	}
}

// A mark is a shell assignment and needs no quoting.
func TestMarked(t *testing.T) {
	mark := newMark()
	if line := marked("true", mark); line != "HIVE_TEST_RUN="+Quote(mark)+" true" {
		t.Errorf("got %q", line)
	}
}
