package explain

import (
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// Proxmox VE ends a task with words that only say that a program of its failed, or that there are warnings: which, and
// why, stands in the task's log alone.
var (
	silentEnd = regexp.MustCompile(`QEMU exited with code \d+|exit code \d+|WARNINGS: \d+`)
	// routine is what a log has beside reasons.
	routine = regexp.MustCompile(`^(?:TASK |UPID:|generating cloud-init ISO|transferred |Formatting '|.*: warning: )`)
)

const mostReasons = 2 // lines

// taskReason is what the log of the task that failed says beside its end, and where it stands: in what was said, or in
// a file of the evidence of a node. Nothing where the end itself tells enough.
func (f *failure) taskReason(files fs.FS) (reasons []string, file string) {
	said := f.text
	if !silentEnd.MatchString(said) {
		for _, e := range slices.Backward(f.output) {
			if silentEnd.MatchString(e.Message) {
				said = e.Message
				break
			}
		}
	}
	end := silentEnd.FindString(said)
	if end == "" {
		return nil, ""
	}
	// Where nodes have reasons of their own, what follows in the text is theirs.
	ofNode := func(r progress.Reason) bool { return r.Node != "" }
	if said != f.text || !slices.ContainsFunc(f.problem.Reasons, ofNode) {
		reasons = reasonsIn(saidAfter(said, end), end)
	}
	if len(reasons) > 0 || files == nil {
		return reasons, ""
	}
	for _, node := range f.nodesOf(files) {
		log := logOf(files, path.Join("nodes", node, "pve", "tasks.json"), end)
		if reasons = reasonsIn(log, end); len(reasons) > 0 {
			return reasons, path.Join("nodes", node, "pve", "tasks.txt")
		}
	}
	return nil, ""
}

// saidAfter are the lines of a task's log that follow its end in an error: indented, and perhaps after a title.
func saidAfter(text, end string) (lines []string) {
	_, rest, _ := strings.Cut(text, end)
	for i, line := range strings.Split(rest, "\n") {
		switch {
		case i == 0 || strings.HasSuffix(line, "task log:"):
		case strings.HasPrefix(line, "  "):
			lines = append(lines, line)
		default:
			return lines
		}
	}
	return lines
}

// logOf is the log of the newest task in a file of the evidence that ended so.
func logOf(files fs.FS, name, end string) []string {
	var tasks []struct { // the newest first
		Status string   `json:"status"`
		Log    []string `json:"log"`
	}
	raw, err := fs.ReadFile(files, name)
	if err != nil || json.Unmarshal(raw, &tasks) != nil { // what cannot be read explains nothing
		return nil
	}
	for _, t := range tasks {
		if strings.Contains(t.Status, end) {
			return t.Log
		}
	}
	return nil
}

// reasonsIn are the last lines of a log that tell why it came to that end.
func reasonsIn(log []string, end string) (reasons []string) {
	for _, line := range log {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(end, "WARNINGS") && !strings.HasPrefix(line, "WARN") {
			continue
		}
		if line != "" && !routine.MatchString(line) && !strings.Contains(line, end) {
			reasons = append(reasons, line)
		}
	}
	return last(reasons, mostReasons)
}

// ioError is a VM that Proxmox VE has paused because its disk cannot be written: it "runs", and nothing on it does.
var ioError = regexp.MustCompile(`(?m)^qmpstatus: io-error$`)

func (f *failure) pausedDisk(files fs.FS) (reasons []string, file string) {
	if files == nil {
		return nil, ""
	}
	for _, node := range f.nodesOf(files) {
		file = path.Join("nodes", node, "pve", "status.txt")
		if found := ioError.FindString(tail(files, file)); found != "" {
			return []string{node + " has " + found}, file
		}
	}
	return nil, ""
}
