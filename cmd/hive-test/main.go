// Command hive-test makes, configures, tests and destroys Hive clusters on Proxmox VE.
package main

import (
	"os"
	"runtime/debug"

	"hive-test/pkg/cli"
)

// memory is above which garbage is collected sooner: whoever tests a cluster has other things to do with a runner's
// memory.
const memory = 64 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory)
	}
	os.Exit(cli.Main(os.Args[1:], cli.System()))
}
