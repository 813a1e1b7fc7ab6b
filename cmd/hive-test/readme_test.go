package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/config"
)

var update = flag.Bool("update", false, "rewrite the table of settings")

// settingsTable is the table of settings as docs/settings.md has it.
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

// The README and what it leads to are true at every commit: their tables are those of the program.
func TestREADME(t *testing.T) {
	readme, settings := page(t, "README.md"), page(t, "docs/settings.md")
	t.Run("settings", func(t *testing.T) {
		table := settingsTable()
		const begin, end = "<!-- settings -->\n", "<!-- /settings -->"
		before, rest, found := strings.Cut(settings, begin)
		old, after, ended := strings.Cut(rest, end)
		switch {
		case !found || !ended:
			t.Errorf("docs/settings.md has no %q ... %q", begin, end)
		case old == table:
		case *update:
			if err := os.WriteFile("../../docs/settings.md", []byte(before+begin+table+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Error("docs/settings.md differs from the program: rewrite it with `go test ./cmd/hive-test -run README -update`")
		}
	})
	t.Run("exit codes", func(t *testing.T) {
		for _, row := range regexp.MustCompile(`(?m)^  (\d+) +\S`).FindAllStringSubmatch(help(t, "help", "exit-codes"), -1) {
			if !regexp.MustCompile(`(?m)^\| [^|]*\b` + row[1] + `\b[^|]* \|`).MatchString(page(t, "docs/exit-codes.md")) {
				t.Errorf("exit code %s is not in docs/exit-codes.md", row[1])
			}
			if row[1] != "1" && !regexp.MustCompile(`\b`+row[1]+` [a-z]|\b`+row[1]+" `|and "+row[1]).MatchString(readme) {
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
	t.Run("completion", func(t *testing.T) {
		lines := regexp.MustCompile(`(?m)^  (.*hive-test completion [^#\n]*?) *(#.*)?$`).FindAllStringSubmatch(
			help(t, "completion", "--help"), -1,
		)
		if len(lines) < 4 {
			t.Fatalf("read %d lines from the help", len(lines))
		}
		for _, line := range lines {
			if !strings.Contains(readme, "\n    "+line[1]+"\n") && !strings.Contains(line[1], "[command]") {
				t.Errorf("the README does not have %q", line[1])
			}
		}
	})
	t.Run("links", func(t *testing.T) {
		pages, err := filepath.Glob("../../docs/*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range append(pages, "../../README.md") {
			links(t, path)
		}
	})
}

// links checks what a page links to: files, and headings in pages.
func links(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(raw), -1) {
		file, heading, _ := strings.Cut(link[1], "#")
		if strings.Contains(file, ":") {
			continue // elsewhere
		}
		to := path
		if file != "" {
			to = filepath.Join(filepath.Dir(path), file)
		}
		content, err := os.ReadFile(to)
		if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
			err = nil
		}
		if err != nil {
			t.Errorf("%s links to %s: %v", path, link[1], err)
		} else if heading != "" && !slices.Contains(headings(string(content)), heading) {
			t.Errorf("%s links to %s: there is no such heading", path, link[1])
		}
	}
}

// headings are those of a page, as links name them.
func headings(text string) []string {
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(line[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func page(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
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
