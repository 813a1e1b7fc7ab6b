package packer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/process"
)

// grace is how long Packer may take to end once it is told to, before it is killed.
const grace = 20 * time.Second

// longestLine is what is read of a line of output at most, in bytes.
const longestLine = 256 << 10

// Build runs `packer build` of the files in dir, for a VM that is cloned. Env is what it gets beside this process's environment:
// secrets, which are in no argument and no file. Each line that it prints is handed to line as it comes. What it has made when it
// fails stays as it is. When ctx ends it gets a signal, and is waited for.
func (p Program) Build(ctx context.Context, dir string, env map[string]string, line func(string)) error {
	const only = "-only=proxmox-clone.layer"
	err := p.run(ctx, dir, env, line, "validate", only, ".")
	if err != nil && ctx.Err() == nil && p.Era() == Plugin { // the plugin may not be here yet
		if err := p.run(ctx, dir, env, line, "init", "."); err != nil {
			return err
		}
		err = p.run(ctx, dir, env, line, "validate", only, ".")
	}
	if err != nil {
		return err
	}
	return p.run(ctx, dir, env, line, "build", "-color=false", "-on-error=abort", only, ".")
}

// Versions returns what the build in dir has found on the VM.
func Versions(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "versions"))
	return string(text), err
}

// run runs packer to its end. Its last complaint is the error's text.
func (p Program) run(ctx context.Context, dir string, env map[string]string, line func(string), args ...string) error {
	temp, err := socketDir()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	cmd := exec.Command(p.Path, args...)
	cmd.Dir, cmd.Env = dir, append(environment(env), "TMPDIR="+temp)
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = read.Close() }()
	cmd.Stdout, cmd.Stderr = write, write
	guard, err := process.StartGuarded(cmd, grace)
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Path, err)
	}
	defer guard.Stop()
	var heard complaint
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines(read, func(text string) {
			heard.hear(text)
			line(text)
		})
	}()
	process.AwaitGroup(ctx, cmd, grace)
	_ = read.SetReadDeadline(time.Now().Add(time.Second)) // a plugin may hold the pipe for longer
	<-drained
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("packer %s: %w", args[0], context.Cause(ctx))
	case !cmd.ProcessState.Success():
		return fmt.Errorf("packer %s: %s%s", args[0], cmd.ProcessState, heard)
	}
	return nil
}

// longestSocketDir is how long the path of a directory may be in which Packer makes sockets: theirs may have 107 bytes (unix(7)), of which
// their own names take 26. With a longer one Packer 1.6 crashes.
const longestSocketDir = 80

// socketDir makes a directory for its sockets and temporary files.
func socketDir() (string, error) {
	dir, err := os.MkdirTemp("", "packer-")
	if err != nil || len(dir) <= longestSocketDir {
		return dir, err
	}
	_ = os.Remove(dir)
	return os.MkdirTemp("/tmp", "packer-")
}

// environment is this process's, without what would have Packer log to a file or ask for news, and what it gets.
func environment(env map[string]string) []string {
	list := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "PKR_VAR_") || slices.Contains([]string{
			"PACKER_LOG", "PACKER_LOG_PATH", "PROXMOX_URL", "PROXMOX_USERNAME", "PROXMOX_PASSWORD", "PROXMOX_TOKEN",
		}, name)
	})
	list = append(list, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// lines hands out what comes, line by line, without Packer's marks of progress that are empty.
func lines(from io.Reader, line func(string)) {
	reader := bufio.NewReaderSize(from, longestLine)
	for {
		text, err := reader.ReadSlice('\n')
		if shown := strings.TrimRight(string(text), "\r\n"); strings.TrimSpace(shown) != "" {
			line(shown)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// complaint is what Packer has complained of last.
type complaint struct{ texts []string }

var complaints = regexp.MustCompile(`^(?:--> \S+: |Error: |Failed |\t\* |panic: |.*\bpanic: |==> \S+: (Error|.* failed: it exited))`)

const mostComplaints = 3

func (c *complaint) hear(text string) {
	if complaints.MatchString(text) {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "==> proxmox-clone.layer: "), "--> proxmox-clone.layer: ")
		if !slices.Contains(c.texts, text) {
			c.texts = append(c.texts, text)
		}
	}
	c.texts = c.texts[max(0, len(c.texts)-mostComplaints):]
}

func (c complaint) String() string {
	if len(c.texts) == 0 {
		return ""
	}
	return ": " + strings.Join(c.texts, "; ")
}
