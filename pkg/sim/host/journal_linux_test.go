package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJournal(t *testing.T) {
	root := t.TempDir()
	t.Setenv(rootVariable, root)
	t.Setenv("SIM_HOST_NAME", "ci-1-1")
	log := filepath.Join(root, "var/log/cloud-init-output.log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args, want string
		entries    int
		status     int
	}{
		{"--no-pager -b -n 2", "ci-1-1 cloud-init[1]: three", 2, 0},
		{"-u cloud-*", "cloud-init[1]: one", 3, 0},
		{"-u hive*", "-- No entries --", 1, 0},
		{"-k", "-- No entries --", 1, 0},
		{"--list-boots", " 0 ", 1, 0},
		{"-b -1", "no persistent journal was found", 1, 1},
		{"-n many", "Failed to parse lines 'many'", 1, 1},
		{"--vacuum-size=1M", "unrecognized option", 1, 1},
	} {
		var out bytes.Buffer
		status := runJournal(strings.Fields(tc.args), &out, &out)
		if status != tc.status || !strings.Contains(out.String(), tc.want) ||
			strings.Count(out.String(), "\n") != tc.entries {
			t.Errorf("journalctl %s: status %d, %q", tc.args, status, out.String())
		}
	}
}
