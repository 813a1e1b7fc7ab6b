package matrix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T, text string) Matrix {
	t.Helper()
	m, err := Parse(strings.NewReader(text), "m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// labels are the cells of a file, for people.
func labels(t *testing.T, text string) []string {
	t.Helper()
	m := parsed(t, text)
	cells, err := m.Cells()
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, c := range cells {
		all = append(all, m.Label(c))
	}
	return all
}

func TestCells(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"axes": {
			"name: n\naxes: {node_count: [1, 3], cpu_cores: [4, 8]}",
			[]string{
				"node_count=1, cpu_cores=4", "node_count=1, cpu_cores=8", "node_count=3, cpu_cores=4", "node_count=3, cpu_cores=8",
			},
		},
		"excluded, by some of the values": {
			"name: n\naxes: {a: [1, 2], b: [x, y]}\nexclude: [{a: 1, b: x}, {b: y}]",
			[]string{"a=2, b=x"},
		},
		// the example of GitHub's documentation
		"included": {
			`name: n
axes: {fruit: [apple, pear], animal: [cat, dog]}
include:
  - {color: green}
  - {color: pink, animal: cat}
  - {fruit: apple, shape: circle}
  - {fruit: banana}
  - {fruit: banana, animal: cat}`,
			[]string{
				"fruit=apple, animal=cat, color=pink, shape=circle", "fruit=apple, animal=dog, color=green, shape=circle",
				"fruit=pear, animal=cat, color=pink", "fruit=pear, animal=dog, color=green", "fruit=banana",
				"fruit=banana, animal=cat",
			},
		},
		"no axes": {"name: n\ninclude: [{node_count: 1}, {node_count: 3}]", []string{"node_count=1", "node_count=3"}},
		"suites": {
			"name: n\naxes: {suites: [smoke, [smoke, ./x.sh]]}", []string{"suite=smoke", "suite=smoke + ./x.sh"},
		},
		"harmless": {"name: n\naxes: {a: [\"x\\u202E\\e[31my\\tz\"]}", []string{"a=xy z"}},
		"in words": {"name: n\naxes: {a: [x, \"x\\u202E\"]}", []string{"two cells have the same values: a=x"}},
		"again":    {"name: n\naxes: {a: [1]}\nrepeat: 2", []string{"a=1, run 1 of 2", "a=1, run 2 of 2"}},
		"nothing":  {"name: n\naxes: {a: [1]}\nexclude: [{a: 1}]", []string{"there is no cell: every combination is excluded, or an axis has no value"}},
		"alike":    {"name: n\naxes: {l: ['a + b', [a, b]]}", []string{"two cells have the same values: l=a + b"}},
		"the same": {"name: n\ninclude: [{a: 1}, {a: 1}]", []string{"two cells have the same values: a=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, labels(t, c.text)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A name follows from the values alone, so that the clusters and the history of a cell are found again.
func TestNamesOfCells(t *testing.T) {
	names := func(text string) (names []string) {
		cells, err := parsed(t, text).Cells()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return names
	}
	one := names("name: n\naxes: {a: [1, 2], b: [x]}")
	if diff := cmp.Diff(one, names("name: n\nsettings: {c: 7}\naxes: {b: [x], a: ['2', 1]}")); diff != "" {
		t.Errorf("another order, and other settings (-want +got):\n%s", diff)
	}
	if again := names("name: n\naxes: {a: [1]}\nrepeat: 2"); !strings.HasSuffix(again[1], "-2") {
		t.Errorf("of a repeated cell: %v", again)
	}
}

func TestSettingsOfCells(t *testing.T) {
	cells, err := parsed(t, "name: n\nsettings: {x: 1, l: [p, q]}\naxes: {a: [{k: v}]}").Cells()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range cells[0].Settings {
		got[key] = value.Text()
	}
	if diff := cmp.Diff(map[string]string{"a": `{"k":"v"}`, "x": "1", "l": "p\nq"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":         {"", []string{"m: it is empty: it needs axes"}},
		"no mapping":    {"[1]", []string{"m:1: the file: it must be a mapping"}},
		"no YAML":       {"a: [", []string{"m:1: did not find expected node content"}},
		"two documents": {"a: 1\n---\nb: 1", []string{"m: it holds more than one document"}},
		"many at once": {
			"nam: n\naxes: {a: 1}\nbudget: {ram: 1}\nmax_parallel: 0\nfail_fast: maybe\ninclude: x",
			[]string{
				`m:1: unknown key "nam": there are ` + keys, "m:2: axes: a needs a list of values",
				`m:3: budget: unknown key "ram": there are memory_mb, cores, vms`,
				"m:4: max_parallel: it must be 1 or more: leave it out for no bound",
				"m:5: fail_fast: it must be true or false", "m:6: include: it must be a list of mappings",
			},
		},
		"no name":         {"axes: {a: [1]}", []string{"m:1: it has no name, which begins the names of its clusters"}},
		"a bad name":      {"name: Nightly\naxes: {a: [1]}", []string{`m:1: name: "Nightly" is not valid: use lower-case letters, digits and inner hyphens`}},
		"a long name":     {"name: " + strings.Repeat("n", 27) + "\naxes: {a: [1]}", []string{"m:1: name: it has 27 characters: at most 26 leave room for what the cells' names add"}},
		"suites of both":  {"name: n\naxes: {suites: [smoke, {x: {command: y}}]}", []string{"m:2: axes: suites: some values are suites to run, some say what suites are: use suite for the first"}},
		"one axis twice":  {"name: n\naxes: {suite: [x], suites: [y]}", []string{"m:2: axes: suite is there twice"}},
		"one grid axis":   {"name: n\naxes: {a: [1]}\ngrid: [a, a]", []string{"m:1: grid needs two axes, rows and columns"}},
		"no axes":         {"name: n", []string{"m:1: it has no axes: give settings with the values that they take, like node_count: [1, 3]"}},
		"a value twice":   {"name: n\naxes: {a: [1, '1']}", []string{"m:2: axes: a has 1 twice"}},
		"an empty value":  {"name: n\naxes: {a: [~]}", []string{"m:2: a value is empty"}},
		"a key twice":     {"name: n\naxes:\n  a: [1]\n  a: [2]", []string{"m:4: axes: a is there twice"}},
		"a foreign grid":  {"name: n\naxes: {a: [1]}\ngrid: [a, b]", []string{`m:1: grid: "b" is no axis`}},
		"a foreign axis":  {"name: n\naxes: {a: [1]}\nexclude: [{b: 1}]", []string{`m:1: exclude: "b" is no axis`}},
		"both":            {"name: n\naxes: {a: [1]}\nsettings: {a: 2}", []string{"m:1: settings: a is an axis"}},
		"too many":        {"name: n\naxes: {a: [1, 2]}\nrepeat: 501", []string{"m:1: there are more than 1000 cells"}},
		"far too many":    {"name: n\naxes: {" + axes(12) + "}", []string{"m:1: there are more than 1000 combinations"}},
		"no whole number": {"name: n\naxes: {a: [1]}\nrepeat: 1.5", []string{"m:3: repeat: it must be a whole number"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.text), "m")
			if err == nil {
				t.Fatal("it is taken")
			}
			if diff := cmp.Diff(c.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func axes(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("a%d: [1, 2]", i))
	}
	return strings.Join(all, ", ")
}

func FuzzParse(f *testing.F) {
	f.Add("name: n\naxes: {a: [1, 2]}\ninclude: [{a: 3, b: [x, {y: z}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(strings.NewReader(text), "m")
		if err != nil {
			return
		}
		cells, _ := m.Cells()
		names := map[string]bool{}
		for _, c := range cells {
			if names[c.Name] {
				t.Errorf("two cells are called %s", c.Name)
			}
			names[c.Name] = true
		}
	})
}

func TestShardsAreTheWhole(t *testing.T) {
	m := parsed(t, "name: n\naxes: {a: [1, 2, 3, 4, 5], b: [1, 2, 3]}")
	cells, err := m.Cells()
	if err != nil {
		t.Fatal(err)
	}
	var sizes []Size
	for i := range cells {
		sizes = append(sizes, Size{MemoryMB: 1024 * (i + 1), VMs: 1 + i%3})
	}
	for of := 1; of <= len(cells)+2; of++ {
		seen := map[string]int{}
		least, most := len(cells), 0
		for n := 1; n <= of; n++ {
			part := Shard(cells, sizes, n, of)
			least, most = min(least, len(part)), max(most, len(part))
			for _, c := range part {
				seen[c.Name]++
			}
		}
		if len(seen) != len(cells) || most-least > 1 {
			t.Errorf("%d shards: %d of %d cells, %d to %d in each", of, len(seen), len(cells), least, most)
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%d shards: %s is in %d", of, name, n)
			}
		}
	}
}

// The order that is found is within 15% of the best one, which is found by trying all of them.
func TestOrderIsNearTheBest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	limits := Limits{MaxParallel: 4, Budget: Size{MemoryMB: 40, Cores: 24, VMs: 9}}
	worst := 1.0
	for range 30 {
		jobs := make([]Job, 7)
		order := make([]int, len(jobs))
		for i := range jobs {
			vms := []int{1, 3, 5}[random.IntN(3)]
			jobs[i] = Job{Size{MemoryMB: 8 * vms, Cores: vms * 2, VMs: vms}, 1 + 10*random.Float64()*float64(vms)}
			order[i] = i
		}
		best := Simulate(jobs, order, limits).Seconds
		permute(order, 0, func() { best = min(best, Simulate(jobs, order, limits).Seconds) })
		found := Order(jobs, limits)
		got := Simulate(jobs, found, limits)
		worst = max(worst, got.Seconds/best)
		if !slices.Equal(found, Order(jobs, limits)) {
			t.Error("the order differs from call to call")
		}
		checkBudget(t, jobs, got, limits)
	}
	t.Logf("the longest was %.3f times the best", worst)
	if worst > 1.15 {
		t.Errorf("%.3f times as long as the best", worst)
	}
}

// checkBudget looks at each moment at which a job begins.
func checkBudget(t *testing.T, jobs []Job, s Schedule, limits Limits) {
	t.Helper()
	for _, now := range s.Begins {
		var load Load
		for i, begin := range s.Begins {
			if begin <= now && now < begin+jobs[i].Seconds {
				load.Add(jobs[i].Size)
			}
		}
		if load.cells > limits.MaxParallel || !load.Size().Within(limits.Budget) {
			t.Errorf("after %.1f s %d run, with %s", now, load.cells, load.Size())
		}
	}
}

// permute calls f with every order of list.
func permute(list []int, from int, f func()) {
	if from == len(list) {
		f()
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permute(list, from+1, f)
		list[from], list[i] = list[i], list[from]
	}
}

// What never fits does not keep the others from being run.
func TestSimulateWithoutRoom(t *testing.T) {
	got := Simulate([]Job{{Size{VMs: 3}, 5}, {Size{VMs: 1}, 2}}, []int{0, 1}, Limits{Budget: Size{VMs: 2}})
	if got.Seconds != 2 {
		t.Errorf("%.1f s", got.Seconds)
	}
}

func TestShared(t *testing.T) {
	m := parsed(t, "name: n\naxes: {nodes: [1, 3, 5], cores: [4, 8]}\nsettings: {x: 1}")
	cells, err := m.Cells()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		failed []int
		want   string
	}{
		{nil, ""},
		{[]int{0, 1, 2, 3, 4, 5}, ""},
		{[]int{4, 5}, "all 2 cells that failed have nodes=5, and none that passed has"},
		{[]int{1, 3}, "all 2 cells that failed have cores=8, and so has 1 of the 4 that passed"},
		{[]int{5}, "the cell that failed has nodes=5 and cores=8, and none that passed has"},
		{[]int{0, 3}, ""},
	} {
		var failed, passed []Cell
		for i, cell := range cells {
			if slices.Contains(c.failed, i) {
				failed = append(failed, cell)
			} else {
				passed = append(passed, cell)
			}
		}
		if got := m.Shared(failed, passed); got != c.want {
			t.Errorf("%v: %q, not %q", c.failed, got, c.want)
		}
	}
}

// What a cell lacks is told if and only if it does not fit.
func TestLackIsWhatDoesNotFit(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	size := func() Size { return Size{MemoryMB: random.IntN(4), Cores: random.IntN(4), VMs: random.IntN(4)} }
	for range 2000 {
		var load Load
		for range random.IntN(3) {
			load.Add(size())
		}
		one, limits := size(), Limits{MaxParallel: random.IntN(3), Budget: size()}
		if what, why := load.Lack(one, limits); load.Fits(one, limits) != (what == "") || (what == "") != (why == "") {
			t.Fatalf("%s beside %v within %v: it lacks %q (%q)", one, load, limits, what, why)
		}
	}
}
