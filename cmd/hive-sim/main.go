// Command hive-sim is everything that stands in for what a laptop lacks: Proxmox VE, its provider for OpenTofu, hive,
// and the hosts that VMs become. Its name or its first argument says which part it plays. Command hive-sim-hive is its
// part as hive alone.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"hive-test/pkg/sim/awsprovider"
	simhive "hive-test/pkg/sim/hive"
	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/provider"
	"hive-test/pkg/sim/pve/pvectl"
)

const usage = `usage: hive-sim PART ...

  pve       the simulated Proxmox VE: start, stop, status, env, serve
  provider  the stand-in for the bpg/proxmox provider (started by tofu or terraform); as terraform-provider-aws for that
  hive      the stand-in for hive on a node
  host      the init of a simulated host (started by pve)
`

func main() { os.Exit(run(os.Args)) }

func run(args []string) int {
	// First of all: as sudo inside a host this program is set-uid root.
	if host.IsGuest(args) {
		return host.Main(args)
	}
	part, rest := filepath.Base(args[0]), args[1:]
	if strings.HasPrefix(part, "terraform-provider-aws") {
		return awsprovider.Main()
	}
	if part != "hive" && !strings.HasPrefix(part, "terraform-provider-proxmox") {
		if len(rest) == 0 {
			fmt.Fprint(os.Stderr, usage)
			return 2
		}
		part, rest = rest[0], rest[1:]
	}
	switch {
	case part == "pve":
		return runPVE(rest)
	case part == "provider" || strings.HasPrefix(part, "terraform-provider-proxmox"):
		return provider.Main()
	case part == "hive":
		return simhive.Main(rest, os.Stdin, os.Stdout, os.Stderr)
	}
	fmt.Fprint(os.Stderr, usage)
	if part == "-h" || part == "--help" || part == "help" {
		return 0
	}
	return 2
}

func runPVE(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hive-sim: find this program:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return pvectl.Main(ctx, self, args, pvectl.Streams{Out: os.Stdout, Err: os.Stderr})
}
