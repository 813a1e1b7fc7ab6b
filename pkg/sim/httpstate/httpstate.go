// Package httpstate stands in for a server of the backend http of OpenTofu and Terraform, one that is not ours: small, and strict. What
// the protocol does not allow is refused and remembered.
package httpstate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Server keeps states and locks in memory, by path. It is safe for concurrent use.
type Server struct {
	user, password string

	mu         sync.Mutex
	states     map[string]string
	locks      map[string]string // the lock's document
	broken     string            // path of a state that cannot be written
	violations []string
}

// New returns a server that lets that user in.
func New(user, password string) *Server {
	return &Server{user: user, password: password, states: map[string]string{}, locks: map[string]string{}}
}

// SetBroken makes every write of the state at a path fail, until it is called with another; empty: none fails.
func (s *Server) SetBroken(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = path
}

// UnlockAll takes all locks away.
func (s *Server) UnlockAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.locks)
}

// Lock locks a state as a client does that dies then.
func (s *Server) Lock(path, document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[path] = document
}

// Locked returns the paths of states that are locked, sorted.
func (s *Server) Locked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.locks))
}

// States returns all states by path.
func (s *Server) States() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.states)
}

// Violations returns what clients have done that the protocol does not allow.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != s.user || password != s.password {
		w.Header().Set("WWW-Authenticate", `Basic realm="states"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status, answer := s.serve(r, string(body))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func (s *Server) serve(r *http.Request, body string) (status int, answer string) {
	path := r.URL.Path
	held := idOf(s.locks[path])
	switch r.Method {
	case http.MethodGet:
		if s.states[path] == "" {
			return http.StatusNotFound, ""
		}
		return http.StatusOK, s.states[path]
	case http.MethodPost:
		if held == "" || r.URL.Query().Get("ID") != held {
			return s.violated("%s is written without its lock", path)
		}
		if s.broken == path {
			return http.StatusInternalServerError, ""
		}
		s.states[path] = body
	case "LOCK":
		if held != "" {
			return http.StatusLocked, s.locks[path]
		}
		if idOf(body) == "" {
			return s.violated("%s is locked without an id", path)
		}
		s.locks[path] = body
	case "UNLOCK":
		if id := idOf(body); id != held || id == "" {
			return s.violated("%s is unlocked by %q and not by %q", path, id, held)
		}
		delete(s.locks, path)
	default:
		return s.violated("%s %s", r.Method, path)
	}
	return http.StatusOK, ""
}

func (s *Server) violated(format string, a ...any) (int, string) {
	text := fmt.Sprintf(format, a...)
	s.violations = append(s.violations, text)
	return http.StatusConflict, text
}

// idOf is the id of a lock's document.
func idOf(document string) string {
	var lock struct{ ID string }
	_ = json.Unmarshal([]byte(document), &lock) // what is no document has no id
	return lock.ID
}
