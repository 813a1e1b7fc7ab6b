package remote

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// DefaultTimeout is the hard deadline of a command or file transfer that names none.
const DefaultTimeout = 10 * time.Minute

// Command is what is to run on a node: either Argv or Script. Neither Script nor Env ever is in an argument list, where
// every user of the node could read it: both travel over standard input.
type Command struct {
	// Name is how messages call the command; default: Argv, shortened, or "script".
	Name string
	// Argv is a program and its arguments, quoted for the node's shell.
	Argv []string
	// Script is run by bash with Args as $1, $2, ... It is read as a whole before any of it runs, so a script whose
	// transfer breaks off does nothing, and what the script starts cannot eat the rest of it. Its standard input is
	// Stdin.
	Script string
	// Args are the arguments of Script.
	Args []string
	// Env is exported to the command. Argv with Env needs bash on the node, as Script does.
	Env map[string]string
	// Stdin is the command's standard input; nil is an empty one. A Read that is under way when the command ends is not
	// waited for.
	Stdin io.Reader
	// Timeout is the hard deadline, connecting included; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Lasts says that the command takes longer than a second: it is guarded from its start, so that it ends on the node
	// even if this process is killed at once. Any other is from its second second on, which spares the node a login
	// shell.
	Lasts bool
	// Keep is how many bytes of each stream the Result holds at most; 0 means [DefaultKeep]. What is beyond that is
	// read, handed to OnLine and dropped.
	Keep int
	// OnLine is called with each line of "stdout" and "stderr" as it comes, without its line end. Calls do not overlap
	// and none is made once Run has returned.
	OnLine func(stream, line string)
}

// Result is what a command did. ExitCode is 128 plus the signal's number, as a shell has it, where Signal ("TERM") is
// set.
type Result struct {
	Node     string
	ExitCode int
	Signal   string
	Stdout   []byte
	Stderr   []byte
	// Truncated says that a stream was longer than what is kept; its end is missing.
	Truncated bool
	Duration  time.Duration
}

// ExitError means that the command ran and ended with a status other than 0 or by a signal. The whole output is in
// Result.
type ExitError struct {
	Node    string
	Command string // in short, for people
	Result  Result
}

func (e *ExitError) Error() string { return e.Node + ": " + e.Unnamed() }

func (e *ExitError) Unnamed() string {
	how := "exited with " + strconv.Itoa(e.Result.ExitCode)
	if e.Result.Signal != "" {
		how = "was ended by signal " + e.Result.Signal
	}
	return e.Command + " " + how + lastWords(e.Result)
}

func (e *ExitError) NodeName() string { return e.Node }

// UnfinishedError means that a command was started and its end was not seen: its deadline has passed or its context was
// cancelled (Cause is context.DeadlineExceeded or context.Canceled, for errors.Is), or the connection was lost (Cause
// is [ErrConnectionLost]). It may still run in that last case. What it wrote until then is in Result.
type UnfinishedError struct {
	Node    string
	Command string
	Result  Result
	Cause   error
}

func (e *UnfinishedError) Error() string { return e.Node + ": " + e.Unnamed() }

func (e *UnfinishedError) Unnamed() string {
	return e.Command + ": " + e.Cause.Error() + lastWords(e.Result)
}

func (e *UnfinishedError) Unwrap() error    { return e.Cause }
func (e *UnfinishedError) NodeName() string { return e.Node }

// ErrConnectionLost means that the connection ended while it was used. Retrying dials again; whether what was under way
// has happened is not known.
var ErrConnectionLost = errors.New("the SSH connection was lost")

// nodeError puts the node's name before an error, and takes it out of where it stands within.
type nodeError struct {
	node string
	err  error
}

func (e *nodeError) Error() string { return e.node + ": " + e.Unnamed() }

func (e *nodeError) Unnamed() string {
	text := e.err.Error()
	if _, named := errors.AsType[named](e.err); named {
		text = strings.Replace(text, e.node+": ", "", 1)
	}
	return text
}

func (e *nodeError) Unwrap() error    { return e.err }
func (e *nodeError) NodeName() string { return e.node }

// named is an error that begins with a node's name; Unnamed is the rest of it.
type named interface {
	error
	NodeName() string
	Unnamed() string
}

// rendered is a Command as the node gets it.
type rendered struct {
	line  string
	stdin io.Reader
}

func (c Command) render() (rendered, error) {
	script := c.Script
	switch {
	case len(c.Argv) > 0 && c.Script != "":
		return rendered{}, errors.New("a command has both Argv and Script: give one")
	case len(c.Argv) > 0 && len(c.Args) > 0:
		return rendered{}, errors.New("a command has both Argv and Args: put all arguments into Argv")
	case len(c.Argv) == 0 && c.Script == "":
		return rendered{}, errors.New("a command has neither Argv nor Script")
	case strings.ContainsRune(strings.Join(c.Argv, "")+strings.Join(c.Args, "")+c.Script, 0):
		return rendered{}, errors.New("a command holds a NUL byte, which no shell can take")
	case len(c.Argv) > 0 && len(c.Env) == 0:
		return rendered{line: Quote(c.Argv...), stdin: orEmpty(c.Stdin)}, nil
	case len(c.Argv) > 0:
		script = "exec " + Quote(c.Argv...)
	}
	exports, err := Exports(c.Env)
	if err != nil {
		return rendered{}, err
	}
	// The braces make bash parse all of it before it runs any of it. head takes exactly these bytes off standard input.
	text := "{\n" + exports + script + "\n}\n"
	reader := `eval "$(head -c ` + strconv.Itoa(len(text)) + `)"`
	// Without --norc a bash that believes to be the first one of an SSH session reads .bashrc, as the login shell has
	// already.
	line := Quote(append([]string{"bash", "--norc", "-c", reader, cmp.Or(c.Name, "script")}, c.Args...)...)
	return rendered{line: line, stdin: io.MultiReader(strings.NewReader(text), orEmpty(c.Stdin))}, nil
}

func orEmpty(r io.Reader) io.Reader {
	if r == nil {
		return bytes.NewReader(nil)
	}
	return r
}

// short is the command for messages.
func (c Command) short() string {
	if c.Name != "" || len(c.Argv) == 0 {
		return cmp.Or(c.Name, "script")
	}
	return progress.Clip(printable(Quote(c.Argv...)), 80)
}

// lastWords are the last lines of standard error, or of standard output where that is empty, for a message.
func lastWords(r Result) string {
	const lines = 3
	var kept []string
	for _, stream := range [][]byte{r.Stderr, r.Stdout} {
		const tail = 8 << 10
		text := string(stream[max(0, len(stream)-tail):])
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(printable(line)); line != "" {
				kept = append(kept, progress.Clip(line, 300))
			}
		}
		if len(kept) > 0 {
			break
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return ": " + strings.Join(kept[max(0, len(kept)-lines):], " | ")
}

// printable drops what a terminal would act upon.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// address is where a node's SSH server listens: host and port, for dialling and for known_hosts alike.
func address(n cluster.Node) (string, error) {
	if !n.Management.IsValid() {
		return "", errors.New("it has no management address yet")
	}
	return net.JoinHostPort(n.Management.String(), strconv.Itoa(cmp.Or(n.SSHPort, 22))), nil
}
