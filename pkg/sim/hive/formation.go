package simhive

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// formation is the server inside a blocking `hive admin init`: it gathers N nodes and then hands out the cluster's
// configuration. Its routes, codes and bodies are those observed of real hive. Safe for concurrent use.
type formation struct {
	era      Era
	expected int
	token    string // EraSpx only

	mu       sync.Mutex
	nodes    map[string]member
	bundle   *bundle
	complete chan struct{} // closed when the last node has joined
	fetched  int           // how many complete answers joiners have read
}

type joinResponse struct {
	Success  bool   `json:"success"`
	Message  string `json:"message"`
	Joined   int    `json:"joined"`
	Expected int    `json:"expected"`
}

type statusResponse struct {
	Complete bool `json:"complete"`
	Joined   int  `json:"joined"`
	Expected int  `json:"expected"`
	*bundle
}

func newFormation(era Era, expected int, token string, self member) *formation {
	return &formation{
		era: era, expected: expected, token: token,
		nodes:    map[string]member{self.Name: self},
		complete: make(chan struct{}),
	}
}

func (f *formation) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /formation/join", f.authorized(f.join))
	mux.HandleFunc("GET /formation/status", f.authorized(f.status))
	mux.HandleFunc("GET /formation/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return mux
}

// authorized asks for the join token, in the era that has one.
func (f *formation) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if f.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(f.token)) != 1 {
			writeJSON(w, http.StatusUnauthorized, joinResponse{Message: "unauthorized: invalid join token"})
			return
		}
		next(w, r)
	}
}

func (f *formation) join(w http.ResponseWriter, r *http.Request) {
	var node member
	if err := json.NewDecoder(r.Body).Decode(&node); err != nil || node.Name == "" || node.BindIP == "" {
		writeJSON(w, http.StatusBadRequest, joinResponse{Message: "invalid request: name and bind_ip are needed"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if problem := f.duplicate(node); problem != "" {
		writeJSON(w, http.StatusConflict, joinResponse{Message: problem, Joined: len(f.nodes), Expected: f.expected})
		return
	}
	if len(f.nodes) >= f.expected {
		f.tooMany(w)
		return
	}
	f.nodes[node.Name] = node
	if len(f.nodes) == f.expected {
		close(f.complete)
	}
	writeJSON(w, http.StatusOK, joinResponse{
		Success: true, Message: "node " + node.Name + " joined", Joined: len(f.nodes), Expected: f.expected,
	})
}

func (f *formation) duplicate(node member) string {
	if _, taken := f.nodes[node.Name]; taken {
		return fmt.Sprintf("node %s already registered", node.Name)
	}
	for _, other := range f.nodes {
		if other.BindIP == node.BindIP {
			return fmt.Sprintf("bind IP %s already registered by %s", node.BindIP, other.Name)
		}
	}
	return ""
}

// tooMany answers one node more than expected: the early era's handler panics there and the client sees the connection
// close without an answer.
func (f *formation) tooMany(w http.ResponseWriter) {
	if f.era == EraPre {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, http.StatusConflict, joinResponse{
		Message: "formation is already complete", Joined: f.expected, Expected: f.expected,
	})
}

func (f *formation) status(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := statusResponse{Complete: f.bundle != nil, Joined: len(f.nodes), Expected: f.expected, bundle: f.bundle}
	if answer.Complete {
		f.fetched++
	}
	writeJSON(w, http.StatusOK, answer)
}

// finish lets joiners have the bundle.
func (f *formation) finish(b bundle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bundle = &b
}

func (f *formation) members() map[string]member {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := make(map[string]member, len(f.nodes))
	for name, node := range f.nodes {
		nodes[name] = node
	}
	return nodes
}

// served tells whether every joiner can have read the bundle.
func (f *formation) served() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fetched >= f.expected-1
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(value) // the client is gone if this fails
}
