package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"hive-test/pkg/config"
)

// checkCommands says why the first suite that is a command line cannot be run, as far as its first word tells: a path
// to a file that is missing or not executable, or a word that was meant for smoke. Those after it may be made by it. On
// a node, files that are not here may be.
func checkCommands(suites []string, onNode bool) error {
	for _, s := range suites {
		if s == config.Smoke {
			continue
		}
		word := s
		if end := strings.IndexAny(s, " \t\n;|&()<>="); end >= 0 {
			word = s[:end]
		}
		switch {
		case word == "" || strings.ContainsAny(word, "$`*?~\\[{!#\"'"): // the shell has to expand it first
			return nil
		case strings.Contains(word, "/"):
			return checkFile(word, onNode)
		case word == s && !onNode:
			return checkWord(word)
		}
		return nil
	}
	return nil
}

// checkFile refuses a file that the shell could not execute.
func checkFile(path string, onNode bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !onNode:
		return fmt.Errorf("--suite %s: there is no such file: a suite is smoke or a line for the shell, which runs in the "+
			"working directory", path)
	case err != nil: // the shell may know better
		return nil
	case info.IsDir() && !onNode:
		return fmt.Errorf("--suite %s: it is a directory: name a file in it", path)
	case info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("--suite %s: it is not executable: chmod +x %s, or --suite 'bash %s'", path, path, path)
	}
	return nil
}

// checkWord refuses a word that is no command here and all but the name of the built-in suite.
func checkWord(word string) error {
	if _, err := exec.LookPath(word); err == nil || len(config.Nearest(strings.ToLower(word), []string{config.Smoke})) == 0 {
		return nil
	}
	return fmt.Errorf("--suite %s: there is no such command: did you mean smoke?", word)
}
