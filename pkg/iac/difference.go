package iac

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ReadTable reads a table as iac probe -o json prints it. What is no such table, or is of another schema, is an error.
func ReadTable(r io.Reader) (Table, error) {
	decoder := json.NewDecoder(r)
	var t Table
	if err := decoder.Decode(&t); err != nil {
		return t, fmt.Errorf("it is no table of iac probe -o json: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("it is no table of iac probe -o json: something follows the document")
	}
	return t, t.check()
}

// check is an error where a document is not a table that this program compares.
func (t Table) check() error {
	switch {
	case t.Schema != tableSchema:
		return fmt.Errorf("it has schema %d, and tables of iac probe have %d here", t.Schema, tableSchema)
	case len(t.Rows) == 0:
		return errors.New("it is no table of iac probe -o json: it has no rows")
	}
	seen := map[string]bool{}
	for _, row := range t.Rows {
		if row.Resource == "" || seen[row.Resource] {
			return fmt.Errorf("it is no table of iac probe -o json: resource %q has no name of its own", row.Resource)
		}
		seen[row.Resource] = true
		for part, cell := range row.Cells {
			if !slices.Contains(Phases(), part) || !slices.Contains(verdicts(), cell.Verdict) {
				return fmt.Errorf("it is no table of iac probe -o json: %s has a part %q with verdict %q",
					row.Resource, part, cell.Verdict)
			}
		}
	}
	return nil
}

// ChangeKind is what has become of a part of a resource's life from one table to another.
type ChangeKind string

// Kinds of changes, the worst first.
const (
	Lost    ChangeKind = "lost"    // it worked before, and does not, or was not tried
	Changed ChangeKind = "changed" // it works in neither, for different reasons
	Gained  ChangeKind = "gained"  // it works now, and did not, or was not tried
)

// Change is a part of a resource's life that is not as it was. A cell that a table does not have is nil.
type Change struct {
	Change   ChangeKind `json:"change" jsonschema:"enum=lost,enum=changed,enum=gained"`
	Resource string     `json:"resource"`
	Part     string     `json:"part"`
	Before   *Cell      `json:"before,omitempty"`
	After    *Cell      `json:"after,omitempty"`
}

// Probed is a table without its rows.
type Probed struct {
	Endpoint string    `json:"endpoint"`
	Time     time.Time `json:"time"`
	Working  int       `json:"working"` // parts that work
	Parts    int       `json:"parts"`   // all that were tried or blocked
}

// Difference is what differs between two tables.
type Difference struct {
	Schema  int      `json:"schema"`
	Before  Probed   `json:"before"`
	After   Probed   `json:"after"`
	Changes []Change `json:"changes"`
}

// Compare tells what an endpoint gained, lost and does otherwise, the lost first. Texts of errors may tell of ids, so that
// two cells differ only by their verdicts and by the calls that decide.
func Compare(before, after Table) Difference {
	d := Difference{Schema: tableSchema, Before: before.Summary(), After: after.Summary(), Changes: []Change{}}
	for _, name := range names(before, after) {
		for _, part := range Phases() {
			c := Change{Resource: name, Part: part, Before: before.cell(name, part), After: after.cell(name, part)}
			if c.Change = kindOf(c.Before, c.After); c.Change != "" {
				d.Changes = append(d.Changes, c)
			}
		}
	}
	worst := []ChangeKind{Lost, Changed, Gained}
	slices.SortStableFunc(d.Changes, func(a, b Change) int {
		return slices.Index(worst, a.Change) - slices.Index(worst, b.Change)
	})
	return d
}

// kindOf is the kind of a change; empty: there is none.
func kindOf(before, after *Cell) ChangeKind {
	worked, works := before.works(), after.works()
	switch {
	case worked && !works:
		return Lost
	case works && !worked:
		return Gained
	case works || before == nil && after == nil:
		return ""
	case before == nil || after == nil || before.Verdict != after.Verdict || before.Call != after.Call:
		return Changed
	}
	return ""
}

func (c *Cell) works() bool { return c != nil && c.Verdict == Works }

// names are those of the resources of both tables, in their order.
func names(before, after Table) []string {
	var all []string
	for _, row := range slices.Concat(before.Rows, after.Rows) {
		if !slices.Contains(all, row.Resource) {
			all = append(all, row.Resource)
		}
	}
	return all
}

// cell returns that of a part of a resource; nil: the table has none.
func (t Table) cell(resource, part string) *Cell {
	for _, row := range t.Rows {
		if cell, there := row.Cells[part]; there && row.Resource == resource {
			return &cell
		}
	}
	return nil
}

// Summary is the table without its rows.
func (t Table) Summary() Probed {
	p := Probed{Endpoint: t.Endpoint, Time: t.Time}
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			p.Parts++
			if cell.Verdict == Works {
				p.Working++
			}
		}
	}
	return p
}

// Count returns how many changes of a kind there are.
func (d Difference) Count(kind ChangeKind) int {
	n := 0
	for _, c := range d.Changes {
		if c.Change == kind {
			n++
		}
	}
	return n
}
