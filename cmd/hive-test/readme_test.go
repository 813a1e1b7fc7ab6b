package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hive-test/pkg/config"
)

var update = flag.Bool("update", false, "rewrite the README's table of settings")

// settingsTable is the table of settings as the README has it.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| key | flag | environment | default | meaning |\n|---|---|---|---|---|\n")
	for _, s := range config.Table() {
		cell := func(text string) string {
			if text == "" {
				return ""
			}
			return "`" + text + "`"
		}
		flag := s.Flag
		if flag != "" {
			flag = "--" + flag
		}
		envs := make([]string, len(s.Env))
		for i, e := range s.Env {
			envs[i] = cell(e)
		}
		meaning := s.Help
		if len(s.OneOf) > 0 {
			meaning += ": " + strings.Join(s.OneOf, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(s.Key), cell(flag), strings.Join(envs, ", "),
			cell(s.DefaultText()), meaning)
	}
	return b.String()
}

// The README is true at every commit: its tables are those of the program.
func TestREADME(t *testing.T) {
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(raw)
	t.Run("settings", func(t *testing.T) {
		table := settingsTable()
		const begin, end = "<!-- settings -->\n", "<!-- /settings -->"
		before, rest, found := strings.Cut(readme, begin)
		old, after, ended := strings.Cut(rest, end)
		switch {
		case !found || !ended:
			t.Errorf("the README has no %q ... %q", begin, end)
		case old == table:
		case *update:
			if err := os.WriteFile(
				"../../README.md", []byte(before+begin+table+end+after), 0o644,
			); err != nil {
				t.Fatal(err)
			}
		default:
			t.Error(
				"the table of settings differs from the program's: rewrite it with `go test ./cmd/hive-test -run " +
					"README -update`",
			)
		}
	})
	t.Run("exit codes", func(t *testing.T) {
		out := help(t, "help", "exit-codes")
		for _, row := range regexp.MustCompile(`(?m)^  (\d+) +\S`).FindAllStringSubmatch(out, -1) {
			if !regexp.MustCompile(`(?m)^\| [^|]*\b` + row[1] + `\b[^|]* \|`).MatchString(readme) {
				t.Errorf("exit code %s is not in the README", row[1])
			}
		}
	})
	t.Run("verbs", func(t *testing.T) {
		listed, _, _ := strings.Cut(help(t, "--help"), "\nTopics:")
		verbs := regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(listed, -1)
		if len(verbs) < 10 {
			t.Fatalf("read %d verbs from the help", len(verbs))
		}
		for _, verb := range verbs {
			if !strings.Contains(readme, "`"+verb[1]) {
				t.Errorf("the verb %s is not in the README", verb[1])
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", link[1])); err != nil {
				t.Errorf("the README links to %s: %v", link[1], err)
			}
		}
	})
}

// TestPromises: every test that docs/promises.md names is there.
func TestPromises(t *testing.T) {
	raw, err := os.ReadFile("../../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z-]+\\.txtar|[a-z]+(?:/[a-z_.-]+)+)`").FindAllStringSubmatch(string(raw), -1)
	if len(names) < 10 {
		t.Fatalf("read %d names of tests", len(names))
	}
	for _, name := range names {
		path := filepath.Join("..", "..", name[1])
		if !strings.Contains(name[1], "/") {
			path = filepath.Join("..", "..", "testdata", "script", name[1])
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("docs/promises.md names %s: %v", name[1], err)
		}
	}
}

func help(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "hive-test"), args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
