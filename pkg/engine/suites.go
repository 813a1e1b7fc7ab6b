package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"hive-test/pkg/config"
	"hive-test/pkg/remote"
	"hive-test/pkg/suite"
)

// specs are the suites that the settings ask for. The error tells of all that is wrong with them, as far as can be told
// before they run.
func specs(settings config.Settings) ([]suite.Spec, error) {
	var all []suite.Spec
	var problems []error
	for _, asked := range settings.Suites {
		found, err := specsOf(asked, settings)
		if err != nil {
			problems = append(problems, fmt.Errorf("--suite %s: %w", asked, err))
		}
		all = append(all, found...)
	}
	if problem := checkCommands(all, settings.NamedSuites); problem != nil {
		problems = append(problems, problem)
	}
	for _, s := range all {
		for _, flag := range []string{"run", "skip"} {
			if settings.Given("suite_"+flag) && !s.Chooses() {
				problems = append(problems, fmt.Errorf(
					"--%s: cases of %s cannot be chosen: only those of smoke and iac can, and of suites of the file with results: gotest and a "+
						"command without pipes", flag, s.Title()))
			}
		}
	}
	return all, errors.Join(problems...)
}

// specsOf are what one --suite asks for: a suite of the file, smoke or a command line.
func specsOf(asked string, settings config.Settings) ([]suite.Spec, error) {
	i := slices.IndexFunc(settings.NamedSuites, func(named config.Suite) bool { return named.Name == asked })
	if i < 0 {
		spec := suite.Spec{Command: asked, Retries: settings.Retries, Fault: faultOfSuite(config.Suite{}, settings)}
		spec.Builtin = asked == suite.IaC
		if !spec.Builtin && asked != suite.Smoke {
			spec.On = settings.SuiteOn
		}
		return []suite.Spec{spec}, nil
	}
	named := settings.NamedSuites[i]
	spec := suite.Spec{
		Name: named.Name, Asked: named.Name, Command: named.Command, Results: named.Results, On: cmp.Or(named.On, settings.SuiteOn),
		Dir: named.Dir, Env: named.Env, Timeout: named.Timeout, Retries: named.Retries, Needs: suite.Needs(named.Needs),
		Fault: faultOfSuite(named, settings),
	}
	if named.Retries < 0 {
		spec.Retries = settings.Retries
	}
	if named.Path == "" {
		return []suite.Spec{spec}, nil
	}
	files, err := named.Files()
	if err != nil {
		return nil, err
	}
	all := make([]suite.Spec, len(files))
	for i, file := range files {
		all[i] = spec
		all[i].Command = remote.Quote(config.Absolute(file))
		if len(files) > 1 {
			all[i].Name += "-" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		}
	}
	return all, nil
}

// noFault names that nothing goes wrong.
const noFault = "none"

// faultOfSuite is what goes wrong while a suite runs: what it names itself, else what the settings say.
func faultOfSuite(named config.Suite, settings config.Settings) suite.Fault {
	what := cmp.Or(named.Fault, settings.Fault)
	if what == noFault {
		return suite.Fault{}
	}
	return suite.Fault{What: what, Nodes: named.FaultNodes, For: named.FaultFor}
}

// checkCommands says why the first suite that is a command line cannot be run, as far as its first word tells: a path
// to a file that is missing or not executable, or a word that was meant for a suite. Those after it may be made by it. On
// a node, files that are not here may be.
func checkCommands(suites []suite.Spec, named []config.Suite) error {
	for _, s := range suites {
		if s.Builtin || s.Command == suite.Smoke {
			continue
		}
		word, onNode := s.Command, s.On != ""
		if end := strings.IndexAny(s.Command, " \t\n;|&()<>="); end >= 0 {
			word = s.Command[:end]
		}
		switch {
		case s.Dir != "" || word == "" || strings.ContainsAny(word, "$`*?~\\[{!#\"'"): // elsewhere, or the shell expands it first
			return nil
		case strings.Contains(word, "/"):
			return checkFile(word, onNode)
		case word == s.Command && !onNode:
			return checkWord(word, named)
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
		return fmt.Errorf("--suite %s: there is no such file: a suite is smoke, iac or a line for the shell, which runs in the "+
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

// checkWord refuses a word that is no command here and all but the name of a suite.
func checkWord(word string, named []config.Suite) error {
	names := config.BuiltinSuites()
	for _, s := range named {
		names = append(names, s.Name)
	}
	if _, err := exec.LookPath(word); err == nil {
		return nil
	}
	near := config.Nearest(strings.ToLower(word), names)
	if len(near) == 0 {
		return nil
	}
	return fmt.Errorf("--suite %s: there is no such command: did you mean %s?", word, strings.Join(near, " or "))
}
