package opentofu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

const defaultProbeTimeout = 10 * time.Second

// Both programs print this as their first line; tofu has no other way to tell it from terraform.
var versionLine = regexp.MustCompile(`(?m)^(OpenTofu|Terraform) v(\d+\.\d+\.\d+\S*)`)

// knownVersion is what a file was found to be. Size and ModTime tell whether it is still the same file.
type knownVersion struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	Flavor  string    `json:"flavor"`
	Version string    `json:"version"`
}

// versionCache remembers the version of each program, because asking costs a noticeable part of a verb's start.
type versionCache struct {
	file  string // empty: nothing is kept
	known map[string]knownVersion
}

func openVersionCache(dir string) *versionCache {
	c := &versionCache{known: map[string]knownVersion{}}
	if dir == "" {
		return c
	}
	c.file = filepath.Join(dir, "versions.json")
	raw, err := os.ReadFile(c.file)
	if err != nil || json.Unmarshal(raw, &c.known) != nil || c.known == nil {
		c.known = map[string]knownVersion{} // what cannot be read is found out again
	}
	return c
}

// probe returns what the program at path says it is.
func (c *versionCache) probe(ctx context.Context, path string, o FindOptions) (Binary, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Binary{}, err
	}
	if k, ok := c.known[path]; ok && k.Size == info.Size() && k.ModTime.Equal(info.ModTime()) {
		return Binary{Path: path, Flavor: k.Flavor, Version: k.Version}, nil
	}
	b, err := askVersion(ctx, path, o)
	if err != nil {
		return Binary{}, err
	}
	// A script stays the same file while the program that it starts changes.
	if !isScript(path) {
		c.remember(path, knownVersion{info.Size(), info.ModTime(), b.Flavor, b.Version})
	}
	return b, nil
}

// remember keeps an entry. Failing to is no error: it costs time only.
func (c *versionCache) remember(path string, k knownVersion) {
	c.known[path] = k
	if c.file == "" || os.MkdirAll(filepath.Dir(c.file), 0o755) != nil {
		return
	}
	if raw, err := json.MarshalIndent(c.known, "", "  "); err == nil {
		_ = renameio.WriteFile(c.file, raw, 0o644)
	}
}

func askVersion(ctx context.Context, path string, o FindOptions) (Binary, error) {
	timeout := cmp.Or(o.ProbeTimeout, defaultProbeTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Dir = "/" // no directory's version file or configuration shall matter
	cmd.Env = probeEnv(o.Env)
	cmd.WaitDelay = time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Binary{}, fmt.Errorf("said no version within %s", timeout)
	}
	if err != nil {
		return Binary{}, fmt.Errorf("cannot be run: %w%s", err, firstLine(complaint.String()))
	}
	match := versionLine.FindStringSubmatch(out.String())
	if match == nil {
		return Binary{}, fmt.Errorf("is neither OpenTofu nor Terraform%s", firstLine(out.String()))
	}
	return Binary{Path: path, Flavor: match[1], Version: match[2]}, nil
}

// probeEnv keeps what a program, or a version manager in its place, needs to start.
func probeEnv(env []string) []string {
	kept := []string{"CHECKPOINT_DISABLE=1"}
	for _, entry := range env {
		begins := func(prefix string) bool { return strings.HasPrefix(entry, prefix) }
		if slices.ContainsFunc(probeVariables, begins) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// probeVariables are how the entries begin that a program is asked for its version with: what any needs, and those of
// the programs that put a switch in the place of tofu.
var probeVariables = []string{"PATH=", "HOME=", "TMPDIR=", "TENV_", "TFENV_", "TOFUENV_", "ASDF_", "MISE_"}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 2)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == "#!"
}

// firstLine returns the first line of text as a suffix of a message, shortened, or nothing.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > 120 {
		line = line[:120] + "…"
	}
	if line == "" {
		return ""
	}
	return ": " + line
}
