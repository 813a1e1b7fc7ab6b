package opentofu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"hive-test/pkg/progress"
)

// Flavors of the program that applies a module.
const (
	OpenTofu  = "OpenTofu"
	Terraform = "Terraform"
)

// The oldest releases that are used.
const (
	MinOpenTofu  = "1.8.0"
	MinTerraform = "1.6.0"
)

// Sources say where a Binary was found, in the order in which they are tried.
const (
	SourceExplicit   = "--tofu-bin"
	SourceTofu       = "tofu on PATH"
	SourceTerraform  = "terraform on PATH"
	SourceDownloaded = "downloaded earlier"
	SourceBuilt      = "built by make tofu"
	SourceDownload   = "download"
)

// Binary is the program that applies a module.
type Binary struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	// Flavor is OpenTofu or Terraform, by the program's own word.
	Flavor string `json:"flavor"`
	Source string `json:"source"`
	// Tried lists every place looked at up to and including the one chosen, in order.
	Tried []Attempt `json:"tried"`
}

// Attempt is one place that was looked at, and why it was or was not chosen.
type Attempt struct {
	Source string `json:"source"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// FindOptions say where to look. The zero value looks nowhere.
type FindOptions struct {
	// Explicit is the program that the user named. If set, nothing else is considered.
	Explicit string
	// Env is the caller's environment as KEY=VALUE. PATH is searched; HOME and the variables of version managers are
	// passed on to the programs that are asked for their version.
	Env []string
	// CacheDir holds what was downloaded earlier (in bin/), what `make tofu` has built (tofu/VERSION/tofu), and what is
	// known of versions. Empty means none of them.
	CacheDir string
	// Beside is the directory of the running program, where a checkout may have a tofu of its own.
	Beside string
	// Downloaders are tried in order when nothing else is there; nil means none. See DefaultDownloaders.
	Downloaders []Downloader
	// ProbeTimeout bounds the question for a version; 0 means 10 s.
	ProbeTimeout time.Duration
	// Sink hears of downloads; nil means nobody.
	Sink progress.Sink
}

// NotFoundError says that no usable program was found. Retrying is of no use until one of its remedies is applied.
type NotFoundError struct {
	Tried []Attempt
}

// Error lists every place that was looked at with the reason why it did not do.
func (e *NotFoundError) Error() string {
	var parts []string
	for _, a := range e.Tried {
		parts = append(parts, a.String())
	}
	return fmt.Sprintf("no OpenTofu (%s or newer) or Terraform (%s or newer) found: %s",
		MinOpenTofu, MinTerraform, strings.Join(parts, "; "))
}

// DownloadError returns why nothing could be downloaded.
func (e *NotFoundError) DownloadError() error {
	var reasons []string
	for _, a := range e.Tried {
		if a.Source == SourceDownload {
			reasons = append(reasons, a.Reason)
		}
	}
	return progress.WithHint(fmt.Errorf("download failed: %s", strings.Join(reasons, "; ")), e.Hint())
}

// Hint returns the remedies.
func (e *NotFoundError) Hint() string {
	return "install OpenTofu or Terraform, name one with --tofu-bin, " +
		"or run `make tofu` where only the Go module proxy can be reached"
}

func (a Attempt) String() string {
	if a.Path == "" {
		return a.Source + ": " + a.Reason
	}
	return fmt.Sprintf("%s: %s: %s", a.Source, a.Path, a.Reason)
}

// Find returns the program to use: the named one, tofu on PATH, terraform on PATH, one downloaded or built earlier, or
// one downloaded now. A program that is broken, too old or silent is passed over with its reason, except the named one.
// The error is a *NotFoundError, or that of ctx.
func Find(ctx context.Context, o FindOptions) (Binary, error) {
	f := finder{options: o, versions: openVersionCache(o.CacheDir)}
	for _, c := range f.candidates() {
		if ctx.Err() != nil {
			return Binary{}, fmt.Errorf("look for tofu: %w", ctx.Err())
		}
		if b, ok := f.try(ctx, c); ok {
			return b, nil
		}
	}
	if o.Explicit != "" {
		return Binary{}, &NotFoundError{Tried: f.tried}
	}
	return f.download(ctx)
}

type candidate struct{ source, path string }

type finder struct {
	options  FindOptions
	versions *versionCache
	tried    []Attempt
}

func (f *finder) candidates() []candidate {
	o := f.options
	if o.Explicit != "" {
		return []candidate{{SourceExplicit, o.Explicit}}
	}
	list := slices.Concat(f.onPath(SourceTofu, "tofu"), f.onPath(SourceTerraform, "terraform"))
	if o.CacheDir != "" {
		for _, name := range []string{"tofu", "terraform"} {
			list = append(list, candidate{SourceDownloaded, filepath.Join(o.CacheDir, "bin", name)})
		}
	}
	if o.Beside != "" {
		list = append(list, candidate{SourceBuilt, filepath.Join(o.Beside, "tofu")})
	}
	return append(list, o.built()...)
}

// built returns what `make tofu` has built for any checkout of this user, the newest version first.
func (o FindOptions) built() []candidate {
	if o.CacheDir == "" {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(o.CacheDir, "tofu", "v*", "tofu")) // the pattern is right
	versionOf := func(path string) *version.Version {
		v, err := version.NewVersion(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return version.Must(version.NewVersion("0"))
		}
		return v
	}
	slices.SortFunc(paths, func(a, b string) int { return versionOf(b).Compare(versionOf(a)) })
	var list []candidate
	for _, path := range paths {
		list = append(list, candidate{SourceBuilt, path})
	}
	return list
}

// onPath returns every executable of that name on PATH, not only the first: a broken one may hide a good one.
func (f *finder) onPath(source, name string) []candidate {
	var list []candidate
	for _, dir := range filepath.SplitList(Lookup(f.options.Env, "PATH")) {
		if !filepath.IsAbs(dir) { // as os/exec does: a program in the current directory is never meant
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			list = append(list, candidate{source, path})
		}
	}
	if len(list) == 0 {
		list = append(list, candidate{source, ""})
	}
	return list
}

func (f *finder) try(ctx context.Context, c candidate) (Binary, bool) {
	info, err := os.Stat(c.path)
	var reason string
	switch {
	case c.path == "" || errors.Is(err, os.ErrNotExist):
		reason = "not there"
	case err != nil:
		reason = err.Error()
	case info.IsDir():
		reason = "is a directory"
	default:
		return f.examine(ctx, c)
	}
	f.tried = append(f.tried, Attempt{Source: c.source, Path: c.path, Reason: reason})
	return Binary{}, false
}

func (f *finder) examine(ctx context.Context, c candidate) (Binary, bool) {
	path, err := filepath.Abs(c.path)
	if err != nil {
		path = c.path
	}
	b, err := f.versions.probe(ctx, path, f.options)
	if err == nil {
		err = newEnough(b)
	}
	if err != nil {
		f.tried = append(f.tried, Attempt{Source: c.source, Path: path, Reason: err.Error()})
		return Binary{}, false
	}
	chosen := fmt.Sprintf("chosen: %s %s", b.Flavor, b.Version)
	f.tried = append(f.tried, Attempt{Source: c.source, Path: path, Reason: chosen})
	b.Source, b.Tried = c.source, f.tried
	return b, true
}

func newEnough(b Binary) error {
	oldest := MinOpenTofu
	if b.Flavor == Terraform {
		oldest = MinTerraform
	}
	have, err := version.NewVersion(b.Version)
	if err != nil {
		return fmt.Errorf("calls itself %s %q: %w", b.Flavor, b.Version, err)
	}
	if have.Core().LessThan(version.Must(version.NewVersion(oldest))) {
		return fmt.Errorf("%s %s is too old: %s or newer is needed", b.Flavor, b.Version, oldest)
	}
	return nil
}

// Lookup returns the value of the last entry for key in an environment.
func Lookup(env []string, key string) string {
	value := ""
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, key+"="); ok {
			value = v
		}
	}
	return value
}
