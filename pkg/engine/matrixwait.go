package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// cellWait is what cells wait for that have not begun, and why the first of them does.
type cellWait struct {
	what, why string
	cells     []string
}

// startCells starts all that there is room for, and tells what the others wait for.
func (m *matrixRun) startCells(ctx context.Context) {
	known := room{}
	var waits []cellWait
	for i := 0; i < len(m.left) && ctx.Err() == nil; {
		cell := m.left[i]
		if what, why := m.lack(ctx, cell, known); what != "" {
			waits = added(waits, cellWait{what, why, []string{m.plan.Cells[cell].Name}})
			i++
			continue
		}
		m.left = slices.Delete(m.left, i, i+1)
		m.endWait(m.plan.Cells[cell].Name)
		m.start(ctx, cell)
	}
	m.tellWaits(waits)
}

// lack says what a cell has to wait for, and why; empty: it may begin.
func (m *matrixRun) lack(ctx context.Context, cell int, known room) (what, why string) {
	if m.full != "" {
		return "what other cells have", m.full
	}
	if what, why = m.lackOfBudget(cell); what != "" {
		return what, why
	}
	return m.lackOfMemory(ctx, cell, known)
}

// lackOfBudget says what limits have no room for a cell. What its cluster takes that is there already is its own.
func (m *matrixRun) lackOfBudget(cell int) (what, why string) {
	load, size := m.load, m.plan.Cells[cell].Size
	if m.held[cell] {
		load.Drop(size)
	}
	return load.Lack(size, m.plan.Limits)
}

// room is the memory that Proxmox VE had free when a round of starts began, by what cells say of where they run.
type room map[string]freeMemory

type freeMemory struct {
	mebibytes int
	known     bool
}

// lackOfMemory says that Proxmox VE has not the memory that a cell takes, besides that of cells whose machines are not
// made yet. Where it does not say, or nothing else runs, the cell's own checks tell.
func (m *matrixRun) lackOfMemory(ctx context.Context, cell int, known room) (what, why string) {
	if len(m.running) == 0 {
		return "", ""
	}
	planned := m.plan.Cells[cell]
	place := placeOf(planned)
	free, asked := known[place]
	if !asked {
		free.mebibytes, free.known = m.free(ctx, planned)
		known[place] = free
	}
	pending := 0
	for other := range m.pending {
		pending += m.plan.Cells[other].Size.MemoryMB
	}
	need := planned.Size.MemoryMB
	if !free.known || need+pending <= free.mebibytes {
		return "", ""
	}
	mebibytes := func(n int) string { return fmt.Sprintf("%d MiB", n) }
	why = mebibytes(free.mebibytes) + " are free"
	if pending > 0 {
		why += ", and cells whose VMs are being made take " + mebibytes(pending)
	}
	return mebibytes(need) + " of memory on the hypervisors", why
}

// placeOf tells apart which hypervisors cells run on.
func placeOf(cell PlannedCell) string {
	var place strings.Builder
	for _, v := range cell.Settings.Values() {
		if v.Key == "deployer" || v.Key == "sim" || strings.HasPrefix(v.Key, "proxmox.") {
			fmt.Fprintf(&place, "%s=%q\n", v.Key, v.Value)
		}
	}
	return place.String()
}

// added is waits with another one, which is told with the one for the same.
func added(waits []cellWait, w cellWait) []cellWait {
	for i := range waits {
		if waits[i].what == w.what {
			waits[i].cells = append(waits[i].cells, w.cells...)
			return waits
		}
	}
	return append(waits, w)
}

// endWait tells that a cell waits no longer.
func (m *matrixRun) endWait(cell string) {
	m.tellWaits(slices.DeleteFunc(slices.Clone(m.waits), func(w cellWait) bool { return w.cells[0] == cell }))
}

// tellWaits tells what cells wait for now, where that has changed: of many that wait for the same, it is told once.
func (m *matrixRun) tellWaits(waits []cellWait) {
	tell := func(w cellWait, over progress.Status) {
		m.Sink.Emit(progress.Event{
			Kind: progress.Wait, Phase: cellsPhase, Step: cellStep, Node: w.cells[0], Status: over,
			Message: "waits for " + w.what, Error: w.reason(),
		})
	}
	for _, before := range m.waits {
		if !slices.ContainsFunc(waits, func(w cellWait) bool { return w.cells[0] == before.cells[0] }) {
			tell(before, progress.Passed)
		}
	}
	for _, w := range waits {
		if !slices.ContainsFunc(m.waits, func(o cellWait) bool {
			return o.cells[0] == w.cells[0] && o.what == w.what && o.reason() == w.reason()
		}) {
			tell(w, "")
		}
	}
	m.waits = waits
}

// reason is why the first of the cells waits, and which others do.
func (w cellWait) reason() string {
	const most = 3 // that are named
	others := w.cells[1:]
	switch n := len(others); {
	case n > most:
		return fmt.Sprintf("%s; so do %s and %d more", w.why, strings.Join(others[:most], ", "), n-most)
	case n > 1:
		return w.why + "; so do " + strings.Join(others, ", ")
	case n == 1:
		return w.why + "; so does " + others[0]
	}
	return w.why
}
