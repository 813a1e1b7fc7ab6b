package cli

import (
	"os"
	"path/filepath"

	"hive-test/pkg/progress"
	"hive-test/pkg/scratch"
)

// ownTemporary gives this process a directory of its own for temporary files, in which those of tofu and its providers
// are, too. Where that cannot be, they are where everybody's are, and why is said.
func (a *app) ownTemporary(sink progress.Sink) {
	if a.locks != "" || a.noLocks != nil {
		return
	}
	base, err := scratch.Base(os.TempDir())
	if err != nil {
		a.noLocks = progress.WithHint(err, "remove it, or set TMPDIR to a directory of your own")
		sink.Emit(progress.Event{
			Kind: progress.Warning, Message: "temporary files are kept without protection: " + err.Error(),
			Hint: progress.HintOf(a.noLocks),
		})
		return
	}
	a.locks = filepath.Join(base, "locks")
	if a.Setenv == nil {
		return
	}
	dir, err := scratch.New(base)
	if err != nil {
		sink.Emit(progress.Event{
			Kind: progress.Debug, Message: "temporary files are not in a directory of their own: " + err.Error(),
		})
		return
	}
	a.scratch = dir
	if dir.HoldsSockets() {
		_ = a.Setenv("TMPDIR", dir.Path)
	}
}

// tofuEnviron is the environment that tofu's is made of.
func (a *app) tofuEnviron() []string {
	if a.scratch == nil || !a.scratch.HoldsSockets() {
		return a.Environ
	}
	return append(append([]string(nil), a.Environ...), "TMPDIR="+a.scratch.Path)
}
