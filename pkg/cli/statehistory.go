package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/stateserver"
)

// versionNumber is the number of a version, as history lists it.
func versionNumber(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return 0, fmt.Errorf("%q is no number of a version: state history lists them", text)
	}
	return number, nil
}

// stateHistoryJSON is the shape of `state history -o json`.
type stateHistoryJSON struct {
	Schema   int                `json:"schema"`
	Cluster  string             `json:"cluster"`
	Lock     *stateLockJSON     `json:"lock" jsonschema:"nullable"` // null: the state is not locked
	Versions []stateVersionJSON `json:"versions"`                   // the newest first
}

// stateVersionJSON is a version of a state.
type stateVersionJSON struct {
	Version   int64     `json:"version"`
	Kind      string    `json:"kind"` // write, rollback or delete
	By        string    `json:"by"`   // user of the server
	At        time.Time `json:"at"`
	Serial    uint64    `json:"serial"`
	Lineage   string    `json:"lineage"`
	Size      int       `json:"size"`      // bytes
	Encrypted bool      `json:"encrypted"` // by OpenTofu
	Client    string    `json:"client,omitempty"`
}

// usualVersions are how many versions are listed where nothing else is said.
const usualVersions = 20

func (a *app) stateHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "the versions of the state of a cluster that a server of state serve keeps",
		Example: `  hive-test state history dev1
  hive-test state history dev1 --limit 100 -o json`,
		Args: named(1),
	}
	limit := cmd.Flags().Int("limit", usualVersions, "`number` of versions at most, the newest first")
	return a.onState(cmd, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		if *limit < 1 {
			return usage(errors.New("--limit: 1 or more"))
		}
		history, err := e.StateHistory(ctx, a.request(args[0], settings), *limit)
		if err != nil {
			return err
		}
		document := historyOf(args[0], history)
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return document.print(a.page(a.Stdout, settings))
	})
}

func historyOf(name string, history stateserver.History) stateHistoryJSON {
	document := stateHistoryJSON{Schema: outputSchema, Cluster: name, Versions: []stateVersionJSON{}}
	if lock := history.Lock; lock != nil {
		var sent struct{ Who, Operation string }
		_ = json.Unmarshal(lock.Document, &sent) // what a client has sent: else nothing of it is told
		document.Lock = &stateLockJSON{lock.ID, sent.Who, sent.Operation, lock.At}
	}
	for _, v := range history.Versions {
		document.Versions = append(document.Versions, stateVersionJSON{
			v.Number, v.Kind, v.By, v.At, v.Serial, v.Lineage, v.Size, v.Encrypted, v.Client,
		})
	}
	return document
}

func (d stateHistoryJSON) print(p page) error {
	var rows [][]string
	for _, v := range d.Versions {
		rows = append(rows, []string{
			strconv.FormatInt(v.Version, 10), v.Kind, strconv.FormatUint(v.Serial, 10), v.At.Local().Format(time.DateTime), v.By,
			strconv.Itoa(v.Size), dash(v.Client),
		})
	}
	err := p.table([]column{
		{name: "VERSION", right: true},
		{name: "KIND"},
		{name: "SERIAL", right: true},
		{name: "WRITTEN"},
		{name: "BY"},
		{name: "BYTES", right: true, drop: 2},
		{name: "FROM", drop: 1},
	}, rows)
	if err != nil || d.Lock == nil {
		return err
	}
	return p.line("locked: "+d.Lock.ID+" "+d.Lock.Who, "  ")
}

// stateDiffJSON is the shape of `state diff -o json`.
type stateDiffJSON struct {
	Schema  int               `json:"schema"`
	Cluster string            `json:"cluster"`
	From    int64             `json:"from"`
	To      int64             `json:"to"` // 0: the state as it is now
	Changes []stateChangeJSON `json:"changes"`
}

// stateChangeJSON is what differs of one resource.
type stateChangeJSON struct {
	Address    string               `json:"address"`
	Action     string               `json:"action"` // create, update or delete
	Attributes []stateAttributeJSON `json:"attributes"`
}

// stateAttributeJSON is one value that differs, as text.
type stateAttributeJSON struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func (a *app) stateDiffCommand() *cobra.Command {
	return a.onState(&cobra.Command{
		Use:   "diff NAME VERSION [VERSION]",
		Short: "what differs between a version of the state of a cluster and a later one, or how it is now",
		Example: `  hive-test state diff dev1 11
  hive-test state diff dev1 11 12`,
		Args: named(3),
	}, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		if len(args) < 2 {
			return usage(errors.New("name a version: state history lists them"))
		}
		document := stateDiffJSON{Schema: outputSchema, Cluster: args[0], Changes: []stateChangeJSON{}}
		for i, number := range []*int64{&document.From, &document.To} {
			if len(args) < i+2 {
				continue
			}
			var err error
			if *number, err = versionNumber(args[i+1]); err != nil {
				return usage(err)
			}
		}
		changes, err := e.StateDiff(ctx, a.request(args[0], settings), document.From, document.To)
		if err != nil {
			return err
		}
		for _, c := range changes {
			change := stateChangeJSON{Address: c.Address, Action: c.Action, Attributes: []stateAttributeJSON{}}
			for _, v := range c.Attributes {
				change.Attributes = append(change.Attributes, stateAttributeJSON{v.Name, v.Before, v.After})
			}
			document.Changes = append(document.Changes, change)
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return document.print(a.page(a.Stdout, settings))
	})
}

func (d stateDiffJSON) print(p page) error {
	if len(d.Changes) == 0 {
		return p.line("no resource differs", "  ")
	}
	for _, c := range d.Changes {
		if err := p.line(p.paint(actionColor(c.Action), c.Action)+" "+c.Address, "  "); err != nil {
			return err
		}
		for _, v := range c.Attributes {
			if err := p.line(fmt.Sprintf("  %s: %s -> %s", v.Name, v.Before, v.After), "    "); err != nil {
				return err
			}
		}
	}
	return nil
}
