package progress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
)

// EventSchema is the number of the shape of events in files: fields may be added within it, never renamed.
const EventSchema = 1

// Line is an event as a line of events.jsonl, and of what is told with --log-format json.
type Line struct {
	Schema int `json:"schema"`
	Event
}

// JSONLines returns a Renderer that writes every event as one JSON object on a line of its own, in one Write each.
// Filter before it to leave out what only -v shows.
func JSONLines(w io.Writer) Renderer { return &jsonLines{w: w} }

type jsonLines struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// Emit writes e. After the first failed write nothing more is written; Close returns that error.
func (j *jsonLines) Emit(e Event) {
	line, err := encode(e)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	if err == nil {
		_, err = j.w.Write(line)
	}
	j.err = err
}

func (j *jsonLines) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func encode(e Event) ([]byte, error) {
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	if math.IsNaN(e.Seconds) || math.IsInf(e.Seconds, 0) {
		e.Seconds = 0
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(Line{EventSchema, e}); err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	return DisarmJSON(b.Bytes()), nil
}

// recordedOutput is how many bytes of the Output of one source a Recorder takes.
const recordedOutput = 8 << 20

// Recorder returns a Renderer that appends every event to the file at path as JSONLines does, but for the Output of a
// step, node or suite that prints without end: of that, it has the beginning, and says so. The file is made with mode
// 0600. Every event is handed to the system at once, so that a killed run leaves all but its last line.
func Recorder(path string) (Renderer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("recording events: %w", err)
	}
	return &recorder{jsonLines: jsonLines{w: f}, file: f, output: map[outputSource]int{}}, nil
}

type recorder struct {
	jsonLines
	file   *os.File
	output map[outputSource]int // bytes, about, that came
}

func (r *recorder) Emit(e Event) {
	if e.Kind == Output {
		before, now := r.count(e)
		if before > recordedOutput {
			return
		}
		if now > recordedOutput {
			e.Message = "(what follows is not recorded here)"
			if e.Suite != "" {
				e.Message = "(what follows is not recorded here: all that the suite printed is in its output.log)"
			}
		}
	}
	r.jsonLines.Emit(e)
}

// count adds an Output to what came of its source.
func (r *recorder) count(e Event) (before, now int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := sourceOf(e)
	before = r.output[source]
	r.output[source] = before + sizeOf(e)
	return before, r.output[source]
}

// Close closes the file and returns the first error of a write or of closing. Events after it are dropped.
func (r *recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.err, r.file.Close())
	r.file, r.err = nil, os.ErrClosed
	if err != nil {
		return fmt.Errorf("recording events: %w", err)
	}
	return nil
}

// ReadEvents reads what JSONLines or Recorder wrote. A last line without its line end, as a killed run leaves, is
// ignored unless it is whole. On an error the events before it are returned too. Output is bounded as Memory bounds it.
func ReadEvents(r io.Reader) ([]Event, error) {
	var events Memory
	err := EachEvent(r, events.Emit)
	return events.events, err
}

// EachEvent calls each with every event that ReadEvents would read, one after another, and keeps none.
func EachEvent(r io.Reader, each func(Event)) error {
	reader := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading events, line %d: %w", number, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var e Event
			bad := json.Unmarshal(line, &e)
			if bad != nil && err == nil {
				return fmt.Errorf("reading events, line %d: %w", number, bad)
			}
			if bad == nil {
				each(e)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}
