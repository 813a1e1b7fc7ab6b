package template

import (
	"embed"
	"strings"

	"hive-test/pkg/hive"
)

//go:embed scripts/*.sh
var embedded embed.FS

// Scripts that run on the node that becomes a template, or on a clone of one.
const (
	ScriptDownload   = "download.sh"
	ScriptUpstream   = "upstream.sh"
	ScriptVersions   = "versions.sh"
	ScriptGeneralise = "generalise.sh"
	ScriptCheck      = "check.sh"
)

// Text returns the text of a script, with hive's own common part before it: hive is found as its scripts find it.
func Text(name string) (string, error) {
	common, err := hive.Script("common.sh")
	if err != nil {
		return "", err
	}
	text, err := embedded.ReadFile("scripts/" + name)
	return common + "\n" + string(text), err
}

// ParseVersions reads what ScriptVersions prints: lines "NAME VERSION".
func ParseVersions(text string) Inputs {
	versions := Inputs{}
	for line := range strings.Lines(text) {
		if name, version, found := strings.Cut(strings.TrimSpace(line), " "); found {
			versions[name] = version
		}
	}
	return versions
}
