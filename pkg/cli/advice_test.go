package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"hive-test/pkg/config"
)

// What is advised is about the clusters of this run, wherever they are.
func TestAdviceKeepsThePlace(t *testing.T) {
	for _, tc := range []struct {
		args       []string
		text, want string
	}{
		{nil, "hive-test down x --force", "hive-test down x --force"},
		{[]string{"--clusters-dir", "my clusters"}, "bring back pve2\nthen: hive-test down x", "bring back pve2\nthen: hive-test down --clusters-dir 'my clusters' x"},
		{[]string{"--clusters-dir=c", "--config", "f.yaml"}, "hive-test configure x goes on; hive-test down x removes it", "hive-test configure --clusters-dir c --config f.yaml x goes on; hive-test down --clusters-dir c --config f.yaml x removes it"},
		{[]string{"--clusters-dir=c"}, "`hive-test status` lists them, `hive-test exec x -- true` asks", "`hive-test status --clusters-dir c` lists them, `hive-test exec --clusters-dir c x -- true` asks"},
		{[]string{"--clusters-dir=c"}, "hive-test down x --clusters-dir /elsewhere", "hive-test down x --clusters-dir /elsewhere"},
		{[]string{"--clusters-dir=c"}, "hive-test runs diff A B x", "hive-test runs --clusters-dir c diff A B x"},
		{[]string{"--clusters-dir=c"}, "`hive-test help settings` lists them; the cluster is hive-test's", "`hive-test help settings` lists them; the cluster is hive-test's"},
	} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		config.GlobalFlags(flags)
		if err := flags.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		a := &app{place: placeFlags(flags)}
		if got := a.inPlace(tc.text); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.args, got, tc.want)
		}
		if got := a.inPlace(tc.want); got != tc.want {
			t.Errorf("%q: twice, it is %q", tc.args, got)
		}
	}
}

var advisedFlag = regexp.MustCompile(`(?:^| )--([a-z][a-z-]*)`)

// Every command that any text of the program advises has a verb that is there, and flags that the verb has.
func TestAdvisedCommandsAreThere(t *testing.T) {
	root := (&app{}).root()
	checked := 0
	check := func(where, text string) {
		for _, command := range regexp.MustCompile("hive-test ([a-z]+)\\b[^`;,\n]*").FindAllStringSubmatch(text, -1) {
			words := strings.Fields(command[0])[1:]
			verb, _, err := root.Find(words[:min(2, len(words))]) // a verb may have another below it
			if err != nil || verb == root {
				continue // prose, such as "hive-test makes a cluster"
			}
			for _, flag := range advisedFlag.FindAllStringSubmatch(command[0], -1) {
				checked++
				if verb.Flags().Lookup(flag[1]) == nil && verb.InheritedFlags().Lookup(flag[1]) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", where, command[0], verb.Name(), flag[1])
				}
			}
		}
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return err
		case filepath.Base(path) == "signatures.json":
			raw, err := os.ReadFile(path)
			check(path, string(raw))
			return err
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				check(path, literal.Value)
			}
			return true
		})
		return nil
	})
	if err != nil || checked < 20 {
		t.Errorf("%d flags checked, %v", checked, err)
	}
}
