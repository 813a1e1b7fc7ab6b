package packer

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
)

// Limits of questions to the program, and of what is fetched.
const (
	askLimit   = 20 * time.Second
	fetchLimit = 10 * time.Minute
)

// Oldest is the first version whose files have the syntax that is written here.
const Oldest = "1.6.0"

// Program is a packer that is there.
type Program struct {
	Path    string
	Version string // 1.6.6
}

// Era is the syntax that it reads.
func (p Program) Era() Era {
	if v, err := version.NewVersion(p.Version); err == nil && v.LessThan(version.Must(version.NewVersion("1.7.0"))) {
		return Old
	}
	return Plugin
}

// FindOptions say where a program is looked for, in this order.
type FindOptions struct {
	Explicit string   // that the user named: nothing else is considered
	Env      []string // its PATH, as KEY=VALUE
	CacheDir string   // of what was fetched earlier, and is fetched now; empty: nothing is
}

// Find returns the program. Where there is none the error says what can be done.
func Find(ctx context.Context, o FindOptions) (Program, error) {
	if o.Explicit != "" {
		return ask(ctx, o.Explicit)
	}
	var why []string
	for _, path := range []string{onPath(o.Env), o.cached()} {
		if path == "" {
			continue
		}
		program, err := ask(ctx, path)
		if err == nil {
			return program, nil
		}
		why = append(why, err.Error())
	}
	if o.CacheDir == "" {
		return Program{}, fmt.Errorf("there is no Packer of %s or later on the PATH%s", Oldest, because(why))
	}
	path, err := fetch(ctx, o.CacheDir)
	if err != nil {
		return Program{}, fmt.Errorf("there is no Packer of %s or later on the PATH, and it could not be fetched%s",
			Oldest, because(append(why, err.Error())))
	}
	return ask(ctx, path)
}

func because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}

// onPath looks a program up; empty: there is none.
func onPath(env []string) string {
	for _, variable := range env {
		list, isPath := strings.CutPrefix(variable, "PATH=")
		if !isPath {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if path, err := exec.LookPath(filepath.Join(dir, "packer")); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
	}
	return ""
}

func (o FindOptions) cached() string {
	path := filepath.Join(o.CacheDir, "packer")
	if info, err := os.Stat(path); o.CacheDir != "" && err == nil && info.Mode().IsRegular() {
		return path
	}
	return ""
}

// versionLine is what `packer version` begins with.
var versionLine = regexp.MustCompile(`^Packer v(\d+\.\d+\.\d+)`)

// ask asks a program which it is: others are called packer, too, such as one of cracklib's.
func ask(ctx context.Context, path string) (Program, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	found := versionLine.FindSubmatch(out)
	if err != nil || found == nil {
		return Program{}, fmt.Errorf("%s is not HashiCorp's Packer: `packer version` says %q", path, firstLine(string(out), err))
	}
	program := Program{Path: path, Version: string(found[1])}
	v, err := version.NewVersion(program.Version)
	if err != nil || v.LessThan(version.Must(version.NewVersion(Oldest))) {
		return Program{}, fmt.Errorf("%s is Packer %s, and %s or later is needed", path, program.Version, Oldest)
	}
	return program, nil
}

func firstLine(text string, err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" && err != nil {
		return err.Error()
	}
	return line
}

// fetch installs the latest release, whose signature and checksum are verified.
func fetch(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	latest := releases.LatestVersion{Product: product.Packer, InstallDir: dir, Timeout: fetchLimit}
	latest.SetLogger(log.New(io.Discard, "", 0))
	return latest.Install(ctx)
}
