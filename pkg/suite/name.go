package suite

import (
	"path/filepath"
	"slices"
	"strings"
)

// wrappers are programs that only run another one, with their options that take a word of their own. The value of
// operands is how many words follow before the program.
func wrappers() map[string]wrapper {
	return map[string]wrapper{
		"bash":    {options: []string{"-o", "-O", "+o", "+O", "--rcfile", "--init-file"}},
		"sh":      {options: []string{"-o", "+o"}},
		"cd":      {operands: 1},
		"command": {},
		"env":     {options: []string{"-u", "-C", "-S", "--unset", "--chdir"}},
		"exec":    {options: []string{"-a"}},
		"ionice":  {options: []string{"-c", "-n", "--class", "--classdata"}},
		"nice":    {options: []string{"-n", "--adjustment"}},
		"nohup":   {},
		"setsid":  {},
		"stdbuf":  {options: []string{"-i", "-o", "-e"}},
		"sudo":    {options: []string{"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group", "--chdir"}},
		"time":    {options: []string{"-f", "-o"}},
		"timeout": {options: []string{"-k", "-s", "--kill-after", "--signal"}, operands: 1},
	}
}

type wrapper struct {
	options  []string
	operands int
}

// commandName is the program that a command line runs, as far as its first words tell: of `timeout 60 ./run.sh 3` it is
// run.sh.
func commandName(command string) string {
	name := fileName(programOf(strings.Fields(command)))
	if name == "" {
		return "suite"
	}
	return name[:min(len(name), 60)]
}

// programOf is the first word that is neither an assignment nor of a program that only runs another; where there is no
// other, it is that one.
func programOf(words []string) string {
	known, last := wrappers(), ""
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if strings.Contains(word, "=") || word == "&&" || word == ";" { // after cd
			continue
		}
		w, ok := known[filepath.Base(word)]
		if !ok {
			return word
		}
		last = word
		program := false
		if words, program = w.rest(words); !program {
			break
		}
	}
	return last
}

// rest are the words from the program on that a wrapper runs, and whether there is one: `bash -c` has a text in place
// of it.
func (w wrapper) rest(words []string) (rest []string, program bool) {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.HasPrefix(words[0], "+")) {
		option := words[0]
		words = words[1:]
		switch {
		case option == "--":
			return words[min(len(words), w.operands):], true
		case slices.Contains(w.options, option):
			words = words[min(len(words), 1):]
		case !strings.HasPrefix(option, "--") && strings.HasSuffix(option, "c"): // -c, -ec
			return words, false
		}
	}
	return words[min(len(words), w.operands):], true
}

// fileName is what of the last part of a path may be the name of a directory of results.
func fileName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return -1
	}, filepath.Base(path))
	return strings.Trim(name, ".-")
}
