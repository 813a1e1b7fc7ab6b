package host

import (
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// markerCommand is a command that does nothing but write, or make room for, a marker file.
type markerCommand struct {
	argv   []string
	files  bool   // arguments that begin with / are files
	target string // where stdout goes; empty: nowhere
	append bool
}

// markerDirs are the directories below which a simulated host honours what runcmd writes.
var markerDirs = [...]string{"/run/", "/var/lib/", "/tmp/"}

// markerCommands reads an entry of runcmd, a shell line or else a list, as commands that only write markers. reason
// says why it is something else.
func markerCommands(line string, argv []string) (cmds []markerCommand, reason string) {
	if len(argv) > 0 {
		if len(argv) == 3 && (argv[0] == "sh" || argv[0] == "bash" || argv[0] == "/bin/sh" || argv[0] == "/bin/bash") &&
			argv[1] == "-c" {
			return markerCommands(argv[2], nil)
		}
		m, reason := newMarker(argv)
		return []markerCommand{m}, reason
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "runcmd")
	if err != nil {
		return nil, "not a POSIX shell line"
	}
	for _, stmt := range f.Stmts {
		more, reason := markerStmt(stmt)
		if reason != "" {
			return nil, reason
		}
		cmds = append(cmds, more...)
	}
	if len(cmds) == 0 {
		return nil, "no command"
	}
	return cmds, ""
}

func markerStmt(s *syntax.Stmt) ([]markerCommand, string) {
	if s.Background || s.Negated || s.Coprocess {
		return nil, "more than plain commands"
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if cmd.Op != syntax.AndStmt || len(s.Redirs) > 0 {
			return nil, "more than plain commands"
		}
		left, reason := markerStmt(cmd.X)
		if reason != "" {
			return nil, reason
		}
		right, reason := markerStmt(cmd.Y)
		return append(left, right...), reason
	case *syntax.CallExpr:
		return markerCall(cmd, s.Redirs)
	}
	return nil, "more than plain commands"
}

func markerCall(call *syntax.CallExpr, redirs []*syntax.Redirect) ([]markerCommand, string) {
	if len(call.Assigns) > 0 || len(call.Args) == 0 || len(redirs) > 1 {
		return nil, "more than plain commands"
	}
	var argv []string
	for _, w := range call.Args {
		v, ok := literal(w)
		if !ok {
			return nil, "words that only a shell can read"
		}
		argv = append(argv, v)
	}
	m, reason := newMarker(argv)
	if reason != "" {
		return nil, reason
	}
	for _, r := range redirs {
		target, ok := literal(r.Word)
		if !ok || r.N != nil && r.N.Value != "1" || r.Op != syntax.RdrOut && r.Op != syntax.AppOut {
			return nil, "a redirection other than > or >>"
		}
		if !markerPath(target) {
			return nil, "writes outside " + markerPlaces()
		}
		m.target, m.append = target, r.Op == syntax.AppOut
	}
	return []markerCommand{m}, ""
}

// literal is the value of a word without expansions.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, `\*?[~`) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(lit.Value, `\`) {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// newMarker checks one command's arguments.
func newMarker(argv []string) (markerCommand, string) {
	m := markerCommand{argv: argv}
	switch argv[0] {
	case "echo", "printf", "true":
		return m, ""
	case "touch", "mkdir":
		m.files = true
		for _, a := range argv[1:] {
			if a != "-p" && !markerPath(a) {
				return m, "touches more than " + markerPlaces()
			}
		}
		if len(argv) < 2 {
			return m, "no file"
		}
		return m, ""
	}
	return m, fmt.Sprintf("%q changes more than a marker", argv[0])
}

func markerPath(p string) bool {
	if path.Clean(p) != strings.TrimSuffix(p, "/") {
		return false
	}
	for _, dir := range markerDirs {
		if strings.HasPrefix(p, dir) && len(p) > len(dir) {
			return true
		}
	}
	return false
}

func markerPlaces() string { return "/run, /var/lib and /tmp" }
