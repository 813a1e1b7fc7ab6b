package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/secret/sops"
)

const (
	// commandLimit is how long a program may take that is to print a secret.
	commandLimit = 30 * time.Second
	// commandGrace is how long it has to end when it is told to.
	commandGrace = 2 * time.Second
	// mostComplaint is how much of what it says on stderr is shown, in bytes.
	mostComplaint = 500
)

// run returns what a program prints, which runs in a process group of its own. Nothing that it prints is in the error
// but what it says on stderr, without what it printed.
func (r *Resolver) run(ctx context.Context, dir string, argv []string) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, r.Limit, fmt.Errorf("it took longer than %s", progress.FormatLimit(r.Limit)))
	defer cancel()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, r.Environ
	out, complaint := &limitedBuffer{most: mostBytes}, &limitedBuffer{most: mostBytes}
	outputs, drained, err := pipes(cmd, out, complaint)
	if err != nil {
		return nil, err
	}
	guard, err := process.StartGuarded(cmd, commandGrace)
	outputs.closeWriters()
	if err != nil {
		outputs.closeReaders()
		drained()
		return nil, progress.WithHint(fmt.Errorf("it cannot be started: %w", startError(err)), "install "+argv[0]+", or name it by its path")
	}
	process.AwaitGroup(limited, cmd, commandGrace)
	guard.Stop()
	outputs.deadline(time.Now().Add(time.Second)) // one that left the group may hold them for longer
	drained()
	outputs.closeReaders()
	switch {
	case limited.Err() != nil:
		return nil, context.Cause(limited)
	case !cmd.ProcessState.Success():
		return nil, fmt.Errorf("%s%s", cmd.ProcessState, said(complaint.String(), out.String()))
	case out.cut:
		return nil, fmt.Errorf("it printed more than %d MiB", mostBytes>>20)
	}
	return out.Bytes(), nil
}

// startError is why a program cannot be started, without its name, which is told already.
func startError(err error) error {
	if known, ok := errors.AsType[*exec.Error](err); ok {
		return known.Err
	}
	return err
}

// said is what a program complained of, at its end, without any line that it printed.
func said(complaint, printed string) string {
	complaint = strings.TrimSpace(progress.Clean(progress.NewMasker(append(strings.Split(printed, "\n"), printed)).Mask(complaint)))
	if len(complaint) > mostComplaint {
		complaint = "…" + strings.ToValidUTF8(complaint[len(complaint)-mostComplaint:], "")
	}
	if complaint == "" {
		return ""
	}
	return ": " + complaint
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	most int
	cut  bool
}

// Write takes everything.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); room < len(p) {
		b.cut = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// outputs are the pipes of a program.
type outputs struct{ readers, writers []*os.File }

func (o outputs) closeWriters() { closeAll(o.writers) }
func (o outputs) closeReaders() { closeAll(o.readers) }

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

func (o outputs) deadline(at time.Time) {
	for _, file := range o.readers {
		_ = file.SetReadDeadline(at)
	}
}

// pipes has what a program prints copied; drained waits for that.
func pipes(cmd *exec.Cmd, out, complaint io.Writer) (o outputs, drained func(), err error) {
	done := make(chan struct{}, 2)
	for _, to := range []io.Writer{out, complaint} {
		read, write, err := os.Pipe()
		if err != nil {
			o.closeReaders()
			o.closeWriters()
			return o, nil, err
		}
		o.readers, o.writers = append(o.readers, read), append(o.writers, write)
		go func() {
			_, _ = io.Copy(to, read) // until the deadline at the latest
			done <- struct{}{}
		}()
	}
	cmd.Stdout, cmd.Stderr = o.writers[0], o.writers[1]
	return o, func() {
		<-done
		<-done
	}, nil
}

// sopsHint says how the program sops is got.
const sopsHint = "install the program sops (https://getsops.io), or encrypt the file for an age key of yours"

// bySOPS asks the program sops for a value of a file that was not opened here because of why.
func (r *Resolver) bySOPS(ctx context.Context, file string, path []string, why error) (string, error) {
	missing, noKey := errors.AsType[*sops.KeyError](why)
	_, unsupported := errors.AsType[*sops.UnsupportedError](why)
	if !unsupported && !noKey {
		return "", why
	}
	program, err := r.lookPath("sops")
	if err != nil && noKey && len(missing.Others) == 0 {
		return "", progress.WithHint(why, r.identities().Hint())
	}
	if err != nil {
		return "", progress.WithHint(why, sopsHint)
	}
	argv := []string{program, "-d", file}
	if path != nil {
		argv = []string{program, "-d", "--extract", extract(path), file}
	}
	out, err := r.run(ctx, "", argv)
	if err != nil && noKey && len(missing.Others) == 0 && ctx.Err() == nil { // it has found no more keys than were found here
		return "", progress.WithHint(why, r.identities().Hint())
	}
	if err != nil {
		return "", fmt.Errorf("%w; the program sops: %w", why, err)
	}
	return trimmed(out), nil
}

// lookPath finds a program on the PATH that programs get.
func (r *Resolver) lookPath(name string) (string, error) {
	if r.Environ == nil {
		return exec.LookPath(name)
	}
	for _, dir := range strings.Split(r.Getenv("PATH"), string(os.PathListSeparator)) {
		if dir == "" {
			continue
		}
		if found, err := exec.LookPath(dir + "/" + name); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// extract is a path as the program sops takes it: keys are quoted, and numbers of items are not.
func extract(path []string) string {
	var text strings.Builder
	for _, key := range path {
		if strings.Trim(key, "0123456789") == "" {
			text.WriteString("[" + key + "]")
			continue
		}
		text.WriteString(`["` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"]`)
	}
	return text.String()
}
