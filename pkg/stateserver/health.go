package stateserver

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	healthTime = 10 * time.Second
	healthKept = 2 * time.Second // asking more often writes no more often
)

// health is whether the storage can be written, asked for at most so often. Safe for concurrent use.
type health struct {
	storage Storage
	mu      sync.Mutex
	at      time.Time
	err     error
}

// check writes an object and deletes it.
func (h *health) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && time.Since(h.at) < healthKept {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTime)
	defer cancel()
	h.err = CheckStorage(ctx, h.storage)
	h.at = time.Now()
	return h.err
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return notAllowed(w, r, "GET")
	}
	if err := s.health.check(r.Context()); err != nil {
		s.log.Error("the storage cannot be used", "error", err)
		return refuse(http.StatusServiceUnavailable, "the storage cannot be written")
	}
	writeText(w, http.StatusOK, "ok")
	return nil
}
