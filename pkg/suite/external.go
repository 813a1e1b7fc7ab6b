package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// external runs a command line and returns the cases that it has left. The error is for what is not the suite's own
// failure.
func (r *runner) external(ctx context.Context, a attempt, record *recorder) (ended, error) {
	artifacts, err := r.artifacts(a)
	if err != nil {
		return ended{exit: exit{code: -1}}, err
	}
	file, err := os.OpenFile(filepath.Join(artifacts, "output.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return ended{exit: exit{code: -1}}, fmt.Errorf("making its log: %w", err)
	}
	start := time.Now()
	log := &outputLog{suite: a.Name, file: file, next: record.sink}
	var tests outputTests
	how, runErr := r.command(ctx, a, artifacts, record, func(text string) {
		text = r.known.Mask(text)
		tests.take(text)
		log.take(text)
	})
	if err := log.close(); err != nil {
		record.warn("its output could not be kept as a whole: " + err.Error())
	}
	if err := r.known.MaskFiles(artifacts); err != nil {
		record.warn("what it left may hold secrets: " + err.Error())
	}
	if runErr != nil && ctx.Err() == nil {
		return ended{exit: exit{code: -1}, cases: []Case{{
			Name: a.Name, Status: progress.Failed, Seconds: time.Since(start).Seconds(), Error: runErr.Error(), whole: true,
		}}}, nil
	}
	form, cases, unread := r.results(ctx, a.Spec, artifacts, &tests, record.warn)
	cases = judge(ctx, a.Name, cases, how, log, time.Since(start), form != ByCommand)
	for _, c := range unread {
		if ctx.Err() != nil { // it was cut off half-way
			c.Status = endStatus(ctx)
		}
		cases = append(cases, c)
	}
	return ended{exit: how, cases: cases, form: form}, nil
}

// results returns what the cases of a suite are read of, and they. Where that was named and is not there, a case says so.
func (r *runner) results(
	ctx context.Context, s Spec, artifacts string, tests *outputTests, warn func(string),
) (form string, cases, unread []Case) {
	form = s.Results
	found := false
	if form == "" || form == ByJUnit {
		files := readJUnit(artifacts)
		cases, unread, found = files.cases, files.unread, files.found
		for _, doubt := range files.doubts {
			warn(doubt)
		}
	}
	switch {
	case form == "" && (found || len(unread) > 0):
		form = ByJUnit
	case form == "":
		form = tests.form()
	}
	if form != ByJUnit {
		cases = tests.finish(ctx, form, s.Name)
	}
	if s.Results == "" && form == ByGoTest && tests.tap.found() { // of two programs: both count
		cases = append(cases, tests.tap.finish(ctx, s.Name)...)
	}
	chosen := r.Run != "" || r.Skip != ""
	if !chosen && s.Results != "" && form != ByCommand && len(cases)+len(unread) == 0 && ctx.Err() == nil {
		cases = []Case{{
			Name: s.Name, Status: progress.Failed, whole: true,
			Error: "its results are to be read of " + formWords(form) + ", and there are none",
		}}
	}
	return form, cases, unread
}

// command runs a command line here or on a node. The error means that it could not be started, or that its end was not
// seen.
func (r *runner) command(
	ctx context.Context, a attempt, artifacts string, record *recorder, onText func(string),
) (exit, error) {
	of := r.owning(a.Spec)
	if a.On != "" {
		node, err := r.On(ctx, a.On)
		if err != nil {
			return exit{}, err
		}
		return of.onNode(ctx, a.Spec, node, artifacts, onText, record.warn)
	}
	return of.here(ctx, a.Command, artifacts, record, onText)
}

// here runs a command line on this machine.
func (r *runner) here(
	ctx context.Context, command, artifacts string, record *recorder, onText func(string),
) (exit, error) {
	env, err := r.environment(artifacts)
	if err != nil {
		return exit{}, err
	}
	r.warnOfHeldBack(command, env, record.warn)
	argv, err := shell(env, command)
	if err != nil {
		record.warn(err.Error())
	}
	return runProcess(ctx, child{
		argv: argv, line: command, dir: r.Dir, env: env, grace: min(r.Grace, phase.Grace(ctx)/2), onText: onText,
		onEnd: func(group int, pipe string) { r.leftovers(ctx, artifacts, group, pipe, record) },
	})
}

// shell is what runs a command line: bash, in which a pipe fails as soon as one of its commands does, or, with an error
// that says so, sh. Suites are written for bash.
func shell(env []string, command string) (argv []string, missing error) {
	path, _ := lookUp(env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		bash := filepath.Join(dir, "bash")
		if !filepath.IsAbs(bash) {
			continue
		}
		if info, err := os.Stat(bash); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return []string{bash, "-o", "pipefail", "-c", command}, nil
		}
	}
	return []string{"sh", "-c", command}, errors.New(
		"there is no bash on PATH: the suite runs under sh, where a pipe passes if only its last command does")
}

// artifacts makes the attempt's directory: the first one's anew, for what an earlier run has left is not this run's, and
// those of further ones below it, where the suite itself has made nothing.
func (r *runner) artifacts(a attempt) (string, error) {
	dir, err := filepath.Abs(filepath.Join(r.ArtifactsDir, a.Name))
	if err != nil {
		return "", err
	}
	if a.number > 1 {
		return freeDir(filepath.Join(dir, fmt.Sprintf("attempt-%d", a.number)))
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("emptying its directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making its directory: %w", err)
	}
	return dir, nil
}

// freeDir makes a directory of that name, with a letter more at its end for as long as there is something of that name.
func freeDir(name string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	for {
		err := os.Mkdir(name, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		name += "_"
	}
}

// lineByLine is how much of what a suite prints is told line by line: what follows is told many lines at a time, for a
// suite that prints without end would else wait for each of its lines to be told.
const lineByLine = 1 << 20 // bytes

// outputLog writes text, masked, to a file as it is, and to next as lines that are fit for a terminal.
type outputLog struct {
	suite string
	file  *os.File
	next  progress.Sink
	told  int      // bytes
	last  []string // lines that show something
	end   string   // of the text, as much as is kept of a case's output
	first error    // the first that befell a write: a full disk must not end the tests
}

// take takes whole lines.
func (l *outputLog) take(text string) {
	_, err := l.file.WriteString(text)
	l.first = cmp.Or(l.first, err)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(progress.Clean(lastFrame(line)), "\n")
	}
	l.last = lastOf(l.last, lines)
	l.end = lastOfText(l.end+lastOfText(text, caseOutput), caseOutput)
	if l.told += len(text); l.told > lineByLine {
		lines = []string{strings.Join(lines, "\n")}
	}
	for _, line := range lines {
		l.next.Emit(progress.Event{Kind: progress.Output, Suite: l.suite, Message: line})
	}
}

// wordsLimit bounds what an error says of a suite's output, in characters.
const wordsLimit = 300

// lastWords joins lines for an error. Of too many words the last ones are kept, for they tell why most often.
func lastWords(lines []string) string {
	words := ""
	for _, line := range slices.Backward(lines) {
		switch {
		case words == "":
			words = line
		case utf8.RuneCountInString(line+" | "+words) > wordsLimit:
			return "… | " + words
		default:
			words = line + " | " + words
		}
	}
	return words
}

// lastOf are the last lines of before and then lines that show something.
func lastOf(before, lines []string) []string {
	var last []string
	for _, line := range slices.Backward(lines) {
		if len(last) == lastLines {
			break
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		last = append(last, progress.Clip(line, wordsLimit))
	}
	slices.Reverse(last)
	last = append(slices.Clone(before), last...)
	return last[max(0, len(last)-lastLines):]
}

func (l *outputLog) close() error {
	err := l.file.Close()
	return cmp.Or(l.first, err)
}

// lastFrame is what a terminal would show of a line that was overwritten by carriage returns.
func lastFrame(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// oddCode is the least exit code that no failing case explains: shells have them for what cannot be run, and for signals.
const oddCode = 126

// judge returns the cases that a suite has told, and one for the command itself where they do not tell of its failure,
// or where there are none. expected says that cases were to be told.
func judge(
	ctx context.Context, name string, cases []Case, ended exit, log *outputLog, took time.Duration, expected bool,
) []Case {
	own := Case{Name: name, Status: progress.Passed, Seconds: took.Seconds(), Output: log.end, whole: ended.signal != "" || ended.code >= oddCode && len(cases) > 0 || ctx.Err() != nil}
	if err := ended.err(); err != nil {
		own.Status, own.Error = progress.Failed, err.Error()
		if words := lastWords(log.last); words != "" {
			own.Error += ": " + words
		}
	}
	if ctx.Err() != nil {
		own.Status, own.Error = endStatus(ctx), context.Cause(ctx).Error()
	}
	untold := own.Failed() && (ended.signal != "" || ended.code >= oddCode || !slices.ContainsFunc(cases, Case.Failed))
	if len(cases) == 0 && !expected || untold || ctx.Err() != nil {
		cases = append(cases, own)
	}
	return cases
}
