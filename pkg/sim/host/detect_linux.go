package host

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Detect chooses a kind of host, by name or "auto" (netns where it works, else process), and says why. A kind that is
// asked for by name is tried and is an error if it cannot work; it is never replaced. Trying netns means to make one
// machine in the directory for temporary files and to remove it, which takes about 0.1 s; the running executable must
// answer to [IsGuest] with [Main].
func Detect(ctx context.Context, want string) (Kind, string, error) {
	return DetectIn(ctx, want, os.TempDir())
}

// DetectIn is Detect with the directory, which must exist, on whose file system the machines' disks will be.
func DetectIn(ctx context.Context, want, dir string) (Kind, string, error) {
	switch want {
	case "auto", "":
		err := try(ctx, KindNetns, dir)
		if err == nil {
			return KindNetns, "network namespaces and an overlay over / work here", nil
		}
		if ctx.Err() != nil {
			return "", "", fmt.Errorf("choose a kind of host: %w", ctx.Err())
		}
		reason := fmt.Sprintf("no namespaces (%v), so plain processes without isolation", err)
		if err := try(ctx, KindProcess, dir); err != nil {
			return "", "", fmt.Errorf("no kind of host works here: %s: %w", reason, err)
		}
		return KindProcess, reason, nil
	case string(KindNetns), string(KindProcess):
		if err := try(ctx, Kind(want), dir); err != nil {
			return "", "", fmt.Errorf("hosts of kind %s do not work here: %w", want, err)
		}
		if want == string(KindProcess) {
			return KindProcess, "asked for; plain processes, no isolation", nil
		}
		return KindNetns, "asked for", nil
	}
	return "", "", fmt.Errorf("unknown kind of host %q: use auto, %s or %s", want, KindNetns, KindProcess)
}

// try makes a machine and removes it.
func try(ctx context.Context, kind Kind, parent string) (err error) {
	if kind == KindNetns && os.Geteuid() != 0 {
		return errors.New("netns needs root")
	}
	dir, err := os.MkdirTemp(parent, "hive-sim-probe-")
	if err != nil {
		return fmt.Errorf("make a directory for the trial: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := NewManager(ctx, Options{Kind: kind, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return m.Start(ctx, Spec{ID: "probe", CloudInit: CloudInit{Hostname: "probe"}, NICs: []NIC{
		{MAC: "02:00:00:00:00:01", Bridge: managementBridge}, {MAC: "02:00:00:00:00:02", Bridge: dataBridge},
	}})
}
