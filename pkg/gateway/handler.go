// Package gateway serves an EC2 and STS endpoint: requests are verified, read, answered by pkg/gateway/ec2 and written as
// AWS writes them.
package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/wait"
)

// bodyLimit is more than any request has: user data is 16 KiB at most.
const bodyLimit = 1 << 20

// Actions does what requests ask for; *ec2.Service does.
type Actions interface {
	Do(ctx context.Context, action string, in wire.Object) (wire.Object, error)
}

// Options are what a handler is made with.
type Options struct {
	EC2     Actions
	Account string                                          // 12 digits
	Secret  func(accessKey string) (secret string, ok bool) // of an access key
	Now     func() time.Time
	// Log is told of every request that was answered, also at once by several goroutines.
	Log func(Entry)
	// Faults make answers go wrong.
	Faults *Faults
	// Cluster is behind the gateway; nil: none is. What it answers alone, Alone tells: those requests are passed on to it,
	// and its answers come as they are, but for errors.
	Cluster Passer
	Alone   func(action string) bool
}

// Passer passes requests on; *upstream.Client does.
type Passer interface {
	Pass(ctx context.Context, service string, form url.Values) (*http.Response, error)
}

// Entry is a request that was answered. It holds no secret.
type Entry struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"request_id"`
	AccessKey string    `json:"access_key,omitempty"`
	Service   string    `json:"service,omitempty"`
	Action    string    `json:"action"`
	Status    int       `json:"status"`
	Code      string    `json:"code,omitempty"` // of an error
	Message   string    `json:"message,omitempty"`
	Seconds   float64   `json:"seconds"`
}

// Handler returns what serves the endpoint. It is safe for concurrent use.
func Handler(o Options) http.Handler { return &handler{o} }

type handler struct{ Options }

// call is a request that is being answered.
type call struct {
	id, action string
	signed     awsauth.Signed
	form       url.Values
	fault      *Fault         // that spoils its answer; else nil
	passed     *http.Response // of the cluster, that is to be copied; else nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := h.Now()
	c := &call{id: newRequestID()}
	body, err := h.answer(r, c)
	if c.passed != nil {
		h.copyAnswer(w, c, begun)
		return
	}
	failure := asError(err)
	status := http.StatusOK
	if failure != nil {
		status, body = failure.Status, c.errorDocument(failure)
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", c.id)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets none
	h.log(c, begun, failure)
}

func (h *handler) log(c *call, begun time.Time, failure *wire.Error) {
	if h.Log == nil {
		return
	}
	e := Entry{
		Time: begun, RequestID: c.id, AccessKey: c.signed.AccessKey, Service: c.signed.Service, Action: c.action,
		Status: http.StatusOK, Seconds: h.Now().Sub(begun).Seconds(),
	}
	if failure != nil {
		e.Status, e.Code, e.Message = failure.Status, failure.Code, failure.Message
	}
	h.Log(e)
}

// answer returns the document that answers a request.
func (h *handler) answer(r *http.Request, c *call) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(body) > bodyLimit {
		return nil, &wire.Error{
			Code: "RequestEntityTooLarge", Message: "The request is too large.", Status: http.StatusRequestEntityTooLarge,
		}
	}
	if c.form, err = formOf(r, body); err != nil {
		return nil, err
	}
	c.action = c.form.Get("Action")
	c.signed, err = awsauth.Verify(r, body, h.Secret, h.Now())
	if err != nil {
		return nil, c.unverified(err)
	}
	switch c.signed.Service {
	case "ec2":
		return h.ec2(r.Context(), c)
	case "sts":
		return h.sts(r.Context(), c)
	}
	if h.Cluster != nil {
		return nil, h.pass(r.Context(), c)
	}
	return nil, &wire.Error{
		Code: "SignatureDoesNotMatch", Status: http.StatusForbidden,
		Message: fmt.Sprintf("Credential should be scoped to correct service: 'ec2' or 'sts', not '%s'.", c.signed.Service),
	}
}

// formOf reads the parameters of a request, which are in the body of a POST and the query of a GET.
func formOf(r *http.Request, body []byte) (url.Values, error) {
	text := r.URL.RawQuery
	switch r.Method {
	case http.MethodPost:
		text = string(body)
	case http.MethodGet:
	default:
		return nil, &wire.Error{
			Code: "MethodNotAllowed", Status: http.StatusMethodNotAllowed,
			Message: "The request has method " + r.Method + ": POST and GET are taken.",
		}
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, wire.Errorf("MalformedQueryString", "The query string contains a syntax error: %v", err)
	}
	return form, nil
}

func (h *handler) ec2(ctx context.Context, c *call) ([]byte, error) {
	switch {
	case c.action == "":
		return nil, wire.Errorf("MissingAction", "The request must contain the parameter Action")
	case h.Cluster == nil && !wire.Knows(c.action):
		return nil, wire.Errorf(wire.InvalidAction, "The action %s is not valid for this web service.", c.action)
	}
	if out, spoilt, err := h.spoil(ctx, c); spoilt || err != nil {
		return out, err
	}
	if h.Cluster != nil && (!wire.Knows(c.action) || h.Alone(c.action)) {
		return nil, h.pass(ctx, c)
	}
	in, err := wire.DecodeQuery(c.action, c.form)
	if err != nil {
		return nil, err
	}
	out, err := h.EC2.Do(ctx, c.action, in)
	if err != nil {
		return nil, err
	}
	return wire.EncodeXML(c.action, c.id, out)
}

// spoil does what a fault does before a request is answered, and answers in place of that where it says so.
func (h *handler) spoil(ctx context.Context, c *call) (body []byte, spoilt bool, err error) {
	c.fault = h.Faults.at(c.action)
	if c.fault == nil {
		return nil, false, nil
	}
	if err := wait.Sleep(ctx, c.fault.delay); err != nil {
		return nil, true, err
	}
	if failure := c.fault.failure(); failure != nil {
		return nil, true, failure
	}
	if !c.fault.Empty {
		return nil, false, nil
	}
	body, err = wire.EncodeXML(c.action, c.id, nil)
	return body, true, err
}

// asError is an error as AWS answers it. What is not the client's mistake is an internal one.
func asError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*wire.Error](err); ok {
		return failure
	}
	return &wire.Error{
		Code: "InternalError", Status: http.StatusInternalServerError,
		Message: "An internal error has occurred: " + err.Error(),
	}
}

// errorDocument is an error in the form of the service that was asked.
func (c *call) errorDocument(e *wire.Error) []byte {
	if c.signed.Service == "sts" || c.fault != nil && c.fault.Root != "" {
		return stsError(e, c.id)
	}
	return e.Document(c.id)
}

// newRequestID returns an id in the form of a UUID.
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
