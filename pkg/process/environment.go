package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Environment is what a process was started with, as "NAME=value"; nil of one that has ended, of another user's, or
// where there is no /proc.
func Environment(pid int) []string { return zeroTerminated(pid, "environ") }

// Arguments are the program and arguments of a process; nil as of Environment, and of threads of the kernel.
func Arguments(pid int) []string { return zeroTerminated(pid, "cmdline") }

func zeroTerminated(pid int, file string) []string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

// Holds tells whether a process has a file open, by what /proc calls it, such as "pipe:[123]". Of another user's it is
// not known.
func Holds(pid int, name string) bool {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && target == name
	})
}
