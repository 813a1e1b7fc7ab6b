package stateserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// schema is that of the documents of the API.
const schema = 1

const (
	mostLock = 64 << 10 // bytes of the document of a lock
	mostID   = 256      // bytes of the ID of a lock
	// mostBodies is how many bytes of states may be in memory at once, for all requests.
	mostBodies = 512 << 20
	usualBody  = 1 << 20 // of which few states are longer
	// workTime is how long the storage may take for a request. A client that goes away does not end what has begun.
	workTime = 45 * time.Second
)

// Server answers the requests of clients. Safe for concurrent use.
type Server struct {
	Options
	storage Storage
	keys    Keys
	log     logger
	auth    *auth
	metrics *metrics
	health  *health
	bodies  *semaphore.Weighted
	busy    busy
	// certificate is the one that clients are shown, DER; nil: plain HTTP.
	certificate []byte
}

// now is the time, for people.
func (s *Server) now() time.Time { return s.Now() }

// ServeHTTP answers a request. A panic ends the request alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	seen := &answer{ResponseWriter: w}
	e := &entry{}
	defer func() {
		if failed := recover(); failed != nil {
			s.contain(seen, failed)
		}
		s.observed(r, seen, e, time.Since(begun))
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := s.route(seen, r, e); err != nil {
		s.fail(seen, r, err)
	}
}

// route finds out what is asked for. Paths are taken as they are: nothing is redirected or decoded.
func (s *Server) route(w http.ResponseWriter, r *http.Request, e *entry) error {
	path := r.URL.EscapedPath()
	switch path {
	case "/healthz":
		return s.serveHealth(w, r)
	case "/metrics":
		return s.serveMetrics(w, r)
	case "/certificate":
		return s.serveCertificate(w, r)
	}
	u, err := s.authenticate(w, r)
	if err != nil {
		return err
	}
	e.user = u.name
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), workTime)
	defer cancel()
	r = r.WithContext(ctx)
	if path == "/state/" {
		return s.serveList(w, r, u)
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if kind != "state" && kind != "history" {
		return refuse(http.StatusNotFound, "there is no %.100q: states are at /state/NAME", path)
	}
	if err := CheckName(name); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	e.state = name
	if !u.may(name) {
		return refuse(http.StatusForbidden, "user %s may not have state %s", u.name, name)
	}
	c := caller{user: u.name, client: clientOf(r), agent: printable(r.UserAgent())}
	if kind == "history" {
		return s.serveHistory(w, r, name, c, e)
	}
	return s.serveState(w, r, name, c, e)
}

// authenticate returns who asks.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (user, error) {
	u, v := s.auth.who(r)
	switch v {
	case accepted:
		return u, nil
	case braked:
		s.metrics.braked.Inc()
		w.Header().Set("Retry-After", "1")
		return u, refuse(http.StatusTooManyRequests, "too many wrong passwords: wait a second")
	}
	s.metrics.rejected.Inc()
	w.Header().Set("WWW-Authenticate", `Basic realm="states", charset="UTF-8"`)
	return u, refuse(http.StatusUnauthorized, "wrong user or password")
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request, name string, c caller, e *entry) error {
	query, err := parameters(r, "ID")
	if err != nil {
		return err
	}
	if c.lockID = query.Get("ID"); !validID(c.lockID) && query.Has("ID") {
		return refuse(http.StatusBadRequest, "?ID is no ID of a lock")
	}
	switch r.Method {
	case http.MethodGet:
		return s.serveGet(w, r, name)
	case http.MethodPost:
		return s.servePost(w, r, name, c, e)
	case http.MethodDelete:
		return s.remove(r.Context(), name, c)
	case "LOCK":
		return s.serveLock(w, r, name, c)
	case "UNLOCK":
		return s.serveUnlock(w, r, name, c)
	}
	return notAllowed(w, r, "GET, POST, DELETE, LOCK, UNLOCK")
}

func notAllowed(w http.ResponseWriter, r *http.Request, allowed string) error {
	w.Header().Set("Allow", allowed)
	return refuse(http.StatusMethodNotAllowed, "method %.20q is not one of %s", r.Method, allowed)
}

func (s *Server) serveGet(w http.ResponseWriter, r *http.Request, name string) error {
	v, data, err := s.read(r.Context(), name)
	if err != nil {
		return err
	}
	if v == nil {
		return refuse(http.StatusNotFound, "there is no state %s", name)
	}
	writeState(w, v, data)
	return nil
}

// writeState answers with the bytes of a version.
func writeState(w http.ResponseWriter, v *version, data []byte) {
	h := w.Header()
	sum, _ := hex.DecodeString(v.MD5) // written by the server
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum))
	h.Set("State-Version", strconv.FormatInt(v.Number, 10))
	_, _ = w.Write(data) // the client that does not read it knows that it has not all
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request, name string, c caller, e *entry) error {
	data, release, err := s.body(w, r, int64(s.MaxSize))
	if err != nil {
		return err
	}
	defer release()
	v, same, err := s.write(r.Context(), name, c, data)
	if err != nil {
		return err
	}
	e.version = v.Number
	if !same {
		s.metrics.written.Add(float64(len(data)))
	}
	w.Header().Set("State-Version", strconv.FormatInt(v.Number, 10))
	return nil
}

func (s *Server) serveLock(w http.ResponseWriter, r *http.Request, name string, c caller) error {
	if c.lockID != "" {
		return refuse(http.StatusBadRequest, "the ID of a lock is in its document")
	}
	data, release, err := s.body(w, r, mostLock)
	if err != nil {
		return err
	}
	defer release()
	if c.lockID, err = lockID(data); err != nil {
		return err
	}
	return s.lock(r.Context(), name, c, data)
}

func (s *Server) serveUnlock(w http.ResponseWriter, r *http.Request, name string, c caller) error {
	data, release, err := s.body(w, r, mostLock)
	if err != nil {
		return err
	}
	defer release()
	if len(data) > 0 {
		id, err := lockID(data)
		if err != nil {
			return err
		}
		if c.lockID != "" && c.lockID != id {
			return refuse(http.StatusBadRequest, "?ID and the body name different locks")
		}
		c.lockID = id
	}
	if c.lockID == "" {
		return refuse(http.StatusBadRequest, "the ID of the lock is missing: in the body, or as ?ID=")
	}
	return s.unlock(r.Context(), name, c)
}

// lockID is the ID in the document of a lock.
func lockID(document []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil || fields == nil {
		return "", refuse(http.StatusBadRequest, "the body is no JSON object, as a lock is")
	}
	var id string
	if err := json.Unmarshal(fields["ID"], &id); err != nil || !validID(id) {
		return "", refuse(http.StatusBadRequest, "the body has no ID, as a lock has")
	}
	return id, nil
}

// validID reports whether text can be the ID of a lock: it is shown to people and written into addresses.
func validID(text string) bool {
	return text != "" && len(text) <= mostID && printable(text) == text
}

// printable is text without what is not printable ASCII, and not longer than fits on a line or two.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, text[:min(len(text), mostID)])
}

// body reads the body of a request, checks its sum where the client says it, and returns what lets others have its memory.
func (s *Server) body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, func(), error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, nil, refuse(http.StatusUnsupportedMediaType, "the body is encoded, and is to be plain")
	}
	size := r.ContentLength
	if size < 0 {
		size = most // it is not known before it has come
	}
	if size > most {
		return nil, nil, refuse(http.StatusRequestEntityTooLarge, "the body is too large: the limit in bytes is %d", most)
	}
	if err := s.bodies.Acquire(r.Context(), size); err != nil {
		return nil, nil, refuse(http.StatusServiceUnavailable, "too many states are sent at once: try again")
	}
	release := func() { s.bodies.Release(size) }
	buffer := bytes.NewBuffer(make([]byte, 0, min(size, usualBody)+bytes.MinRead)) // so that it need not grow
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	data := buffer.Bytes()
	if err == nil {
		err = checkSum(r, data)
	} else if _, large := errors.AsType[*http.MaxBytesError](err); large {
		err = refuse(http.StatusRequestEntityTooLarge, "the body is too large: the limit in bytes is %d", most)
	} else {
		err = refuse(http.StatusBadRequest, "the body did not come whole")
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return data, release, nil
}

func checkSum(r *http.Request, data []byte) error {
	text := r.Header.Get("Content-MD5")
	if text == "" {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !sameSum(data, raw) {
		return refuse(http.StatusBadRequest, "the body is not what Content-MD5 says: it was changed on its way")
	}
	return nil
}

// parameters are those of the address, of which there are no others than these, each once.
func parameters(r *http.Request, allowed ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the address has parameters that cannot be read")
	}
	for key, values := range query {
		if !slices.Contains(allowed, key) || len(values) != 1 {
			return nil, refuse(http.StatusBadRequest, "parameter %.40q of the address is not one of %s, once", key, strings.Join(allowed, ", "))
		}
	}
	return query, nil
}

// fail answers with an error. What is wrong with the storage is for the log, not for clients.
func (s *Server) fail(w *answer, r *http.Request, err error) {
	if w.status != 0 {
		return // too late for another answer
	}
	refused, is := errors.AsType[refusal](err)
	switch {
	case is && refused.holder != nil:
		s.metrics.conflicts.Inc()
		writeJSON(w, refused.status, refused.holder)
		return
	case is:
		writeText(w, refused.status, refused.text)
		return
	}
	s.metrics.failures.Inc()
	s.log.Error("a request failed", "method", printable(r.Method), "error", err)
	if errors.Is(err, errDamaged) {
		writeText(w, http.StatusInternalServerError, "what is stored is damaged: the log of the server says where")
		return
	}
	w.Header().Set("Retry-After", "1")
	writeText(w, http.StatusServiceUnavailable, "the storage failed: the log of the server says why")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // nobody is there to be told
}

// writeJSON answers with a document: one that is JSON already is sent as it is.
func writeJSON(w http.ResponseWriter, status int, document any) {
	data, raw := document.(json.RawMessage)
	if !raw {
		made, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			panic(err) // documents are structs of plain values
		}
		data = append(made, '\n')
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // nobody is there to be told
}
