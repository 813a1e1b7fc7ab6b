package engine

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
)

// fullDisk passes events on, but for warnings that a file of the clusters directory could not be written for want of
// room: one is told of all of them at the end. It is safe for concurrent use.
type fullDisk struct {
	root string // the clusters directory
	next progress.Sink

	mu    sync.Mutex
	held  []progress.Event
	files []string // which could not be written, each once
}

// noRoom is a line that says that a file could not be written, which it names first.
var noRoom = regexp.MustCompile(`^[^/]*(/[^:]+): (?:.*: )?(?i:no space left on device|disk quota exceeded)$`)

// Emit passes an event on, or holds it back.
func (d *fullDisk) Emit(e progress.Event) {
	files, ok := d.unwritten(e)
	if !ok {
		d.next.Emit(e)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, e)
	for _, file := range files {
		if !slices.Contains(d.files, file) {
			d.files = append(d.files, file)
		}
	}
}

// unwritten returns the files of which an event warns, if it warns of nothing else.
func (d *fullDisk) unwritten(e progress.Event) (files []string, ok bool) {
	if e.Kind != progress.Warning || e.Node != "" {
		return nil, false
	}
	for line := range strings.Lines(e.Message) {
		found := noRoom.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil || !strings.HasPrefix(found[1], d.root+string(filepath.Separator)) {
			return nil, false
		}
		files = append(files, found[1])
	}
	return files, len(files) > 0
}

// tell passes on what was held back, as one warning.
func (d *fullDisk) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.held) == 0 {
		return
	}
	e := d.held[0]
	if len(d.files) > 1 {
		names := make([]string, len(d.files))
		for i, file := range d.files {
			names[i] = filepath.Base(file)
		}
		slices.Sort(names)
		e.Time, e.Hint = time.Now().UTC(), "make room on the disk of "+d.root
		e.Message = "no space left on device: " + progress.Count(len(d.files), "file") + " could not be written: " +
			strings.Join(slices.Compact(names), ", ")
	}
	d.next.Emit(e)
	d.held, d.files = nil, nil
}
