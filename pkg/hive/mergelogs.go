package hive

import (
	"regexp"
	"slices"
	"sync"
	"time"
)

// How long lines of logs are held back, so that those of others which are older come before them: longer at first, for
// some nodes answer later than others.
const (
	firstMergeTime = time.Second
	mergeTime      = 250 * time.Millisecond

	mostMerged = 10000 // lines that are held back
)

// logLine is a line of a log, and when it was written.
type logLine struct {
	node, log, text string
	at              time.Time
}

// logMerger hands lines of several logs on in the order of their times. It is safe for concurrent use.
type logMerger struct {
	show func(node, log, text string) // calls do not overlap

	mu      sync.Mutex
	pending []logLine
	last    map[[2]string]time.Time // of each node's logs, as lines have told
	files   map[[2]string]time.Time // when each was written last before it was followed
	timer   *time.Timer
	flushed bool
}

func newLogMerger(show func(node, log, text string)) *logMerger {
	return &logMerger{show: show, last: map[[2]string]time.Time{}, files: map[[2]string]time.Time{}}
}

// written takes when a log was written last. Those of its lines that are there already are not younger.
func (m *logMerger) written(node, log string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[[2]string{node, log}] = at
}

// add takes a line, which is shown a little later.
func (m *logMerger) add(node, log, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending = append(m.pending, logLine{node, log, text, timeOf(text)})
	switch {
	case len(m.pending) >= mostMerged:
		m.showAll()
		return
	case m.timer != nil:
		return
	}
	hold := mergeTime
	if !m.flushed {
		hold = firstMergeTime
	}
	m.timer = time.AfterFunc(hold, m.flush)
}

// flush shows what was taken.
func (m *logMerger) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.showAll()
}

func (m *logMerger) showAll() {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer, m.flushed = nil, true
	m.complete()
	slices.SortStableFunc(m.pending, func(a, b logLine) int { return a.at.Compare(b.at) })
	for _, line := range m.pending {
		m.show(line.node, line.log, line.text)
	}
	m.pending = nil
}

// complete gives lines without a time that of the line before them in their log, or of the one that follows, or else that of
// the file.
func (m *logMerger) complete() {
	next := map[[2]string]time.Time{}
	for _, line := range slices.Backward(m.pending) {
		if !line.at.IsZero() {
			next[[2]string{line.node, line.log}] = line.at
		}
	}
	for i := range m.pending {
		line := &m.pending[i]
		source := [2]string{line.node, line.log}
		switch {
		case !line.at.IsZero():
		case !m.last[source].IsZero():
			line.at = m.last[source]
		case !next[source].IsZero():
			line.at = next[source]
		case !m.files[source].IsZero():
			line.at = m.files[source]
		default:
			line.at = time.Now()
		}
		m.last[source] = line.at
	}
}

// logTime is a time as Go's log, NATS and slog write it, near the beginning of a line. Without a zone, it is taken for UTC, as
// nodes have it.
var logTime = regexp.MustCompile(
	`^(?:\[\d+\] |time=)?"?(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?`,
)

// timeOf returns when a line says that it was written; zero if it does not.
func timeOf(text string) time.Time {
	found := logTime.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}
	}
	zone := found[5]
	if zone == "" {
		zone = "Z"
	}
	at, err := time.Parse(time.RFC3339Nano, found[1]+"-"+found[2]+"-"+found[3]+"T"+found[4]+zone)
	if err != nil {
		return time.Time{}
	}
	return at
}
