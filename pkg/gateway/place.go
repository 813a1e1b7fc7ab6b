package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hive-test/pkg/process"
)

const (
	infoSchema = 1
	lockPoll   = 20 * time.Millisecond
	// stopWait is how long a gateway may take to end before it is killed, and killWait how long to be gone then.
	stopWait = 15 * time.Second
	killWait = 5 * time.Second
)

// Info is a gateway that runs. It holds no secret.
type Info struct {
	Schema    int       `json:"schema"`
	PID       int       `json:"pid"`
	Endpoint  string    `json:"endpoint"`
	Region    string    `json:"region"`
	Account   string    `json:"account"`
	AccessKey string    `json:"access_key"`
	CAFile    string    `json:"ca_file,omitempty"` // that has signed its certificate; empty: it has none
	Version   string    `json:"version"`           // of the program
	Cluster   string    `json:"cluster,omitempty"` // that the gateway is in front of; empty: it stands alone
	Hive      *HiveInfo `json:"hive,omitempty"`    // of that cluster
	Started   time.Time `json:"started"`
}

// Place is the directory of a gateway: its resources, its log, its keys, and how it is reached while it runs. One
// gateway at a time runs in it.
type Place struct{ Dir string }

// LogFile is where a gateway in the background writes a line of JSON for each request.
func (p Place) LogFile() string { return filepath.Join(p.Dir, "gateway.log") }

func (p Place) infoFile() string { return filepath.Join(p.Dir, "gateway.json") }

// lock is held by the gateway that runs: what a killed one has left in its file is no sign of life.
func (p Place) lock() *flock.Flock { return flock.New(filepath.Join(p.Dir, "gateway.lock")) }

// Running returns the gateway that runs; nil: none does.
func (p Place) Running() (*Info, error) {
	if _, err := os.Stat(p.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	lock := p.lock()
	free, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("looking for a gateway that runs: %w", err)
	}
	if free {
		return nil, lock.Unlock()
	}
	data, err := os.ReadFile(p.infoFile())
	if err != nil {
		return nil, fmt.Errorf("a gateway runs in %s that cannot be read of: %w", p.Dir, err)
	}
	info := &Info{}
	if err := json.Unmarshal(data, info); err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.infoFile(), err)
	}
	return info, nil
}

// Start has a gateway run in the background, by the command that serves it, and waits until it answers. Where one runs
// already, that is returned.
func (p Place) Start(ctx context.Context, serve *exec.Cmd) (info *Info, started bool, err error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, false, err
	}
	starting := flock.New(filepath.Join(p.Dir, "start.lock"))
	if _, err := starting.TryLockContext(ctx, lockPoll); err != nil {
		return nil, false, fmt.Errorf("waiting for another start: %w", err)
	}
	defer func() { _ = starting.Unlock() }()
	if info, err := p.Running(); info != nil || err != nil {
		return info, false, err
	}
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = log.Close() }()
	if _, err := process.StartBackground(ctx, serve, log); err != nil {
		return nil, false, fmt.Errorf("the gateway did not start: %w", err)
	}
	info, err = p.Running()
	if err == nil && info == nil {
		err = fmt.Errorf("the gateway ended at once: %s says why", p.LogFile())
	}
	return info, true, err
}

// Stop ends the gateway that runs, and reports whether one did.
func (p Place) Stop(ctx context.Context) (bool, error) {
	info, err := p.Running()
	if info == nil || err != nil {
		return false, err
	}
	for _, end := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, stopWait}, {syscall.SIGKILL, killWait}} {
		if err := syscall.Kill(info.PID, end.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return false, fmt.Errorf("stopping the gateway (pid %d): %w", info.PID, err)
		}
		if p.gone(ctx, end.within) {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return false, fmt.Errorf("the gateway (pid %d) does not end", info.PID)
}

// gone waits until the lock of a gateway that runs is free.
func (p Place) gone(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	lock := p.lock()
	if free, err := lock.TryLockContext(ctx, lockPoll); !free || err != nil {
		return false
	}
	_ = lock.Unlock()
	return true
}

// Keys are what clients sign with; they stay the same for all gateways of a place.
type Keys struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

// Keys reads the keys of the place, or makes them.
func (p Place) Keys() (k Keys, err error) {
	file := filepath.Join(p.Dir, "keys.json")
	data, err := os.ReadFile(file)
	if err == nil {
		if err := json.Unmarshal(data, &k); err != nil {
			return k, fmt.Errorf("reading %s: %w", file, err)
		}
		return k, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	var random [40]byte
	_, _ = rand.Read(random[:]) // it never fails
	k.AccessKey = "AKIA" + base32.StdEncoding.EncodeToString(random[:10])
	k.SecretKey = base64.RawStdEncoding.EncodeToString(random[10:])
	return k, writeJSON(file, k)
}

// writeJSON writes a file that its owner alone can read, as a whole.
func writeJSON(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, append(data, '\n'), 0o600)
}
