package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
)

const (
	// onDriftLimit is how long the program of on_drift may take.
	onDriftLimit = time.Minute
	// onDriftGrace is how long it has to end when it is told to.
	onDriftGrace = 2 * time.Second
	// mostOfComplaint is how much of what it says is shown, in bytes from the end.
	mostOfComplaint = 500
)

// onDriftVariables are those that the program of on_drift gets of the environment: no secret is among them.
func onDriftVariables() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
}

// OnDrift runs the program of the setting on_drift, if there is one, with a document as JSON on its stdin. It waits for it.
// That it fails is a warning.
func (e *Engine) OnDrift(ctx context.Context, settings config.Settings, document any) {
	if len(settings.OnDrift) == 0 {
		return
	}
	if err := e.runOnDrift(ctx, settings.OnDrift, document); err != nil {
		e.Events.Emit(progress.Event{
			Kind: progress.Warning, Time: time.Now().UTC(),
			Message: e.Secrets.Mask(fmt.Sprintf("on_drift: %s: %v", settings.OnDrift[0], err)),
		})
	}
}

func (e *Engine) runOnDrift(ctx context.Context, argv []string, document any) error {
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, onDriftLimit, fmt.Errorf("it took longer than %s", progress.FormatLimit(onDriftLimit)))
	defer cancel()
	said := new(lastBytes)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(raw, '\n')), said, said
	cmd.WaitDelay = time.Second // what it has left behind may hold its output
	cmd.Env = slices.DeleteFunc(slices.Clone(e.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(onDriftVariables(), name)
	})
	guard, err := process.StartGuarded(cmd, onDriftGrace)
	if err != nil {
		return fmt.Errorf("it cannot be started: %w", err)
	}
	process.AwaitGroup(ctx, cmd, onDriftGrace)
	guard.Stop()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !cmd.ProcessState.Success():
		return fmt.Errorf("%s%s", cmd.ProcessState, complaint(said.kept))
	}
	return nil
}

// complaint is what a program has said last, after a colon; empty where it has said nothing.
func complaint(said []byte) string {
	text := strings.TrimSpace(progress.Clean(string(said)))
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text, "")
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ kept []byte }

// Write takes everything.
func (b *lastBytes) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	b.kept = slices.Clone(b.kept[max(0, len(b.kept)-mostOfComplaint):])
	return len(p), nil
}
