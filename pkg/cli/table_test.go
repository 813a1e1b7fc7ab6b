package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// A table tells everything on a pipe. On a terminal it shortens columns, then drops them in the order that is stated.
func TestTableFitsThePage(t *testing.T) {
	columns := []column{
		{name: "ID", right: true},
		{name: "NAME", least: 6},
		{name: "WHERE", drop: 2},
		{name: "WHEN", drop: 1},
		{name: "WHY", least: 10},
	}
	rows := [][]string{
		{"7", "short", "pve1", "yesterday", "it was made by a run that died"},
		{"4711", "much-longer", "pve2", "now", "世界世界\n世界"},
	}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, `  ID  NAME         WHERE  WHEN       WHY
   7  short        pve1   yesterday  it was made by a run that died
4711  much-longer  pve2   now        世界世界 世界
`},
		{60, `  ID  NAME         WHERE  WHEN       WHY
   7  short        pve1   yesterday  it was made by a run t…
4711  much-longer  pve2   now        世界世界 世界
`},
		{40, `  ID  NAME         WHERE  WHY
   7  short        pve1   it was made b…
4711  much-longer  pve2   世界世界 世界
`},
		{26, `  ID  NAME      WHY
   7  short     it was ma…
4711  much-lo…  世界世界 …
`},
		{20, `  ID  NAME    WHY
   7  short   it wa…
4711  much-…  世界…
`},
	} {
		var out bytes.Buffer
		if err := (page{Writer: &out, width: tt.width}).table(columns, rows); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", tt.width, diff)
		}
	}
}

// No table of the program is wider than the terminal, however narrow that is.
func TestTablesFitEveryTerminal(t *testing.T) {
	long := "a-cluster-with-a-name-of-forty-characters-1"
	for name, columns := range map[string][]column{
		"status": statusColumns(), "list": listColumns(), "reap": reapColumns(false), "dry run": readingColumns(),
	} {
		row := make([]string, len(columns))
		for i, c := range columns {
			if row[i] = long; c.least == 0 {
				row[i] = "0123456789"
			}
		}
		for width := 10; width <= 200; width++ {
			var out bytes.Buffer
			if err := (page{Writer: &out, width: width}).table(columns, [][]string{row}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if got := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
					t.Errorf("%s at %d: %d cells: %s", name, width, got, line)
				}
			}
		}
	}
}

func TestDoctorForPeople(t *testing.T) {
	document := doctorJSON{Checks: []deploy.Finding{
		{ID: "tofu", Title: "OpenTofu or Terraform is there", Status: deploy.Pass, Detail: "OpenTofu 1.11.1"},
		{
			ID: "pve-snippets", Title: "snippet storages take snippets", Status: deploy.Fail,
			Detail: "local of pve1 is not configured for content snippets", Fix: "pvesm set local --content iso,snippets",
		},
		{ID: "clock", Title: "clocks agree", Status: deploy.Warn, Detail: "not checked", Unmade: true},
		{ID: "pve-pool", Title: "resource pool exists", Status: deploy.Skip, Detail: "no pool is set"},
	}}
	want := `This machine
  ✓ OpenTofu or Terraform is there: OpenTofu 1.11.1
Proxmox VE API
  ! clocks agree (clock): not checked
  - resource pool exists: no pool is set
Images and storages
  ✗ snippet storages take snippets (pve-snippets):
    local of pve1 is not configured for content
    snippets
    fix: pvesm set local --content iso,snippets
✗ 1 of 4 checks failed (1 passed, 1 failed, 1 warning,
  1 skipped)
`
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		if err := document.print(page{Writer: &out, width: 54, color: color}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\x1b["+string(progress.Red)+"m✗"); got != color {
			t.Errorf("color %v:\n%q", color, out.String())
		}
		if diff := cmp.Diff(want, progress.Clean(out.String())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestFoldNames(t *testing.T) {
	for _, tt := range []struct{ names, want string }{
		{"dev-1", "dev-1"},
		{"dev-1 dev-2 dev-3 dev-5", "dev-[1-3,5]"},
		{"dev-3 dev-1", "dev-[1,3]"},
		{"a-1 b-1 b-2", "a-1,b-[1-2]"},
		{"db dev-1 dev-2", "db,dev-[1-2]"},
		{"dev-01 dev-02", "dev-01,dev-02"},
	} {
		if got := foldNames(strings.Fields(tt.names)); got != tt.want {
			t.Errorf("foldNames(%s) = %s, want %s", tt.names, got, tt.want)
		}
	}
}

func TestExecGroupsWhatIsAlike(t *testing.T) {
	document := execJSON{Nodes: []engine.NodeResult{
		{Name: "dev-1", Stdout: "a\nb\n", Seconds: 1},
		{Name: "dev-2", Stdout: "c\n", ExitCode: 3},
		{Name: "dev-3", Stdout: "a\nb\n", Seconds: 2},
		{Name: "dev-4", Stdout: "a\nb\n", Stderr: "oh\n"},
	}}
	for _, tt := range []struct {
		form           execForm
		stdout, stderr string
	}{
		{execForm{group: true}, "dev-[1,3]: a\ndev-[1,3]: b\ndev-2: c\ndev-4: a\ndev-4: b\n", "dev-2: exit code 3\ndev-4: oh\n"},
		{
			execForm{},
			"dev-1: a\ndev-1: b\ndev-2: c\ndev-3: a\ndev-3: b\ndev-4: a\ndev-4: b\n",
			"dev-2: exit code 3\ndev-4: oh\n",
		},
	} {
		var stdout, stderr bytes.Buffer
		a := &app{Environment: Environment{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}}
		if err := a.printExec(document, tt.form); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != tt.stdout || stderr.String() != tt.stderr {
			t.Errorf("%+v:\n%s%s", tt.form, stdout.String(), stderr.String())
		}
	}
}

// A check counts once, however many things it has found; what was told is not told again; and it is said where others
// were not run.
func TestDoctorTellsThingsOnce(t *testing.T) {
	role := "pveum role modify HiveTest --privs '" + strings.Repeat("VM.Allocate,", 20) + "' || pveum role add HiveTest"
	document := doctorJSON{Checks: []deploy.Finding{
		{ID: "pve-privileges", Status: deploy.Fail, Title: "a", Fix: role + "; pveum acl modify /vms"},
		{ID: "pve-privileges", Status: deploy.Warn, Title: "b", Fix: role + "; pveum acl modify /pool"},
		{ID: "pve-privileges", Status: deploy.Fail, Title: "c", Fix: role + "; pveum acl modify /vms"},
		{ID: "clock", Status: deploy.Pass, Title: "d"},
		{ID: deploy.NotRun, Status: deploy.Skip, Title: "further checks", Detail: "not run"},
	}}
	want := `Proxmox VE API
  ✗ a (pve-privileges)
    fix: ` + role + `; pveum acl modify /vms
  ! b (pve-privileges)
    fix: as above; pveum acl modify /pool
  ✗ c (pve-privileges)
    fix: as above
  ✓ d
  - further checks: not run
✗ 1 of 2 checks failed, and the others were not run (1 passed, 1 failed, 0 warnings, 0 skipped)
`
	var out bytes.Buffer
	if err := document.print(page{Writer: &out}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
