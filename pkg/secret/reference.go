// Package secret reads values that settings name and do not hold: of variables, files, commands, and files that are
// encrypted by SOPS or age. Nothing that it returns as an error, or shows of a reference, holds a value.
package secret

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/secret/sops"
)

// Kind is where a value is.
type Kind string

// The kinds of references.
const (
	Env     Kind = "env"     // a variable of the environment
	File    Kind = "file"    // a file, without the line ends at its end
	Command Kind = "command" // what a program prints, likewise
	SOPS    Kind = "sops"    // one value of a file that SOPS encrypts
	Age     Kind = "age"     // a file that is encrypted for an age key
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{Env, File, Command, SOPS, Age} }

// Reference says where a value is. The zero value says nothing.
type Reference struct {
	Kind Kind
	Name string   // of a variable
	Path string   // of a file
	Keys string   // within that file, with dots between; empty: all of it
	Argv []string // of a command
	Dir  string   // where a command runs; empty: the current directory
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Parse reads KIND:WHERE. Found is false for a text that does not begin with a kind; a command is never one text.
func Parse(text string) (r Reference, found bool, err error) {
	kind, where, _ := strings.Cut(text, ":")
	if !slices.Contains(Kinds(), Kind(kind)) || !strings.Contains(text, ":") {
		return r, false, nil
	}
	if Kind(kind) == Command {
		return r, true, errors.New("a command is a list of its program and arguments: {command: [program, argument]}")
	}
	r, err = New(Kind(kind), where)
	return r, true, err
}

// New is a reference of any kind but Command.
func New(kind Kind, where string) (Reference, error) {
	r := Reference{Kind: kind}
	switch kind {
	case Env:
		r.Name = where
		if !variable.MatchString(where) {
			return r, fmt.Errorf("env: takes the name of a variable, not %q", where)
		}
	case File, Age:
		r.Path = where
	case SOPS:
		r.Path, r.Keys, _ = strings.Cut(where, "#")
		if strings.Contains(where, "#") && r.Keys == "" {
			return r, errors.New("sops: names no value after the #: sops:FILE#path.to.key")
		}
		if r.Keys == "" && sops.FormatOf(r.Path) != sops.Binary {
			return r, fmt.Errorf("sops: %s has many values: name one, as sops:FILE#path.to.key", where)
		}
	default:
		return r, fmt.Errorf("%q is none of %v", kind, Kinds())
	}
	if kind != Env && r.Path == "" {
		return r, fmt.Errorf("%s: takes a file", kind)
	}
	return r, nil
}

// NewCommand is a reference to what a program prints.
func NewCommand(argv []string) (Reference, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Reference{}, errors.New("command: names no program")
	}
	return Reference{Kind: Command, Argv: argv}, nil
}

// In is the reference as a file in dir writes it: relative paths are relative to dir, and ~/ is home.
func (r Reference) In(dir, home string) Reference {
	expand := func(path string) string {
		if rest, found := strings.CutPrefix(path, "~/"); found && home != "" {
			return filepath.Join(home, rest)
		}
		if path == "" || dir == "" || filepath.IsAbs(path) { // ./program stays one that is not looked for on PATH
			return path
		}
		return filepath.Join(dir, path)
	}
	r.Path = expand(r.Path)
	if r.Kind == Command {
		r.Dir, r.Argv = cmp.Or(r.Dir, dir), slices.Clone(r.Argv)
		if strings.Contains(r.Argv[0], "/") {
			r.Argv[0] = expand(r.Argv[0])
		}
	}
	return r
}

// String says where the value is. Of a command it names the program alone: its arguments may be nobody's business.
func (r Reference) String() string {
	switch r.Kind {
	case Env:
		return "env:" + r.Name
	case Command:
		if len(r.Argv) == 1 {
			return "command: " + r.Argv[0]
		}
		return "command: " + r.Argv[0] + " …"
	case SOPS:
		if r.Keys != "" {
			return "sops:" + r.Path + "#" + r.Keys
		}
	}
	return string(r.Kind) + ":" + r.Path
}

// same is equal for references to the same value.
func (r Reference) same() string {
	return strings.Join(append([]string{string(r.Kind), r.Name, r.Path, r.Keys, r.Dir}, r.Argv...), "\x00")
}
