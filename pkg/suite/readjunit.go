package suite

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"hive-test/pkg/progress"
)

const maxJUnit = 128 << 20 // bytes of one file

// junitCase is what is read of a <testcase>. Status and Result are GoogleTest's, CTest's and behave's.
type junitCase struct {
	Class   string         `xml:"classname,attr"`
	Name    string         `xml:"name,attr"`
	Time    string         `xml:"time,attr"`
	Status  string         `xml:"status,attr"`
	Result  string         `xml:"result,attr"`
	File    string         `xml:"file,attr"`
	Line    string         `xml:"line,attr"`
	Failure []junitProblem `xml:"failure"`
	Error   []junitProblem `xml:"error"`
	// Of a test that was run again: all its runs have failed. One that passed in the end has flakyFailure instead.
	RerunFailure []junitProblem `xml:"rerunFailure"`
	RerunError   []junitProblem `xml:"rerunError"`
	FlakyFailure []junitProblem `xml:"flakyFailure"`
	FlakyError   []junitProblem `xml:"flakyError"`
	Skipped      *junitProblem  `xml:"skipped"`
	Out          []string       `xml:"system-out"`
	Err          []string       `xml:"system-err"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junitResults are what JUnit files tell.
type junitResults struct {
	cases []Case
	// unread has a case that failed for each file that cannot be read to its end: nobody knows what it would have told.
	// Its cases up to there count.
	unread []Case
	// doubts say where a file counts more tests than it holds cases. No case fails for it: Catch2 and doctest count their
	// assertions there.
	doubts []string
	found  bool // there is a file of results
}

// readJUnit reads all JUnit files below dir, in the order of their paths. XML of another kind is not meant.
func readJUnit(dir string) (all junitResults) {
	lost := func(path string, err error) {
		name, _ := filepath.Rel(dir, path)
		all.unread = append(all.unread, Case{
			Name: name, Status: progress.Failed, Error: "the results in " + name + " cannot be read: " + err.Error(), whole: true,
		})
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			lost(path, err)
			return nil
		}
		if !strings.EqualFold(filepath.Ext(path), ".xml") {
			return nil
		}
		info, err := os.Stat(path) // a link to a file is as good as the file
		if err == nil && !info.Mode().IsRegular() {
			return nil
		}
		var told junitResults
		if err == nil {
			told, err = readJUnitFile(path)
		}
		all.found = all.found || told.found
		all.cases = append(all.cases, told.cases...)
		for _, doubt := range told.doubts {
			name, _ := filepath.Rel(dir, path)
			all.doubts = append(all.doubts, name+": "+doubt)
		}
		if err != nil {
			lost(path, err)
		}
		return nil
	})
	return all
}

// readJUnitFile returns what a file tells.
func readJUnitFile(path string) (junitResults, error) {
	f, err := os.Open(path)
	if err != nil {
		return junitResults{}, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxJUnit+1))
	if err != nil {
		return junitResults{}, err
	}
	if len(raw) > maxJUnit {
		return junitResults{}, fmt.Errorf("it is larger than %d MiB", maxJUnit>>20)
	}
	return decodeJUnit(raw)
}

// decodeJUnit takes every <testcase> wherever it is: suites may be nested. What a suite says of itself is a case where
// its cases do not show it. The error says at which line and byte the text is not what XML 1.0 takes.
func decodeJUnit(raw []byte) (junitResults, error) {
	text, err := utf8Text(raw)
	if err != nil {
		return junitResults{}, fmt.Errorf("line 1, byte 1: %w", err)
	}
	r := junitReader{decoder: xml.NewDecoder(bytes.NewReader(text))}
	// it is UTF-8 by now
	r.decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	err = r.read()
	if err == nil {
		return r.junitResults, nil
	}
	at := int(r.decoder.InputOffset())
	if outside, ok := errors.AsType[*outsideError](err); ok {
		at = outside.at
	}
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		err = errors.New(syntax.Msg)
	}
	// which the decoder tells of only at the end of the text around it
	if bad, why := notXML(text); bad >= 0 && bad < at {
		at, err = bad, why
	}
	form := ""
	if len(text) != len(raw) {
		form = " (in UTF-8)"
	}
	return r.junitResults, fmt.Errorf("line %d, byte %d%s: %w", 1+bytes.Count(text[:at], []byte("\n")), at+1, form, err)
}

// declared is the encoding that the first line of a document names.
var declared = regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']`)

// utf8Text is a document as UTF-8, from the encoding that it declares. Another one cannot be told from mistakes.
func utf8Text(raw []byte) ([]byte, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	wide := ""
	switch {
	case bytes.HasPrefix(raw, []byte("\xff\xfe")), bytes.HasPrefix(raw, []byte("<\x00")):
		wide = "utf-16le"
	case bytes.HasPrefix(raw, []byte("\xfe\xff")), bytes.HasPrefix(raw, []byte("\x00<")):
		wide = "utf-16be"
	}
	text := raw
	if wide != "" {
		text = recoded(raw, wide)
	}
	found := declared.FindSubmatch(text)
	if found == nil {
		if wide != "" {
			return nil, errors.New("it is UTF-16, and does not declare that it is")
		}
		return text, nil
	}
	encoding, name := charset.Lookup(string(found[1]))
	named := strings.HasPrefix(name, "utf-16")
	switch {
	case encoding == nil:
		return nil, fmt.Errorf("it declares the encoding %q, which is not known", found[1])
	case wide != "" && !named:
		return nil, fmt.Errorf("it is UTF-16, and declares the encoding %q", found[1])
	case wide != "" || named || name == "utf-8": // what says UTF-16 in plain letters is not: programs write UTF-8 under that name
		return text, nil
	}
	return recoded(raw, name), nil
}

// recoded is text of an encoding that charset knows as UTF-8.
func recoded(raw []byte, label string) []byte {
	encoding, _ := charset.Lookup(label)
	text, err := encoding.NewDecoder().Bytes(raw)
	if err != nil {
		return raw
	}
	return bytes.TrimPrefix(text, []byte("\ufeff"))
}

// notXML is where a text has the first byte that XML 1.0 does not take, and which; -1 for none.
func notXML(text []byte) (at int, why error) {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return at, fmt.Errorf("the byte %#02x is not UTF-8, and no other encoding is declared", text[at])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0xfffe, r == 0xffff:
			return at, fmt.Errorf("the character %U is not allowed in XML", r)
		}
		at += size
	}
	return -1, nil
}

// junitReader collects the cases of one document.
type junitReader struct {
	junitResults
	decoder *xml.Decoder
	open    []junitSuite
}

// junitSuite is a <testsuites> or <testsuite> that has begun.
type junitSuite struct {
	name, says string // says: how many failures it counts; empty for none
	tests      int    // how many it counts
	first      int    // the place of its first case
	doubts     int    // how many there were before it
}

// outsideError is what stands before or after the root element, and at which byte.
type outsideError struct {
	at   int
	what string
}

func (e *outsideError) Error() string { return "there is " + e.what + " outside of the results" }

func (r *junitReader) read() error {
	depth := 0 // of the element that is being read
	for root := true; ; {
		at := int(r.decoder.InputOffset())
		token, err := r.decoder.Token()
		if errors.Is(err, io.EOF) {
			if root {
				return errors.New("there is no element in it")
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch {
			case root && !isSuite(token.Name.Local):
				return nil
			case depth == 0 && !isSuite(token.Name.Local): // more results are taken
				return &outsideError{at, "an element <" + token.Name.Local + ">"}
			}
			root, r.found = false, true
			whole, err := r.begin(token)
			if err != nil {
				return err
			}
			if !whole {
				depth++
			}
		case xml.CharData:
			if text := bytes.TrimSpace(token); depth == 0 && len(text) > 0 {
				return &outsideError{at + bytes.Index(token, text), "text"}
			}
		case xml.EndElement:
			depth--
			if isSuite(token.Name.Local) {
				r.endSuite()
			}
		}
	}
}

func isSuite(element string) bool { return element == "testsuites" || element == "testsuite" }

// begin takes what begins with start, and reports whether it has read all of it.
func (r *junitReader) begin(start xml.StartElement) (whole bool, err error) {
	switch name := start.Name.Local; {
	case isSuite(name):
		s := suiteOf(start)
		s.first, s.doubts = len(r.cases), len(r.doubts)
		r.open = append(r.open, s)
	case name == "testcase":
		var c junitCase
		if err := r.decoder.DecodeElement(&c, &start); err != nil {
			return false, err
		}
		r.cases = append(r.cases, c.toCase())
		return true, nil
	case name == "failure" || name == "error": // of a suite: cases have taken theirs
		var p junitProblem
		if err := r.decoder.DecodeElement(&p, &start); err != nil {
			return false, err
		}
		r.failed(p.text())
		return true, nil
	}
	return false, nil
}

// failed adds a case for a failure of the innermost suite itself.
func (r *junitReader) failed(text string) {
	name := "suite"
	if n := len(r.open); n > 0 && r.open[n-1].name != "" {
		name += " " + r.open[n-1].name
	}
	r.cases = append(r.cases, Case{Name: name, Status: progress.Failed, Error: text, whole: true})
}

func (r *junitReader) endSuite() {
	if len(r.open) == 0 {
		return
	}
	s := r.open[len(r.open)-1]
	if held := len(r.cases) - s.first; s.tests > held && s.doubts == len(r.doubts) {
		r.doubts = append(r.doubts, fmt.Sprintf("suite %q says tests=\"%d\", and it holds %s", s.name, s.tests, progress.Count(held, "case")))
	}
	if s.says != "" && !slices.ContainsFunc(r.cases[s.first:], Case.Failed) {
		r.failed("it says " + s.says + ", and none of its cases shows it")
	}
	r.open = r.open[:len(r.open)-1]
}

func suiteOf(start xml.StartElement) (s junitSuite) {
	for _, a := range start.Attr {
		switch a.Name.Local {
		case "name":
			s.name = a.Value
		case "tests":
			s.tests, _ = strconv.Atoi(strings.TrimSpace(a.Value))
		case "failures", "errors":
			if n, err := strconv.Atoi(strings.TrimSpace(a.Value)); err == nil && n > 0 {
				s.says = a.Name.Local + "=" + strconv.Quote(a.Value)
			}
		case "status", "result":
			if failing(a.Value) {
				s.says = a.Name.Local + "=" + strconv.Quote(a.Value)
			}
		}
	}
	return s
}

// failing tells whether a status or result is one of a case that has not passed, and skipping, of one that was not run.
func failing(word string) bool {
	return slices.Contains(
		[]string{
			"failed", "fail", "failure", "error", "errored", "broken", "crashed", "timeout", "timedout", "aborted",
			"undefined",
		},
		strings.ToLower(strings.TrimSpace(word)),
	)
}

func skipping(word string) bool {
	return slices.Contains(
		[]string{"notrun", "skipped", "skip", "suppressed", "disabled", "ignored", "pending", "untested"},
		strings.ToLower(strings.TrimSpace(word)),
	)
}

func (j junitCase) toCase() Case {
	c := Case{Name: cmp.Or(j.Name, "unnamed"), Status: progress.Passed}
	if j.Class != "" {
		c.Name = j.Class + "." + j.Name
	}
	// JUnit's own writers use a comma for thousands.
	if seconds, err := strconv.ParseFloat(strings.ReplaceAll(j.Time, ",", ""), 64); err == nil && seconds >= 0 &&
		seconds < 1e9 {
		c.Seconds = seconds
	}
	problems := slices.Concat(j.Error, j.Failure, j.RerunError, j.RerunFailure)
	switch {
	case len(problems) > 0:
		c.Status, c.Error = progress.Failed, problems[0].text()
	case failing(j.Status), failing(j.Result):
		c.Status, c.Error = progress.Failed, "its status is "+strings.TrimSpace(j.Status+" "+j.Result)
	case j.Skipped != nil, skipping(j.Status), skipping(j.Result):
		c.Status = progress.Skipped
		if j.Skipped != nil {
			c.Reason = progress.Clip(strings.TrimSpace(cmp.Or(j.Skipped.Message, j.Skipped.Text)), wordsLimit)
		}
	case len(j.FlakyFailure)+len(j.FlakyError) > 0:
		c.Status, c.Error = progress.Flaky, slices.Concat(j.FlakyFailure, j.FlakyError)[0].text()
		c.Reason = "it has failed, and passed when the suite ran it again"
	}
	if c.Failed() {
		c.File = j.File
		c.Line, _ = strconv.Atoi(strings.TrimSpace(j.Line))
		c.Output = strings.Join(slices.Concat(j.Out, j.Err), "\n")
	}
	return c
}

func (p junitProblem) text() string {
	const limit = 4000
	text := strings.TrimSpace(p.Message)
	if detail := strings.TrimSpace(p.Text); detail != "" && detail != text {
		text = strings.TrimSpace(text + "\n" + detail)
	}
	return cmp.Or(progress.Clip(text, limit), "failed")
}
