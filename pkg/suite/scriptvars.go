package suite

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxScript is how large a file may be to be read for the variables that it uses.
const maxScript = 1 << 20 // bytes

// script is the file that a command line runs, by its first words, and what that file says. There is none where it
// cannot be read, is large, or is no text.
type script struct {
	name   string
	text   []byte
	python bool     // else it is of a shell
	given  []string // the variables that the command line itself sets for it
}

// scriptOf returns the script that a command line runs in dir.
func scriptOf(command, dir string) (script, bool) {
	words := strings.Fields(command)
	program := programOf(words)
	at := slices.Index(words, program)
	before, words := words[:max(0, at)], words[at+1:]
	if len(before) > 1 && before[0] == "cd" {
		dir = inDir(dir, before[1])
	}
	var given []string
	for _, word := range before {
		if name, _, found := strings.Cut(word, "="); found {
			given = append(given, name)
		}
	}
	python := pythonName.MatchString(filepath.Base(program))
	if python {
		i := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
		if i < 0 || slices.Contains(words[:i], "-m") || slices.Contains(words[:i], "-c") {
			return script{}, false
		}
		program = words[i]
	}
	program = strings.TrimRight(program, ";&|")
	text, ok := smallText(inDir(dir, program))
	if !ok {
		return script{}, false
	}
	interpreter := ""
	if first, _, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(first, []byte("#!")) {
		interpreter = string(first)
	}
	python = python || strings.Contains(interpreter, "python")
	ofShell := interpreter == "" || shellName.MatchString(interpreter)
	return script{name: filepath.Base(program), text: text, python: python, given: given}, python || ofShell
}

var (
	pythonName = regexp.MustCompile(`^python[0-9.]*$`)
	shellName  = regexp.MustCompile(`\b(ba|da|k|z)?sh\b`)
)

// inDir returns what a path means in a directory.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// smallText returns what a file says that is a text and not large.
func smallText(path string) ([]byte, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
		return nil, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxScript+1))
	return text, err == nil && len(text) <= maxScript && bytes.IndexByte(text, 0) < 0
}

var pythonVariable = regexp.MustCompile(`\b(?:environ(?:\.get\(|\[)|getenv\()\s*["']([A-Za-z_][A-Za-z0-9_]*)["']`)

// variables returns the names of variables that the script uses, but for those that it gives a value before. Of a shell
// script that cannot be parsed it returns none.
func (s script) variables() (names []string) {
	if s.python {
		for _, match := range pythonVariable.FindAllSubmatch(s.text, -1) {
			names = append(names, string(match[1]))
		}
		return names
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(s.text), s.name)
	if err != nil {
		return nil
	}
	var u shellUses
	syntax.Walk(file, u.visit)
	return append(u.names, slices.DeleteFunc(u.inFunctions, func(name string) bool { return u.assigned[name] })...)
}

// shellUses are the variables that a shell script uses without having given them a value before. What functions use
// counts when they are called, which is after all assignments, as far as this knows.
type shellUses struct {
	names, inFunctions []string
	assigned           map[string]bool
	open               []syntax.Node // the node that is visited, and those around it
}

// visit takes the nodes of a script in their order, and nil at the end of each.
func (u *shellUses) visit(node syntax.Node) bool {
	if node == nil {
		last := len(u.open) - 1
		ended := u.open[last]
		u.open = u.open[:last]
		u.assign(assignedBy(ended, u.open)...)
		return true
	}
	u.open = append(u.open, node)
	use, ok := node.(*syntax.ParamExp)
	if !ok || use.Param == nil || !syntax.ValidName(use.Param.Value) {
		return true
	}
	name := use.Param.Value
	switch inFunction := slices.ContainsFunc(u.open, isFunction); {
	case u.assigned[name]:
	case inFunction:
		u.inFunctions = append(u.inFunctions, name)
	default:
		u.names = append(u.names, name)
	}
	return true
}

func (u *shellUses) assign(names ...string) {
	if u.assigned == nil {
		u.assigned = map[string]bool{}
	}
	for _, name := range names {
		u.assigned[name] = true
	}
}

func isFunction(node syntax.Node) bool {
	_, ok := node.(*syntax.FuncDecl)
	return ok
}

// assignedBy returns the variables that have another value when a node in those around it is done.
func assignedBy(node syntax.Node, around []syntax.Node) []string {
	switch n := node.(type) {
	case *syntax.Assign:
		if call, ok := around[len(around)-1].(*syntax.CallExpr); ok && len(call.Args) > 0 { // A=1 command
			return nil
		}
		if n.Name != nil && !n.Naked {
			return []string{n.Name.Value}
		}
	case *syntax.WordIter: // for A in
		return []string{n.Name.Value}
	case *syntax.CallExpr:
		return assignedByCall(n.Args)
	}
	return nil
}

// assignedByCall returns the variables that builtins of bash give a value, or none any more.
func assignedByCall(args []*syntax.Word) (names []string) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg.Lit()
	}
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "read", "mapfile", "readarray", "getopts", "unset":
		return words[1:]
	case "printf":
		if len(words) > 2 && words[1] == "-v" {
			return words[2:3]
		}
	}
	return nil
}
