package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTravelsToANode(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"work/run.sh": 0o755, "work/tests/e2e/run.sh": 0o755, "work/tests/e2e/lib/help.sh": 0o644,
		"work/tests/data.txt": 0o644, "work/echo/x": 0o644,
		"repo/go.mod": 0o644, "repo/tests/vpc.sh": 0o644, "other/run.sh": 0o755, "other/a b.sh": 0o755,
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) string { return filepath.Join(root, path) }
	for _, c := range []struct {
		name, command, there string
		trees                []tree
	}{
		{"nothing of here", "timeout 60 ./missing.sh ${HIVE_NODES//,/ } && true; /bin/true", "", nil},
		{"a script", "./run.sh a", "", []tree{{at("work/run.sh"), "run.sh"}}},
		{"what is beside it", "bash -e tests/e2e/run.sh >out", "", []tree{{at("work/tests/e2e") + "/.", "tests/e2e"}}},
		{"twice", "tests/e2e/run.sh;tests/e2e/run.sh", "", []tree{{at("work/tests/e2e") + "/.", "tests/e2e"}}},
		{"data alone", "cat <tests/data.txt", "", []tree{{at("work/tests/data.txt"), "tests/data.txt"}}},
		{"a directory", "ls ./tests X=tests/e2e", "", []tree{{at("work/tests") + "/.", "tests"}, {at("work/tests/e2e") + "/.", "tests/e2e"}}},
		{"a word is no directory", "echo echo", "", nil},
		{"of a repository", at("repo/tests/vpc.sh") + " x", "./tests/vpc.sh x", []tree{{at("repo/tests") + "/.", "tests"}}},
		{"of elsewhere", "'../other/run.sh' && ./run.sh", "'./elsewhere-1/run.sh' && ./run.sh", []tree{{at("other/run.sh"), "elsewhere-1/run.sh"}, {at("work/run.sh"), "run.sh"}}},
		{"the working directory and above", "cd .. && ls . / " + root, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			there, trees := travel(at("work"), c.command)
			if c.there == "" {
				c.there = c.command
			}
			if there != c.there {
				t.Errorf("runs %q, want %q", there, c.there)
			}
			if diff := cmp.Diff(c.trees, trees, cmp.AllowUnexported(tree{})); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
		})
	}
}
