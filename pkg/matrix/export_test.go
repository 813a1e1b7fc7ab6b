package matrix

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rhysd/actionlint"
)

var update = flag.Bool("update", false, "write the golden files")

func exported(t *testing.T) Export {
	t.Helper()
	content := "name: nightly\naxes: {node_count: [1, 3, 5]}\n"
	m := parsed(t, content)
	cells, err := m.Cells()
	if err != nil {
		t.Fatal(err)
	}
	return Export{
		Name: m.Name, Cells: cells, Sizes: []Size{{VMs: 1}, {VMs: 3}, {VMs: 5}}, Limits: Limits{Budget: Size{VMs: 8}},
		Content: []byte(content), Command: "hive-test matrix run nightly.yaml --sim", Image: "hive-test",
	}
}

func TestExports(t *testing.T) {
	x := exported(t)
	claimed := x
	claimed.Claim = "results"
	for name, write := range map[string]func() ([]byte, error){
		"github.json": x.GitHub, "gitlab.yaml": x.GitLab, "k8s.yaml": x.Kubernetes,
		"k8s-claim.yaml": claimed.Kubernetes,
	} {
		got, err := write()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// What is printed for GitHub is a matrix that a job can have.
func TestGitHubTakesTheMatrix(t *testing.T) {
	raw, err := exported(t).GitHub()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  string
		want int
	}{{"cell", 0}, {"cel", 1}} { // a key that it has not is found
		workflow := "on: push\njobs:\n  cells:\n    runs-on: ubuntu-latest\n    strategy:\n      matrix: " + string(bytes.TrimSpace(raw)) +
			"\n    steps:\n      - run: hive-test matrix run nightly.yaml --cell \"${{ matrix." + c.key + " }}\"\n"
		linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: "", Pyflakes: ""})
		if err != nil {
			t.Fatal(err)
		}
		mistakes, err := linter.Lint("workflow.yml", []byte(workflow), nil)
		if err != nil || len(mistakes) != c.want {
			t.Errorf("matrix.%s: %v %v", c.key, mistakes, err)
		}
	}
}

// However large cells are, no more run at once than the budget has room for.
func TestCellsAtOnce(t *testing.T) {
	sizes := []Size{{VMs: 1, MemoryMB: 4}, {VMs: 3, MemoryMB: 4}, {VMs: 5, MemoryMB: 4}}
	for _, c := range []struct {
		limits Limits
		want   int
	}{
		{Limits{}, 3},
		{Limits{MaxParallel: 2}, 2},
		{Limits{Budget: Size{VMs: 8}}, 2},
		{Limits{Budget: Size{VMs: 7}}, 1},
		{Limits{Budget: Size{VMs: 9, MemoryMB: 11}}, 2},
	} {
		x := Export{Cells: make([]Cell, 3), Sizes: sizes, Limits: c.limits}
		if got := x.atOnce(); got != c.want {
			t.Errorf("%+v: %d, not %d", c.limits, got, c.want)
		}
	}
}
