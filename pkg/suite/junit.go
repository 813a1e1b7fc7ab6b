package suite

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
)

const maxJUnit = 32 << 20 // bytes of one file

// junitCase is what is read of a <testcase>.
type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// readJUnit reads the cases of all JUnit files below dir, in the order of their paths. XML of another kind is not meant;
// what cannot be read is a warning, and its cases up to there count.
func readJUnit(dir string, warn func(string)) []Case {
	var cases []Case
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.EqualFold(filepath.Ext(path), ".xml") {
			return nil
		}
		found, err := readJUnitFile(path)
		cases = append(cases, found...)
		if err != nil {
			name, _ := filepath.Rel(dir, path)
			warn(fmt.Sprintf("the results in %s are not all read: %v", name, err))
		}
		return nil
	})
	if err != nil {
		warn("the suite's files could not be looked through: " + err.Error())
	}
	return cases
}

func readJUnitFile(path string) ([]Case, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	limited := &io.LimitedReader{R: f, N: maxJUnit}
	cases, err := decodeJUnit(limited)
	if limited.N == 0 {
		return cases, fmt.Errorf("it is larger than %d MiB", maxJUnit>>20)
	}
	return cases, err
}

// decodeJUnit takes every <testcase> wherever it is: suites may be nested.
func decodeJUnit(r io.Reader) ([]Case, error) {
	decoder := xml.NewDecoder(r)
	// Names of encodings other than UTF-8 are taken at their word's worth: what is not UTF-8 shows as such.
	decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	var cases []Case
	for root := true; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if root {
				return nil, errors.New("it is empty")
			}
			return cases, nil
		}
		if err != nil {
			return cases, err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if root && start.Name.Local != "testsuites" && start.Name.Local != "testsuite" {
			return nil, nil
		}
		root = false
		if start.Name.Local == "testcase" {
			var c junitCase
			if err := decoder.DecodeElement(&c, &start); err != nil {
				return cases, err
			}
			cases = append(cases, c.toCase())
		}
	}
}

func (j junitCase) toCase() Case {
	c := Case{Name: j.Name, Status: progress.Passed}
	if j.Class != "" {
		c.Name = j.Class + "." + j.Name
	}
	if c.Name == "" {
		c.Name = "unnamed"
	}
	// JUnit's own writers use a comma for thousands.
	if seconds, err := strconv.ParseFloat(strings.ReplaceAll(j.Time, ",", ""), 64); err == nil && seconds >= 0 && seconds < 1e9 {
		c.Seconds = seconds
	}
	switch {
	case j.Error != nil:
		c.Status, c.Error = progress.Failed, j.Error.text()
	case j.Failure != nil:
		c.Status, c.Error = progress.Failed, j.Failure.text()
	case j.Skipped != nil:
		c.Status = progress.Skipped
	}
	return c
}

func (p junitProblem) text() string {
	const limit = 4000
	text := strings.TrimSpace(p.Message)
	if detail := strings.TrimSpace(p.Text); detail != "" && detail != text {
		text = strings.TrimSpace(text + "\n" + detail)
	}
	if r := []rune(text); len(r) > limit {
		text = string(r[:limit]) + "..."
	}
	if text == "" {
		return "failed"
	}
	return text
}
