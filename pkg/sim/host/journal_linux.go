package host

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// earlierJournal is what a host's journal of the boot before is, if there is such a file on it.
const earlierJournal = "var/log/sim-journal-before"

// runJournal answers `journalctl [--no-pager] [--list-boots] [-b [-1]] [-k] [-n LINES] [-u UNIT]...`: the journal of a
// simulated host is what its cloud-init said, for no systemd runs in it. The real machine's journal must not answer in
// its place.
func runJournal(args []string, stdout, stderr io.Writer) int {
	lines, kernel, before := -1, false, false
	earlier, err := os.ReadFile(filepath.Join("/", os.Getenv(rootVariable), earlierJournal))
	kept := err == nil
	var units []string
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch arg := args[i]; arg {
		case "--no-pager", "-b", "--boot":
		case "-1":
			before = true
		case "--list-boots":
			if kept {
				_, _ = fmt.Fprintln(stdout, "-1 11111111111111111111111111111111 the boot before")
			}
			_, _ = fmt.Fprintln(stdout, " 0 22222222222222222222222222222222 this boot")
			return 0
		case "-k", "--dmesg":
			kernel = true
		case "-u", "--unit":
			units = append(units, value())
		case "-n", "--lines":
			text := value()
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				_, _ = fmt.Fprintf(stderr, "Failed to parse lines '%s'\n", text)
				return 1
			}
			lines = n
		default:
			_, _ = fmt.Fprintf(stderr, "journalctl: unrecognized option '%s' (simulated)\n", arg)
			return 1
		}
	}
	if before && !kept {
		_, _ = fmt.Fprintln(stderr, "Specifying boot ID or boot offset has no effect, no persistent journal was found.")
		return 1
	}
	entries := journalEntries(os.Getenv(rootVariable), units)
	if before {
		entries = strings.Split(strings.TrimRight(string(earlier), "\n"), "\n")
	}
	if kernel || len(entries) == 0 {
		_, _ = fmt.Fprintln(stdout, "-- No entries --")
		return 0
	}
	if lines >= 0 {
		entries = entries[max(0, len(entries)-lines):]
	}
	for _, entry := range entries {
		_, _ = fmt.Fprintln(stdout, entry)
	}
	return 0
}

// journalEntries are the lines of cloud-init's log as the journal shows them, if its unit is among those asked for
// (none: all).
func journalEntries(root string, units []string) []string {
	wanted := len(units) == 0
	for _, unit := range units {
		if match, err := filepath.Match(unit, "cloud-final.service"); err == nil && match || unit == "cloud-final" {
			wanted = true
		}
	}
	file := filepath.Join("/", root, "var/log/cloud-init-output.log")
	info, err := os.Stat(file)
	raw, readErr := os.ReadFile(file)
	if !wanted || err != nil || readErr != nil {
		return nil
	}
	name := os.Getenv("SIM_HOST_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	var entries []string
	for line := range strings.Lines(string(raw)) {
		entries = append(
			entries,
			fmt.Sprintf(
				"%s %s cloud-init[1]: %s", info.ModTime().UTC().Format("Jan 02 15:04:05"), name,
				strings.TrimRight(line, "\n"),
			),
		)
	}
	return entries
}
