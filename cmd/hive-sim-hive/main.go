// Command hive-sim-hive is the part of hive-sim that stands in for hive on a node, as a program of its own: what is
// uploaded to every node is then a third as large.
package main

import (
	"os"

	simhive "hive-test/pkg/sim/hive"
)

func main() { os.Exit(simhive.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
