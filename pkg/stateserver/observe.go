package stateserver

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// logger is where the server logs to.
type logger = *slog.Logger

// metrics are what Prometheus may know: no name of a user or of a state.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	written  prometheus.Counter
	rejected prometheus.Counter
	braked   prometheus.Counter

	conflicts, failures, panics prometheus.Counter
}

const metricPrefix = "hive_test_state_server_"

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "requests_total", Help: "Requests that were answered.",
		}, []string{"method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "request_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method"}),
		written:   counter("written_bytes_total", "Bytes of states that became a version."),
		rejected:  counter("wrong_passwords_total", "Requests with a wrong user or password, or none."),
		braked:    counter("braked_total", "Requests refused after too many wrong passwords."),
		conflicts: counter("conflicts_total", "Requests refused because of a lock."),
		failures:  counter("failures_total", "Requests that failed because of the storage."),
		panics:    counter("panics_total", "Requests that failed because of a mistake in the server."),
	}
	m.registry.MustRegister(
		m.requests, m.seconds, m.written, m.rejected, m.braked, m.conflicts, m.failures, m.panics,
	)
	return m
}

// answer is a ResponseWriter that knows what was answered.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader sends the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// entry is what the access log tells beside request and answer. A name is that of a user only after the password was right:
// some type it into the wrong field.
type entry struct {
	user    string
	state   string
	version int64 // that was written; 0: none
}

// observed writes the line of the access log of a request. Addresses are not in it as they are sent: they may have IDs of
// locks, or anything.
func (s *Server) observed(r *http.Request, w *answer, e *entry, took time.Duration) {
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	method := methodOf(r)
	s.metrics.requests.WithLabelValues(method, strconv.Itoa(status)).Inc()
	s.metrics.seconds.WithLabelValues(method).Observe(took.Seconds())
	s.log.Info("request", "method", method, "path", pathOf(r, e), "status", status, "bytes", w.bytes, "received", max(r.ContentLength, 0),
		"seconds", took.Seconds(), "user", e.user, "client", clientOf(r), "version", e.version)
}

// methodOf is one of few words.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, "LOCK", "UNLOCK":
		return r.Method
	}
	return "other"
}

// pathOf is what a request is about.
func pathOf(r *http.Request, e *entry) string {
	switch path := r.URL.EscapedPath(); {
	case e.state != "":
		return path
	case path == "/healthz", path == "/metrics", path == "/certificate", path == "/state/":
		return path
	}
	return "other"
}

// contain answers a request that made the server panic.
func (s *Server) contain(w *answer, failed any) {
	if err, is := failed.(error); is && errors.Is(err, http.ErrAbortHandler) {
		panic(failed)
	}
	s.metrics.panics.Inc()
	s.log.Error("a request made the server panic", "panic", failed, "stack", string(debug.Stack()))
	if w.status == 0 {
		writeText(w, http.StatusInternalServerError, "the server made a mistake, which its log tells")
	}
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return notAllowed(w, r, "GET")
	}
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}
