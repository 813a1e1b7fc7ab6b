package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/reference.md is what the verbs say of themselves.
func TestReference(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Reference\n\nWhat `hive-test VERB --help` prints, verb by verb.\n")
	for _, cmd := range (&app{}).root().Commands() {
		if cmd.GroupID != verbGroup || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		for _, c := range tree(cmd) {
			title := strings.Join(wordsOf(c), " ")
			out.WriteString("\n## " + title + "\n\n```text\n" + strings.TrimSpace(helpOf(t, c)) + "\n```\n")
		}
	}
	path := filepath.Join("..", "..", "docs", "reference.md")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != out.String() {
		t.Errorf("docs/reference.md is not what the verbs say (%v): `go test ./pkg/cli -run Reference -update`", err)
	}
}
