package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

const withEnvironments = `environment: staging
node_count: 3
cpu_cores: 2
proxmox: {pool: ci, endpoint: "https://pve1:8006"}
suites: {one: {command: "true"}}
environments:
  staging:
    node_count: 5
    proxmox:
      pool: staging
    state_passphrase: env:STAGING_PASSPHRASE
    binary: build/hive
  prod:
    protected: true
    node_count: 7
    suites: {two: {command: "true"}}
`

// The environment that is chosen counts over the rest of the file, and under all that is said elsewhere.
func TestEnvironmentPrecedence(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, FileName), withEnvironments)
	inStaging, inProd := ", environments.staging", ", environments.prod"
	for _, tc := range []struct {
		name         string
		args, env    []string
		values       map[string]string
		chosen       string
		nodes        int
		source, pool string
		protected    bool
	}{
		{name: "as the file says", chosen: "staging", nodes: 5, source: file + ":8" + inStaging, pool: "staging"},
		{name: "variable", env: []string{"HIVE_TEST_ENVIRONMENT=prod"}, chosen: "prod", nodes: 7, source: file + ":15" + inProd, pool: "ci", protected: true},
		{name: "flag over variable", args: []string{"--env=staging"}, env: []string{"HIVE_TEST_ENVIRONMENT=prod"}, chosen: "staging", nodes: 5, source: file + ":8" + inStaging, pool: "staging"},
		{name: "program over flag", args: []string{"--env=staging"}, values: map[string]string{"environment": "prod"}, chosen: "prod", nodes: 7, source: file + ":15" + inProd, pool: "ci", protected: true},
		{name: "none", args: []string{"--env="}, nodes: 3, source: file + ":2", pool: "ci"},
		{name: "variable of the setting", env: []string{"HIVE_TEST_NODE_COUNT=9"}, chosen: "staging", nodes: 9, source: "environment HIVE_TEST_NODE_COUNT", pool: "staging"},
		{name: "flag of the setting", args: []string{"--node-count=1"}, chosen: "staging", nodes: 1, source: "flag --node-count", pool: "staging"},
		{name: "environments of a variable", env: []string{`HIVE_TEST_ENVIRONMENTS={staging: {node_count: 6}}`}, chosen: "staging", nodes: 6, source: "environment HIVE_TEST_ENVIRONMENTS:1" + inStaging, pool: "ci"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Load(LoadOptions{Flags: flags(t, tc.args...), Env: env(tc.env...), Values: tc.values, WorkDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if s.Environment != tc.chosen || s.NodeCount != tc.nodes || s.Source("node_count") != tc.source || s.Proxmox.Pool != tc.pool || s.Protected != tc.protected {
				t.Errorf("environment %q, %d nodes from %s, pool %s, protected %t", s.Environment, s.NodeCount, s.Source("node_count"), s.Proxmox.Pool, s.Protected)
			}
			if s.CPUCores != 2 || s.Proxmox.Endpoint != "https://pve1:8006" {
				t.Errorf("of the rest of the file %d cores and %s are left", s.CPUCores, s.Proxmox.Endpoint)
			}
		})
	}
}

// What has keys of its own is replaced as a whole, paths are relative to the file, and what is elsewhere stays there.
func TestEnvironmentKinds(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "conf", FileName), withEnvironments)
	s, err := Load(LoadOptions{ConfigPath: file, Env: env(), WorkDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s.Binary != filepath.Join(dir, "conf", "build", "hive") {
		t.Errorf("the binary is %s", s.Binary)
	}
	if ref, named := s.Reference("state_passphrase"); !named || ref.String() != "env:STAGING_PASSPHRASE" {
		t.Errorf("the passphrase is %v, elsewhere: %t", ref, named)
	}
	if got, line := LineOf(s.Source("state_passphrase")); got != file || line != 11 {
		t.Errorf("it stands in %s on line %d", got, line)
	}
	prod, err := Load(LoadOptions{ConfigPath: file, Env: env("HIVE_TEST_ENVIRONMENT=prod"), WorkDir: dir})
	if err != nil || len(prod.NamedSuites) != 1 || prod.NamedSuites[0].Name != "two" || s.NamedSuites[0].Name != "one" {
		t.Errorf("suites are %v and %v: %v", s.NamedSuites, prod.NamedSuites, err)
	}
	if _, named := prod.Reference("state_passphrase"); named {
		t.Error("prod has the passphrase of staging")
	}
}

// What is wrong with an environment is told whether it is chosen or not, with its line.
func TestEnvironmentMistakes(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"environments: {prod: {node_cuont: 3}}", `:1: environments.prod: unknown key "node_cuont": did you mean "node_count"?`},
		{"environments: {prod: {node_count: many}}", `:1: environments.prod: node_count: it must be a whole number, not "many"`},
		{"environments:\n  prod:\n    environment: prod", `:3: environments.prod: an environment cannot have environment: `},
		{"environments:\n  prod:\n    environments: {}", `:3: environments.prod: an environment cannot have environments: `},
		{"environments:\n  prod: 3", `:2: environments.prod: it must be a list of keys with values`},
		{"environments:\n  \"a b\": {}", `:2: environments: "a b" is no name of an environment: `},
		{"environments:\n  a: {}\n  a: {}", `:3: environments: a is there twice`},
		{"environments: [prod]", `:1: environments: it must be a mapping of names to values, not a list`},
		{"environments: {prod: {config: x}}", `:1: environments.prod: config cannot be set in the file`},
		{"environments: {prod: {i_know: x}}", `:1: environments.prod: i_know cannot be set in the file: use --i-know or `},
		{"environment: prdo\nenvironments: {prod: {}, staging: {}}", `:1: environment: there is no environment "prdo", but prod, staging: did you mean "prod"?`},
		{"environment: prod", `:1: environment: there is no environment "prod", for the config file has no environments`},
	} {
		dir := t.TempDir()
		file := write(t, filepath.Join(dir, FileName), tc.text)
		_, err := Load(LoadOptions{Env: env(), WorkDir: dir})
		if err == nil || !strings.HasPrefix(err.Error(), file+tc.want) {
			t.Errorf("%s\nthe problem is %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestUnknownEnvironmentOfAFlag(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), withEnvironments)
	_, err := Load(LoadOptions{Flags: flags(t, "--env=stagin"), Env: env(), WorkDir: dir})
	problem, ok := errors.AsType[*Error](err)
	if !ok || !problem.Usage() || err.Error() != `--env: there is no environment "stagin", but prod, staging: did you mean "staging"?` {
		t.Errorf("the problem is %v", err)
	}
	_, err = Load(LoadOptions{Env: env("HIVE_TEST_ENVIRONMENT=x"), WorkDir: dir})
	if err == nil || err.Error() != `environment HIVE_TEST_ENVIRONMENT: there is no environment "x", but prod, staging` {
		t.Errorf("the problem is %v", err)
	}
}

// What is said for one run protects, too, but does not take off what the file says.
func TestProtectionIsNotTakenOff(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, FileName), "protected: true\nenvironments: {dev: {protected: false}}\n")
	for _, tc := range []struct {
		args, env []string
		protected bool
		want      string
	}{
		{nil, nil, true, ""},
		{[]string{"--env=dev"}, nil, false, ""},
		{[]string{"--env=dev", "--protected"}, nil, true, ""},
		{[]string{"--protected=false"}, nil, true, "--protected: " + file + ":1 protects what is made here, and only there can that be taken off"},
		{nil, []string{"HIVE_TEST_PROTECTED=no"}, true, "protected (environment HIVE_TEST_PROTECTED): " + file + ":1 protects what is made here, and only there can that be taken off"},
	} {
		s, err := Load(LoadOptions{Flags: flags(t, tc.args...), Env: env(tc.env...), WorkDir: dir})
		told := ""
		if err != nil {
			told = err.Error()
		}
		if s.Protected != tc.protected || told != tc.want {
			t.Errorf("%v %v: protected %t, %s", tc.args, tc.env, s.Protected, told)
		}
	}
}
