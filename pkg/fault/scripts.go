package fault

import (
	"embed"

	"hive-test/pkg/hive"
)

//go:embed scripts/*.sh
var embedded embed.FS

// script returns the text of a script, with what stands before it: hive's own, for services are as hive's scripts know
// them.
func script(name string) (string, error) {
	before, err := hive.Script("common.sh")
	if err != nil {
		return "", err
	}
	text := before
	for _, file := range []string{"common.sh", name} {
		part, err := embedded.ReadFile("scripts/" + file)
		if err != nil {
			return "", err
		}
		text += "\n" + string(part)
	}
	return text, nil
}

// healer returns the text of the script that nodes keep to heal a fault by themselves.
func healer() (string, error) {
	text, err := embedded.ReadFile("scripts/heal.sh")
	return string(text), err
}
