package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"

	"hive-test/pkg/config"
)

// cmdForms runs a verb with each form of output: forms VERB ARGS.... Each is printed, whatever the exit code, or
// refused with exit code 2 and nothing on stdout. A verb that prints tables prints all others, too.
func cmdForms(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: forms VERB ARGS...")
	}
	for _, form := range forms(ts) {
		err := ts.Exec("hive-test", append([]string{args[0], "-o", form}, args[1:]...)...)
		out, told := ts.ReadFile("stdout"), ts.ReadFile("stderr")
		refused := err != nil && strings.Contains(told, "-o "+form+" is not possible here")
		switch document := isDocument(form, out); {
		case refused && out == "":
		case refused:
			ts.Fatalf("%s -o %s is refused, and prints:\n%s", args[0], form, out)
		case (form == "json" || form == "yaml") != document:
			ts.Fatalf("%s -o %s prints (%v):\n%s\n%s", args[0], form, err, out, told)
		}
	}
}

// forms are the values of -o.
func forms(ts *testscript.TestScript) []string {
	for _, s := range config.Table() {
		if s.Key == "output" {
			return s.OneOf
		}
	}
	ts.Fatalf("there is no setting output")
	return nil
}

// isDocument reports whether text is a document of that form; as a table it is none of either form.
func isDocument(form, text string) bool {
	var value any
	isJSON := json.Unmarshal([]byte(text), &value) == nil
	switch form {
	case "json":
		return isJSON
	case "yaml":
		var read map[string]any
		return !isJSON && yaml.Unmarshal([]byte(text), &read) == nil && len(read) > 0
	}
	return isJSON
}

// Every verb that there is runs with every form.
func TestEveryVerbHasItsForms(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "script", "output.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	verbs := regexp.MustCompile(`(?m)^  ([a-z][a-z-]+) {2,}\S`).FindAllStringSubmatch(help(t, "--help"), -1)
	if len(verbs) < 20 {
		t.Fatalf("read %d verbs from the help", len(verbs))
	}
	for _, verb := range verbs {
		if !regexp.MustCompile(`(?m)^forms ` + verb[1] + `\b`).Match(raw) {
			t.Errorf("output.txtar does not run %s", verb[1])
		}
	}
}
