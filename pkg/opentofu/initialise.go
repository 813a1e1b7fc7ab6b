package opentofu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"
)

// initStamp is what an initialised working directory depends on. An equal stamp, and a provider that is still in place,
// mean that there is nothing to initialise.
type initStamp struct {
	Module  string `json:"module"`
	Binary  string `json:"binary"`
	Flavor  string `json:"flavor"`
	Version string `json:"version"`
	Mirror  string `json:"mirror,omitempty"`
	// Provider identifies the provider's files in the mirror.
	Provider string `json:"provider,omitempty"`
	// Backend is a hash of the backend's settings.
	Backend string `json:"backend,omitempty"`
}

// MirrorError says that a provider mirror does not hold the provider. A retry is of no use.
type MirrorError struct {
	Mirror, Missing string
	Provider        Provider
}

func (e *MirrorError) Error() string {
	return fmt.Sprintf("the provider mirror %s holds no %s", e.Mirror, e.Missing)
}

func (e *MirrorError) Hint() string {
	return fmt.Sprintf("fill it with `tofu providers mirror`, name another (--provider-mirror), or fetch %s %s from the "+
		"registry (--provider registry)", e.Provider.Source, e.Provider.Version)
}

// CheckMirror returns a *MirrorError if the mirror does not hold the provider for programs of this flavor.
func (p Provider) CheckMirror(mirror, flavor string) error {
	_, err := p.identity(mirror, flavor)
	return err
}

// registryHost is what a provider's short source stands for.
func registryHost(flavor string) string {
	if flavor == Terraform {
		return "registry.terraform.io"
	}
	return "registry.opentofu.org"
}

func (r *Runner) stamp(b Binary) (initStamp, error) {
	s := initStamp{Binary: b.Path, Flavor: b.Flavor, Version: b.Version}
	sources, err := moduleFiles(r.options.Module)
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(sources[name]), sources[name])
	}
	s.Module = hex.EncodeToString(sum.Sum(nil))[:16]
	if block, err := r.options.Backend.block(); err != nil {
		return s, err
	} else if block != nil {
		digest := sha256.Sum256(block)
		s.Backend = hex.EncodeToString(digest[:8])
	}
	if r.options.ProviderMirror == "" || r.options.Provider == (Provider{}) {
		return s, nil
	}
	if s.Mirror, err = filepath.Abs(r.options.ProviderMirror); err != nil {
		return s, err
	}
	s.Provider, err = r.options.Provider.identity(s.Mirror, b.Flavor)
	return s, err
}

// identity changes whenever the provider in the mirror is replaced.
func (p Provider) identity(mirror, flavor string) (string, error) {
	root := filepath.Join(mirror, registryHost(flavor), filepath.FromSlash(p.Source))
	sum := sha256.New()
	found := false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path) // a provider may be a link
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			found = true
			fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && !found {
		return "", &MirrorError{Mirror: mirror, Missing: registryHost(flavor) + "/" + p.Source, Provider: p}
	}
	if err != nil {
		return "", fmt.Errorf("read the provider mirror: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// initialised reports whether w was initialised for s and nothing that it needs is gone since.
func (w workdir) initialised(s initStamp, p Provider) bool {
	raw, err := os.ReadFile(w.stamp())
	var old initStamp
	if err != nil || json.Unmarshal(raw, &old) != nil || old != s {
		return false
	}
	if p == (Provider{}) {
		return true
	}
	if _, err := os.Stat(w.lockFile()); err != nil {
		return false
	}
	provider := filepath.Join(w.dir(), ".terraform", "providers", registryHost(s.Flavor), filepath.FromSlash(p.Source),
		p.Version, runtime.GOOS+"_"+runtime.GOARCH)
	entries, err := os.ReadDir(provider + string(filepath.Separator)) // follows the link into the cache or mirror
	return err == nil && len(entries) > 0
}

// initialise runs `init` unless the working directory is initialised already.
func (r *Run) initialise(ctx context.Context) error {
	s, err := r.runner.stamp(r.binary)
	if err != nil {
		return err
	}
	if r.dir.initialised(s, r.runner.options.Provider) {
		return nil
	}
	unlock, err := r.runner.lockCache(ctx, r.binary)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.seedLockFile(s); err != nil {
		return err
	}
	// A stamp must not outlive an init that fails half-way.
	if err := removed(r.dir.stamp()); err != nil {
		return err
	}
	err = r.step(ctx, "init", func(out *stream) error {
		plain := out.plain()
		defer plain.flush()
		r.tofu.SetStdout(plain)
		options := []tfexec.InitOption{tfexec.Reconfigure(true)}
		if !r.runner.options.Backend.Remote() {
			options = append(options, tfexec.BackendConfig("path="+relativeState))
		}
		return r.tofu.Init(ctx, options...)
	})
	if err != nil {
		return err
	}
	if err := r.keepLockFile(s); err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replace(r.dir.stamp(), raw)
}

// lockCache serialises the use of a shared provider cache on this machine: two inits that fill it at once spoil it.
func (r *Runner) lockCache(ctx context.Context, b Binary) (unlock func(), err error) {
	cache := r.pluginCache(b)
	if cache == "" || r.options.Provider == (Provider{}) { // without a provider nothing is put there
		return func() {}, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("make the provider cache: %w", err)
	}
	lock := flock.New(filepath.Join(cache, ".init.lock"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return nil, fmt.Errorf("wait for another init to end: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// keptLockFile is the lock file of the first init that filled the cache. Every later directory uses it, so that all of
// them run the very same provider. Empty: there is none.
func (r *Run) keptLockFile() string {
	cache, provider := r.runner.pluginCache(r.binary), r.runner.options.Provider
	if cache == "" || provider == (Provider{}) {
		return ""
	}
	return filepath.Join(cache, strings.ToLower(r.binary.Flavor)+"-"+provider.Version+".lock.hcl")
}

// seedLockFile prepares the dependency lock file for an init.
func (r *Run) seedLockFile(s initStamp) error {
	if s.Mirror != "" {
		// A mirror is its owner's word on what the provider is; it may have been filled anew since.
		return removed(r.dir.lockFile())
	}
	if _, err := os.Stat(r.dir.lockFile()); err == nil {
		return nil
	}
	kept := r.keptLockFile()
	if kept == "" {
		return nil
	}
	raw, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the provider's lock file: %w", err)
	}
	return replace(r.dir.lockFile(), raw)
}

// removed removes a file, where it is there.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r *Run) keepLockFile(s initStamp) error {
	kept := r.keptLockFile()
	if s.Mirror != "" || kept == "" {
		return nil
	}
	if _, err := os.Stat(kept); err == nil {
		return nil
	}
	raw, err := os.ReadFile(r.dir.lockFile())
	if err != nil {
		return fmt.Errorf("read the lock file that init wrote: %w", err)
	}
	if err := renameio.WriteFile(kept, raw, 0o644); err != nil {
		return fmt.Errorf("keep the provider's lock file: %w", err)
	}
	return nil
}
