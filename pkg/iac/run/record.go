package run

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxAnswer is how much of an answer is kept.
const maxAnswer = 16 << 10 // bytes

// masked stands for what is not kept.
const masked = "***"

// Call is a call that the provider has made, and what came of it. It holds no secret and no user data.
type Call struct {
	Time    time.Time         `json:"time"`
	Stack   string            `json:"stack"`
	Step    string            `json:"step"`
	Service string            `json:"service"`
	Action  string            `json:"action"`
	Params  map[string]string `json:"params,omitempty"`
	Status  int               `json:"status"` // of HTTP; 0: the endpoint has not answered
	// Code, Message and Root are of an error's document. Another root than Response is not read by SDK v1.
	Code      string  `json:"code,omitempty"`
	Message   string  `json:"message,omitempty"`
	Root      string  `json:"root,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
	Answer    string  `json:"answer,omitempty"`
	Error     string  `json:"error,omitempty"` // why there is no answer
	Seconds   float64 `json:"seconds"`

	ids []string // of what it has made
}

// failed reports whether the call was not answered, or with an error.
func (c Call) failed() bool { return c.Status == 0 || c.Status >= 400 }

// String says what came of the call.
func (c Call) String() string {
	switch {
	case c.Status == 0:
		return c.Action + " had no answer: " + c.Error
	case c.Code != "":
		text := fmt.Sprintf("%s answered %d %s", c.Action, c.Status, c.Code)
		if c.Message != "" {
			text += ": " + c.Message
		}
		return text
	case c.failed():
		return fmt.Sprintf("%s answered %d and no error that can be read", c.Action, c.Status)
	}
	return fmt.Sprintf("%s answered %d", c.Action, c.Status)
}

// errorDocument is what clients read of an error, whatever its root.
type errorDocument struct {
	XMLName xml.Name
	Code    string `xml:"Errors>Error>Code"`
	Message string `xml:"Errors>Error>Message"`
	// Of services that answer otherwise.
	OtherCode    string `xml:"Error>Code"`
	OtherMessage string `xml:"Error>Message"`
	RequestID    string `xml:"RequestID"`
	OtherID      string `xml:"RequestId"`
}

// read fills in what an answer tells.
func (c *Call) read(status int, body []byte) {
	c.Status = status
	text := string(body[:min(len(body), maxAnswer)])
	c.Answer = secretElements.ReplaceAllString(text, "<$1>"+masked+"</$1>")
	if len(body) > maxAnswer {
		c.Answer = cutElement(c.Answer)
	}
	var document errorDocument
	if xml.Unmarshal(body, &document) != nil {
		return
	}
	if status >= 400 {
		c.Root = document.XMLName.Local
		c.Code, c.Message = document.Code+document.OtherCode, document.Message+document.OtherMessage
	}
	if c.RequestID == "" {
		c.RequestID = document.RequestID + document.OtherID
	}
}

// secretElements are those of answers of which nothing is kept. Go's expressions know no back references: elements of
// these names are not within each other.
var secretElements = regexp.MustCompile(`(?s)<(userData|keyMaterial|passwordData|output|SecretAccessKey|SessionToken)>.*?</(?:userData|keyMaterial|passwordData|output|SecretAccessKey|SessionToken)>`)

// unfinished is a secret element whose end was cut off.
var unfinished = regexp.MustCompile(`(?s)<(userData|keyMaterial|passwordData|output|SecretAccessKey|SessionToken)>[^*].*$`)

func cutElement(text string) string { return unfinished.ReplaceAllString(text, "<$1>"+masked) + "…" }

// paramsOf returns what a call asks for, without secrets and user data.
func paramsOf(form url.Values) map[string]string {
	params := map[string]string{}
	for name, values := range form {
		if name == "Action" || name == "Version" || strings.HasPrefix(name, "X-Amz-") {
			continue
		}
		value := strings.Join(values, ",")
		secret := func(part string) bool {
			return part == "UserData" || strings.HasSuffix(part, "Password") || strings.HasSuffix(part, "Secret") ||
				part == "SessionToken" || part == "PrivateKey"
		}
		if value != "" && slices.ContainsFunc(strings.Split(name, "."), secret) {
			value = masked
		}
		params[name] = value
	}
	return params
}

// record keeps calls in memory and in a file. It is safe for concurrent use.
type record struct {
	mu    sync.Mutex
	file  io.WriteCloser
	err   error // of the first line that could not be written
	calls []Call

	stack, step string
}

// newRecord keeps calls in a file, too, that only its owner can read.
func newRecord(path string) (*record, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the record of calls: %w", err)
	}
	return &record{file: file}, nil
}

// at says which step the calls to come are of.
func (r *record) at(stack, step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stack, r.step = stack, step
}

// place returns what at has said last.
func (r *record) place() (stack, step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stack, r.step
}

func (r *record) add(c Call) {
	line, err := json.Marshal(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// of returns the calls of a stack, and of one step where that is named.
func (r *record) of(stack, step string) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Call
	for _, c := range r.calls {
		if c.Stack == stack && (step == "" || c.Step == step) {
			found = append(found, c)
		}
	}
	return found
}

// close returns the first error of writing.
func (r *record) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
