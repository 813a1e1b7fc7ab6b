package config

import (
	"slices"
	"strings"
)

// envPrefix is what the environment's names of settings begin with.
const envPrefix = "HIVE_TEST_"

// otherVariables begin like settings and are none: the marks of this program's children, what completion reads, and
// what the tests of this repository are told.
func otherVariables() []string {
	return []string{
		"HIVE_TEST_RUN", "HIVE_TEST_OWNER", "HIVE_TEST_PROCESS", "HIVE_TEST_GUARDED",
		"HIVE_TEST_ACTIVE_HELP", "HIVE_TEST_COMPLETION_DESCRIPTIONS",
		"HIVE_TEST_BIN_DIR", "HIVE_TEST_COVER_DIR", "HIVE_TEST_CRASH", "HIVE_TEST_FAULTS", "HIVE_TEST_OPENSSH",
		"HIVE_TEST_OPENSSH_KEY", "HIVE_TEST_JUNIT_XSD", "HIVE_TEST_RESEARCH_DIR", "HIVE_TEST_SAMPLES_DIR", "HIVE_TEST_SOAK",
		"HIVE_TEST_S3",
	}
}

// UnknownEnv names the variables of an environment that look like settings and are none, each as a line that says which
// may have been meant. One that is empty counts as not set, as everywhere.
func UnknownEnv(environ []string) []string {
	known := otherVariables()
	for _, s := range Table() {
		known = append(known, s.Env...)
	}
	var unknown []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		unknown = append(unknown, "environment "+name+" is no setting"+nearestVariable(name))
	}
	slices.Sort(unknown)
	return unknown
}

// nearestVariable says which variable was meant, by what comes after the prefix that all have.
func nearestVariable(name string) string {
	var words []string
	for _, s := range Table() {
		words = append(words, strings.TrimPrefix(s.Env[0], envPrefix))
	}
	near := Nearest(strings.TrimPrefix(name, envPrefix), words)
	if len(near) == 0 {
		return ": `hive-test help settings` lists them"
	}
	return ": did you mean " + envPrefix + strings.Join(near, " or "+envPrefix) + "?"
}
