package template_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hive-test/pkg/template"
)

const (
	ownMakefile = ".PHONY: all\ninstall-system:\n\techo system >>$(OUT)\ninstall-go:\n\techo go >>$(OUT)\ninstall-aws:\n\techo aws >>$(OUT)\n"
	noTargets   = "install-system:\n\techo system >>$(OUT)\n"
)

func TestHasTargets(t *testing.T) {
	for makefile, want := range map[string]bool{
		ownMakefile: true, noTargets: false, "": false, strings.ReplaceAll(ownMakefile, "install-go:", "# install-go:"): false,
	} {
		if got := template.HasTargets(makefile); got != want {
			t.Errorf("%q: %v, want %v", makefile, got, want)
		}
	}
}

// The targets of hive's own Makefile are run in their order, of one that was uploaded and of a repository's, at the ref that is named;
// a Makefile without them does no harm.
func TestUpstreamTargetsAreRun(t *testing.T) {
	for _, program := range []string{"bash", "make", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("the targets are run as root: sudo may ask for a password")
	}
	text, err := template.Text(template.ScriptUpstream)
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(t.TempDir(), "repo")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", repo, "-c", "user.name=x", "-c", "user.email=x@x"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write(filepath.Join(repo, "Makefile"), noTargets)
	git("init", "-q")
	git("add", "Makefile")
	git("commit", "-qm", "old")
	git("tag", "old")
	write(filepath.Join(repo, "Makefile"), ownMakefile)
	git("commit", "-qam", "new")
	for name, test := range map[string]struct {
		makefile string
		env      []string
		want     string
	}{
		"uploaded":                 {ownMakefile, []string{"TEMPLATE_MAKEFILE=yes"}, "system\ngo\naws\n"},
		"uploaded without them":    {noTargets, []string{"TEMPLATE_MAKEFILE=yes"}, ""},
		"repository":               {"", []string{"HIVE_REPO=" + repo, "HIVE_REF="}, "system\ngo\naws\n"},
		"repository at an old ref": {"", []string{"HIVE_REPO=" + repo, "HIVE_REF=old"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			out := filepath.Join(home, "out")
			if test.makefile != "" {
				write(filepath.Join(home, ".hive-test-template/upstream/Makefile"), test.makefile)
			}
			command := exec.Command("bash", "-c", text)
			command.Env = append(os.Environ(), append([]string{"HOME=" + home, "OUT=" + out}, test.env...)...)
			if printed, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
			got, _ := os.ReadFile(out)
			if string(got) != test.want {
				t.Errorf("done: %q, want %q", got, test.want)
			}
			if left, _ := filepath.Glob(filepath.Join(home, ".hive-test-template/*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
