package cli

import (
	"context"
	"errors"
	"strings"

	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) downCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down NAME",
		Short: "destroy the VMs of a cluster, prove that they are gone, and remove its directory; evidence stays",
		Long: `down destroys the VMs of a cluster, proves that they and their disks and snippets are gone, and only then removes
its directory. It needs the directory or the owner id: where the record is damaged, the spare copy or what OpenTofu
has left tells whose the VMs are; where nothing is left, --owner does, and Proxmox VE shows which they are.

Hosts of a hosts file are released: hive runs on there, and which services is said. --stop-hive stops it, --purge removes what hive
and hive-test have put there as well.

A VM that is protected, locked, or not ours is refused before anything is touched. With --force protections are
taken off, VMs go through the API where OpenTofu fails, and what is refused does not keep the others.`,
		Example: `  hive-test down dev1
  hive-test down dev1 --force
  hive-test down dev1 --owner 7a0c3a4e-6a55-4e6f-9a54-3b3d6f0f7c1d
  hive-test down lab --purge    # hosts of a hosts file, as they were before`,
		Args: named(1),
	}
	load := a.settings(cmd)
	force := cmd.Flags().Bool(
		"force", false, "take protections off, and where tofu fails, delete the VMs through the API",
	)
	keep := cmd.Flags().Bool("keep-results", false, "keep the last test results beside the evidence of this run")
	owner := cmd.Flags().String(
		"owner", "", "owner `id` of the VMs, for a cluster whose directory is lost (status -o wide shows it)",
	)
	leave := leaveFlags(cmd)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("owner") && strings.TrimSpace(*owner) == "" {
			return usage(errors.New(
				"--owner is empty: it is the id that `hive-test status -o wide` and the VMs' descriptions show",
			))
		}
		request := engine.DownRequest{
			Request: a.request(args[0], settings), Force: *force, KeepResults: *keep, Owner: *owner, Leave: *leave,
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) { return e.Down(ctx, request) }, nil)
	})
	return cmd
}
