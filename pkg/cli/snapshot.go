package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

const snapshotLong = `snapshot keeps the state of all nodes of a cluster together, and brings it back: disks, with --memory running
processes, too. It is made of all nodes or of none. A restore proves that the cluster is what it was.

Disks must be where Proxmox VE can make snapshots: ZFS, Ceph, LVM-thin, or qcow2 in a directory.`

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "the state of all nodes together: keep it, bring it back",
		Long:  snapshotLong,
		Example: `  hive-test snapshot save dev1 clean
  hive-test snapshot restore dev1 clean
  hive-test snapshot list dev1
  hive-test snapshot delete dev1 clean`,
		Args: cobra.NoArgs,
		RunE: run(func(_ context.Context, cmd *cobra.Command, _ []string) error {
			return usage(progress.WithHint(
				errors.New("snapshot needs a word: save, restore, list or delete"), usageLine(cmd)))
		}),
	}
	cmd.AddCommand(
		a.snapshotSaveCommand(), a.snapshotRestoreCommand(), a.snapshotListCommand(), a.snapshotDeleteCommand(),
	)
	return cmd
}

// tagged is what the arguments NAME [TAG] ask for.
func (a *app) tagged(args []string, settings config.Settings) engine.SnapshotRequest {
	request := engine.SnapshotRequest{Request: a.request(args[0], settings)}
	if len(args) > 1 {
		request.Tag = args[1]
	}
	return request
}

func (a *app) snapshotSaveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save NAME [TAG]",
		Short: "make a snapshot of all nodes, or of none",
		Long: `save makes a snapshot of all nodes at once. Where one cannot be made, nothing is; where one fails, those of the
others are deleted again. Where its guest agent answers, a node's file systems are frozen for that moment.`,
		Example: `  hive-test snapshot save dev1
  hive-test snapshot save dev1 clean
  hive-test snapshot save dev1 warm --memory`,
		Args: named(2),
	}
	load := a.settings(cmd)
	memory := cmd.Flags().Bool("memory", false, "keep memory, too: a restore goes on without a boot")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := a.tagged(args, settings)
		request.Memory = *memory
		return a.work(settings, func(e *engine.Engine) error {
			made, err := e.SaveSnapshot(ctx, request)
			if err != nil {
				return err
			}
			return a.printSnapshots(settings, args[0], len(made.Nodes), []deploy.Snapshot{made})
		})
	})
	return cmd
}

func (a *app) snapshotRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore NAME [TAG]",
		Short: "bring all nodes back to a snapshot, the newest where none is named",
		Long: `restore brings the disks of all nodes back, starts the nodes where the snapshot has no memory, and proves that the
VMs are the cluster's, the host keys the same and hive healthy. Until when the cluster is to exist, and whether it is held, stays
as it is now. What was on the disks since is lost.`,
		Example: `  hive-test snapshot restore dev1
  hive-test snapshot restore dev1 clean`,
		Args: named(2),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.RestoreSnapshot(ctx, a.tagged(args, settings))
		}, nil)
	})
	return cmd
}

func (a *app) snapshotListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list NAME",
		Short:   "the snapshots of a cluster, the oldest first",
		Long:    "list shows the cluster's own snapshots, as Proxmox VE has them now. One that a node lacks cannot be restored.",
		Example: `  hive-test snapshot list dev1`,
		Args:    named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			list, nodes, err := e.ListSnapshots(ctx, a.request(args[0], settings))
			if err != nil {
				return err
			}
			return a.printSnapshots(settings, args[0], nodes, list)
		})
	})
	return cmd
}

func (a *app) snapshotDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete NAME TAG",
		Short:   "delete a snapshot from all nodes",
		Long:    "delete deletes a snapshot from all nodes that have it. What the nodes are now stays.",
		Example: `  hive-test snapshot delete dev1 clean`,
		Args:    named(2),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := a.tagged(args, settings)
		return a.work(settings, func(e *engine.Engine) error {
			left, nodes, err := e.DeleteSnapshot(ctx, request)
			if err != nil {
				return err
			}
			if structured, err := printAs(a.Stdout, settings.Output, snapshotsOf(args[0], nodes, left)); structured {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "cluster %s: snapshot %s is deleted\n", args[0], request.Tag)
			return err
		})
	})
	return cmd
}

// snapshotsJSON is the shape of `snapshot save`, `list` and `delete` with -o json.
type snapshotsJSON struct {
	Schema    int            `json:"schema"`
	Cluster   string         `json:"cluster"`
	Snapshots []snapshotJSON `json:"snapshots"`
}

type snapshotJSON struct {
	Tag     string    `json:"tag"`
	Created time.Time `json:"created"`
	Memory  bool      `json:"memory"`
	// Nodes have it; Complete says that all do.
	Nodes    []string `json:"nodes"`
	Complete bool     `json:"complete"`
}

func snapshotsOf(name string, nodes int, list []deploy.Snapshot) snapshotsJSON {
	document := snapshotsJSON{Schema: outputSchema, Cluster: name, Snapshots: []snapshotJSON{}}
	for _, s := range list {
		document.Snapshots = append(document.Snapshots, snapshotJSON{
			Tag: s.Tag, Created: s.Created, Memory: s.Memory, Nodes: s.Nodes, Complete: len(s.Nodes) == nodes,
		})
	}
	return document
}

func (a *app) printSnapshots(settings config.Settings, name string, nodes int, list []deploy.Snapshot) error {
	document := snapshotsOf(name, nodes, list)
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(a.Stderr, "cluster %s has no snapshots\n", name)
		return nil
	}
	var rows [][]string
	for _, s := range document.Snapshots {
		of := fmt.Sprintf("%d", len(s.Nodes))
		if !s.Complete {
			of += fmt.Sprintf(" of %d", nodes)
		}
		rows = append(rows, []string{
			s.Tag, s.Created.Format(time.RFC3339), aboutDuration(max(time.Since(s.Created), 0)), s.keeps(), of,
		})
	}
	return a.page(a.Stdout, settings).table(snapshotColumns(), rows)
}

// snapshotColumns are those of the list of snapshots.
func snapshotColumns() []column {
	return []column{
		{name: "TAG"},
		{name: "CREATED", drop: 1},
		{name: "AGE", right: true},
		{name: "KEEPS"},
		{name: "NODES", right: true},
	}
}

// snapshotLine tells the snapshots of a cluster in a line: tag, age, what they keep.
func snapshotLine(list []snapshotJSON) string {
	told := make([]string, len(list))
	for i, s := range list {
		told[i] = s.Tag + " (" + aboutDuration(max(time.Since(s.Created), 0)) + ", " + s.keeps()
		if !s.Complete {
			told[i] += ", not of all nodes"
		}
		told[i] += ")"
	}
	return "snapshots: " + strings.Join(told, ", ")
}

func (s snapshotJSON) keeps() string {
	if s.Memory {
		return "disks and memory"
	}
	return "disks"
}
