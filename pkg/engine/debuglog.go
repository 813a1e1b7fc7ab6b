package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"hive-test/pkg/progress"
)

const (
	// debugLimit is how large a debug.log becomes.
	debugLimit = 20 << 20
	// debugEarly is how much is kept of what was told before the run had a directory.
	debugEarly = 256 << 10
)

// debugLog is the debug.log of a run: what happened, and each request to Proxmox VE and command on a node, one line
// each, with its time and without secrets. Its methods are safe for concurrent use.
type debugLog struct {
	log   *slog.Logger
	known *progress.Secrets

	mu    sync.Mutex
	early bytes.Buffer
	to    io.WriteCloser // nil before open
	room  int            // bytes that may still be written
	err   error          // of writing; nothing more is written then
}

func newDebugLog(known *progress.Secrets) *debugLog {
	d := &debugLog{known: known, room: debugEarly}
	d.log = slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutLevel}))
	return d
}

// withoutLevel leaves out what is the same in each line.
func withoutLevel(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey {
		return slog.Attr{}
	}
	return a
}

// event writes an event, but for what children and nodes print, of which there is no end.
func (d *debugLog) event(e progress.Event) {
	if e.Kind == progress.Output {
		return
	}
	var attrs []any
	for _, field := range []struct{ name, value string }{
		{"phase", e.Phase},
		{"step", e.Step},
		{"node", e.Node},
		{"suite", e.Suite},
		{"name", e.Name},
		{"status", string(e.Status)},
		{"message", e.Message},
		{"error", e.Error},
	} {
		if field.value != "" {
			attrs = append(attrs, field.name, field.value)
		}
	}
	d.log.Debug(string(e.Kind), attrs...)
}

// Write takes one line from log. It never fails: a run must not, for this.
func (d *debugLog) Write(line []byte) (int, error) {
	text := d.known.Mask(string(line))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil || d.room == 0 {
		return len(line), nil
	}
	if len(text) > d.room {
		text = "no room is left: what comes after this is missing\n"
		d.room = len(text)
	}
	d.room -= len(text)
	if d.to == nil {
		d.early.WriteString(text)
	} else {
		_, d.err = io.WriteString(d.to, text)
	}
	return len(line), nil
}

// open makes the file, with mode 0600, and writes what was told before.
func (d *debugLog) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("making the run's debug log: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to, d.room = f, debugLimit
	_, d.err = d.early.WriteTo(f)
	return nil
}

// close closes the file, and returns the first error of writing it. What is told after that is dropped.
func (d *debugLog) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.to == nil {
		return nil
	}
	err := errors.Join(d.err, d.to.Close())
	d.to, d.err = nil, os.ErrClosed
	if err != nil {
		return fmt.Errorf("writing the run's debug log: %w", err)
	}
	return nil
}
