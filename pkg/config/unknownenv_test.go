package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnknownEnv(t *testing.T) {
	for _, tc := range []struct {
		variable string
		want     []string
	}{
		{"HIVE_TEST_NODECOUNT=5", []string{"environment HIVE_TEST_NODECOUNT is no setting: did you mean HIVE_TEST_NODE_COUNT?"}},
		{"HIVE_TEST_TIMEOUTS_UP=5m", []string{"environment HIVE_TEST_TIMEOUTS_UP is no setting: did you mean HIVE_TEST_TIMEOUT_UP?"}},
		{"HIVE_TEST_WHATEVER_ELSE=1", []string{"environment HIVE_TEST_WHATEVER_ELSE is no setting: `hive-test help settings` lists them"}},
		{"HIVE_TEST_NODE_COUNT=5", nil},
		{"HIVE_TEST_NODECOUNT=", nil}, // as not set
		{"HIVE_TEST_BIN_DIR=/x", nil},
		{"HIVE_TESTS=1", nil},
		{"PROXMOX_VE_ENDPOINT=x", nil},
	} {
		if diff := cmp.Diff(tc.want, UnknownEnv([]string{"PATH=/bin", tc.variable})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.variable, diff)
		}
	}
}

// Every such variable that code or scripts of this repository name is known, but for those that tests of this warning
// make up.
func TestOwnVariablesAreKnown(t *testing.T) {
	madeUp := []string{
		"HIVE_TEST_NODECOUNT", "HIVE_TEST_TIMEOUTS_UP", "HIVE_TEST_WHATEVER_ELSE", "HIVE_TEST_NODE_COUTN",
	}
	name, found := regexp.MustCompile(`\bHIVE_TEST_[A-Z0-9_]*[A-Z0-9]\b`), 0
	for _, pattern := range []string{"cmd/*/*.go", "pkg/*/*.go", "pkg/*/*/*.go", "testdata/script/*.txtar", "Makefile"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, variable := range name.FindAllString(string(raw), -1) {
				found++
				if !slices.Contains(madeUp, variable) && len(UnknownEnv([]string{variable + "=x"})) > 0 {
					t.Errorf("%s: %s is neither a setting nor one of otherVariables", strings.TrimPrefix(file, "../../"), variable)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d variables were found", found)
	}
}

// What children are marked with is no setting: a hive-test among them would take it for one.
func TestNoSettingIsAMark(t *testing.T) {
	marks := otherVariables()
	for _, s := range Table() {
		for _, name := range s.Env {
			if slices.Contains(marks, name) {
				t.Errorf("%s is set by %s, which is something else", s.Key, name)
			}
		}
	}
}
