package hive

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed scripts/*.sh
var embedded embed.FS

// commonScript stands before every other one.
const commonScript = "common.sh"

// ScriptNames are the file names of all node scripts, sorted.
func ScriptNames() []string {
	entries, err := embedded.ReadDir("scripts")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

// Script returns the text of a built-in node script, for those who want one to start from.
func Script(name string) (string, error) {
	text, err := embedded.ReadFile("scripts/" + name)
	if err != nil {
		return "", fmt.Errorf("there is no node script %s: there are %s", name, strings.Join(ScriptNames(), ", "))
	}
	return string(text), nil
}

// loadScripts returns all scripts by name, those in dir replacing the built-in ones. A file in dir that replaces
// nothing is an error, because it would silently do nothing.
func loadScripts(dir string) (map[string]string, error) {
	scripts := map[string]string{}
	for _, name := range ScriptNames() {
		text, err := Script(name)
		if err != nil {
			return nil, err
		}
		scripts[name] = text
	}
	if dir == "" {
		return scripts, nil
	}
	return scripts, override(scripts, dir)
}

func override(scripts map[string]string, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the scripts directory: %w", err)
	}
	var problems []error
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != ".sh" || !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if !slices.Contains(ScriptNames(), name) {
			problems = append(problems, fmt.Errorf("%s replaces no node script: there are %s",
				filepath.Join(dir, name), strings.Join(ScriptNames(), ", ")))
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			problems = append(problems, fmt.Errorf("read a node script: %w", err))
			continue
		}
		scripts[name] = string(text)
	}
	return errors.Join(problems...)
}
