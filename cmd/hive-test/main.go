// Command hive-test makes, configures, tests and destroys Hive clusters on Proxmox VE.
package main

import (
	"os"

	"hive-test/pkg/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.System()))
}
