package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/config"
	"hive-test/pkg/suite"
)

// What the shell alone can tell is left to it.
func TestCheckCommands(t *testing.T) {
	dir := t.TempDir()
	run, text := filepath.Join(dir, "run.sh"), filepath.Join(dir, "text")
	if err := os.WriteFile(run, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"smoke": "", run: "", run + " --fast": "", run + ";true": "", run + ">out": "", "A=b " + dir: "", "cd " + dir + " && ./run.sh": "",
		dir + `/"$SUITE"/run.sh`: "", dir + "/'my test.sh'": "", `"` + dir + `/none"`: "", dir + `/r"un.sh"`: "", "[ -e x ]": "",
		". " + text: "", "time " + dir: "", "go test ./...": "", "smokes -x": "",
		dir + "/none": "there is no such file", dir: "it is a directory", text: "chmod +x", text + " --fast": "chmod +x",
		"smok": "did you mean smoke", "e2e-lon": "did you mean e2e-long",
	} {
		err := checkCommands([]suite.Spec{{Command: command}}, []config.Suite{{Name: "e2e-long"}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", command, err, want)
		}
	}
	for command, want := range map[string]string{dir + "/none": "", dir: "", text: "chmod +x", "smok": ""} {
		if err := checkCommands([]suite.Spec{{Command: command, On: "1"}}, nil); (err == nil) != (want == "") {
			t.Errorf("%s on a node: got %v, want %q", command, err, want)
		}
	}
}

// The file names what results are read of by the words that suites know.
func TestResultKindsAreThoseOfSuites(t *testing.T) {
	known := []string{suite.ByCommand, suite.ByJUnit, suite.ByTAP, suite.ByGoTest}
	if got := config.ResultKinds(); !slices.Equal(got, known) {
		t.Errorf("the file takes %q, and suites know %q", got, known)
	}
}
