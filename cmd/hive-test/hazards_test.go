package main_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const hazardCount = 16

// TestHazards holds docs/hazards.md to the truth: every hazard has a row, every recipe and script in it is there, each
// script uses one of the row's recipes and each recipe is used by one of the row's scripts. No recipe lies about
// unused.
func TestHazards(t *testing.T) {
	scripts := texts(t, "../../testdata/script/*.txtar")
	recipes := texts(t, "../../testdata/faults/*.json")
	raw, err := os.ReadFile("../../docs/hazards.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*\| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(raw), -1)
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d is of hazard %s", i+1, row[1])
		}
		checkHazard(t, row[1], quoted(row[2]), quoted(row[3]), recipes, scripts)
	}
	if len(rows) != hazardCount {
		t.Errorf("%d rows, want %d", len(rows), hazardCount)
	}
	for recipe := range recipes {
		if !slices.ContainsFunc(slices.Collect(maps.Values(scripts)), uses(recipe)) {
			t.Errorf("no script uses testdata/faults/%s", recipe)
		}
	}
}

const realHiveFacts = 27

// TestRealHive holds the part of docs/hazards.md about real hive to the truth: each fact names tests of the simulated
// hive that are there, and each of those that plays a fact is named.
func TestRealHive(t *testing.T) {
	raw, err := os.ReadFile("../../docs/hazards.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, text := range texts(t, "../../pkg/sim/hive/*_test.go") {
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(text, -1) {
			tests[name[1]] = false
		}
	}
	rows := regexp.MustCompile(`(?m)^\| H(\d+) \| [^|]+ \| ([^|]+) \|$`).FindAllStringSubmatch(string(raw), -1)
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d is of fact H%s", i+1, row[1])
		}
		named := quoted(row[2])
		if len(named) == 0 {
			t.Errorf("H%s names no test", row[1])
		}
		for _, name := range named {
			if _, ok := tests[name]; !ok {
				t.Errorf("H%s: pkg/sim/hive has no %s", row[1], name)
			}
			tests[name] = true
		}
	}
	if len(rows) != realHiveFacts {
		t.Errorf("%d rows, want %d", len(rows), realHiveFacts)
	}
	general := []string{
		"TestMain", "TestThreeNodes", "TestGateway", "TestFaults", "TestNoPeers", "TestRecordsOutliveTheirServices",
		"TestServicesAreCheap", "TestStore",
	}
	for name, named := range tests {
		if !named && !slices.Contains(general, name) {
			t.Errorf("docs/hazards.md does not name %s", name)
		}
	}
}

func checkHazard(t *testing.T, number string, named, by []string, recipes, scripts map[string]string) {
	t.Helper()
	if len(named) == 0 || len(by) == 0 {
		t.Errorf("hazard %s: %d recipes, %d scripts", number, len(named), len(by))
	}
	for _, recipe := range named {
		if recipes[recipe] == "" {
			t.Errorf("hazard %s: there is no testdata/faults/%s", number, recipe)
		}
		if !slices.ContainsFunc(by, func(s string) bool { return uses(recipe)(scripts[s]) }) {
			t.Errorf("hazard %s: none of %v uses %s", number, by, recipe)
		}
	}
	for _, script := range by {
		if scripts[script] == "" {
			t.Errorf("hazard %s: there is no testdata/script/%s", number, script)
		}
		if !slices.ContainsFunc(named, func(r string) bool { return uses(r)(scripts[script]) }) {
			t.Errorf("hazard %s: %s uses none of %v", number, script, named)
		}
	}
}

// uses tells whether a script's text names a recipe.
func uses(recipe string) func(script string) bool {
	return func(script string) bool { return strings.Contains(script, "faults/"+recipe) }
}

// texts are the files of a pattern, by base name.
func texts(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	found := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = string(raw)
	}
	return found
}

func quoted(cell string) []string {
	var names []string
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		names = append(names, name[1])
	}
	return names
}
