package cli

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var releaseDir = flag.String("release", "", "`directory` that gets the man pages and completions of a release")

// Man pages and completions are what the verbs say of themselves. `go test ./pkg/cli -run ManPages -release DIR` writes
// them for a release, so that the program itself needs nothing that makes them.
func TestManPages(t *testing.T) {
	dir := *releaseDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := (&app{}).root()
	asMarkdown(root)
	man := filepath.Join(dir, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		t.Fatal(err)
	}
	header := &doc.GenManHeader{Section: "1", Source: "hive-test", Manual: "hive-test", Date: releaseDate(t)}
	if err := doc.GenManTree(root, header, man); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		if cmd.GroupID == verbGroup && cmd.Name() != "help" {
			checkManPage(t, filepath.Join(man, "hive-test-"+cmd.Name()+".1"), cmd)
		}
	}
	writeCompletions(t, filepath.Join(dir, "completions"))
}

// releaseDate is that of the commit, so that the same source gives the same pages.
func releaseDate(t *testing.T) *time.Time {
	t.Helper()
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		seconds = 0
	}
	date := time.Unix(seconds, 0).UTC()
	return &date
}

// asMarkdown makes the texts of all commands what the generator takes them for.
func asMarkdown(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	cmd.Short = escapeMarkdown(cmd.Short)
	cmd.Long = markdownOf(cmd.Long)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		if strings.Contains(f.Usage, "`") {
			usage = strings.ToUpper(name) + ": " + usage
		}
		f.Usage, f.DefValue = escapeMarkdown(usage), escapeMarkdown(f.DefValue)
	})
	for _, child := range cmd.Commands() {
		asMarkdown(child)
	}
}

// markdownOf is a text for terminals as Markdown: lines that are indented are shown as they are.
func markdownOf(text string) string {
	var out strings.Builder
	shown := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, " "); indented != shown && line != "" {
			out.WriteString("\n```\n")
			shown = indented
		}
		if !shown {
			line = escapeMarkdown(line)
		}
		out.WriteString(line + "\n")
	}
	if shown {
		out.WriteString("```\n")
	}
	return out.String()
}

func escapeMarkdown(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "\\<", ">", "\\>", "[", "\\[", "]", "\\]", "#", "\\#",
	).Replace(text)
}

// checkManPage says what a page lacks, and what man, where it is there, complains of.
func checkManPage(t *testing.T, path string, cmd *cobra.Command) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(string(raw), `\fB--`+f.Name+`\fP`) {
			t.Errorf("%s does not show --%s", path, f.Name)
		}
	})
	program, err := exec.LookPath("man")
	if err != nil {
		return
	}
	read := exec.Command(program, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path)
	read.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
	var stderr strings.Builder
	read.Stderr = &stderr
	if err := read.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%s: %v\n%s", path, err, stderr.String())
	}
}

// writeCompletions writes what the program prints for each shell.
func writeCompletions(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for shell, ending := range map[string]string{"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "ps1"} {
		var out strings.Builder
		a := &app{Environment: Environment{
			Stdout: &out, Stderr: io.Discard, Getenv: func(string) string { return "" },
		}}
		root := a.root()
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "hive-test") {
			t.Fatalf("completion %s: %v\n%.200s", shell, err, out.String())
		}
		if err := os.WriteFile(filepath.Join(dir, "hive-test."+ending), []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
