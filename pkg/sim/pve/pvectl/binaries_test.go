package pvectl

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHiveIsTheSmallProgramWhereOneWasBuilt(t *testing.T) {
	built, dir := t.TempDir(), t.TempDir()
	self := filepath.Join(built, "hive-sim")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install := func(self string) binaries {
		t.Helper()
		b, err := (&options{dir: dir}).installBinaries(self)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	hive := func(b binaries) string {
		t.Helper()
		content, err := os.ReadFile(b.hive)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	write(self, "all parts")
	alone := install(self)
	if hive(alone) != "all parts" || install(alone.self) != alone {
		t.Errorf("alone: hive is %q", hive(alone))
	}
	write(filepath.Join(built, hivePart), "small")
	with := install(self)
	if hive(with) != "small" || install(with.self) != with {
		t.Errorf("with a small program beside it: hive is %q, from %+v and %+v", hive(with), with, install(with.self))
	}
	write(filepath.Join(built, hivePart), "newer")
	if newer := install(self); hive(newer) != "newer" || hive(with) != "small" {
		t.Errorf("after another build: hive is %q, and what was there before is %q", hive(newer), hive(with))
	}
}
