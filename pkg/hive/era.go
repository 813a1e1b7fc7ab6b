package hive

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Spinifex is the later era of hive, in which the program is called spx and its own service spinifex.
const Spinifex = "spinifex"

// SpinifexCPUs is how many CPUs a node of that era needs at least: it reserves 2 for itself, and its daemon does not
// start without one more.
const SpinifexCPUs = 3

// Era tells from here, without nodes, which era of hive would be installed: "hive", Spinifex, or empty where it cannot
// be known. A program is asked for its version, for 5 seconds at most.
func (o Options) Era(ctx context.Context) string {
	switch {
	case o.SourceDir != "":
		text, err := os.ReadFile(filepath.Join(o.SourceDir, "go.mod"))
		if err != nil {
			return ""
		}
		first, _, _ := strings.Cut(string(text), "\n")
		return eraOf(path.Base(strings.TrimSpace(first)))
	case o.Binary != "":
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		program, err := filepath.Abs(o.Binary)
		if err != nil {
			return ""
		}
		cmd := exec.CommandContext(ctx, program, "version")
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil { // perhaps it is for another system
			return ""
		}
		first, _, _ := strings.Cut(string(out), " ")
		return eraOf(first)
	case o.Tarball != "":
		return eraOfRelease(o.Tarball)
	}
	return ""
}

func eraOf(name string) string {
	switch name {
	case "hive":
		return "hive"
	case "spx", Spinifex:
		return Spinifex
	}
	return ""
}

// eraOfRelease goes by the program's name in the archive.
func eraOfRelease(file string) (era string) {
	_, _ = inRelease(file, func(header *tar.Header) bool {
		if header.Typeflag == tar.TypeReg {
			era = eraOf(path.Base(header.Name))
		}
		return era != ""
	})
	return era
}

// TooFewCPUs says what is wrong with nodes of that many CPUs, and whether such a cluster cannot work; empty where
// nothing is.
func TooFewCPUs(era string, cpus int) (problem string, fatal bool) {
	switch {
	case era == "hive" || cpus > SpinifexCPUs || cpus < 1:
		return "", false
	case cpus < SpinifexCPUs:
		return fmt.Sprintf(
				"%d CPUs per node: spinifex reserves 2 CPUs of a node and refuses to start below %d", cpus, SpinifexCPUs,
			),
			era == Spinifex
	}
	return fmt.Sprintf(
			"%d CPUs per node: spinifex reserves 2 CPUs of a node, and with what is left it offers no instance type", cpus,
		),
		false
}
