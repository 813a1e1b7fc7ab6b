package opentofu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
	"github.com/opentofu/tofudl"

	"hive-test/pkg/progress"
)

// downloadTimeout bounds one download, which is about 30 MB.
const downloadTimeout = 5 * time.Minute

// Downloader fetches one program from its makers and verifies their signature.
type Downloader struct {
	// Name is what is fetched, for messages.
	Name string
	// File is the name under which the program is kept.
	File string
	// Fetch puts the program into dir, which is empty, and returns its path. It fails within seconds where there is no
	// network.
	Fetch func(ctx context.Context, dir string) (string, error)
}

// DefaultDownloaders returns OpenTofu's and Terraform's, in this order.
func DefaultDownloaders() []Downloader {
	return []Downloader{
		{Name: OpenTofu, File: "tofu", Fetch: fetchTofu},
		{Name: Terraform, File: "terraform", Fetch: fetchTerraform},
	}
}

// download is the last resort of Find.
func (f *finder) download(ctx context.Context) (Binary, error) {
	o := f.options
	reason := ""
	switch {
	case len(o.Downloaders) == 0:
		reason = "not allowed here"
	case o.CacheDir == "":
		reason = "there is no cache directory to keep it in: set HOME or XDG_CACHE_HOME"
	}
	if reason != "" {
		f.tried = append(f.tried, Attempt{Source: SourceDownload, Reason: reason})
		return Binary{}, &NotFoundError{Tried: f.tried}
	}
	dir := filepath.Join(o.CacheDir, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Binary{}, fmt.Errorf("make the place for downloads: %w", err)
	}
	// Two runs that start together download once: the second finds what the first brought.
	lock := flock.New(filepath.Join(dir, ".lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return Binary{}, fmt.Errorf("wait for another download to end: %w", err)
	}
	defer lock.Unlock()
	for _, d := range o.Downloaders {
		path := filepath.Join(dir, d.File)
		if _, err := os.Stat(path); err != nil {
			err = f.fetch(ctx, d, path)
			if ctx.Err() != nil {
				return Binary{}, fmt.Errorf("download %s: %w", d.Name, ctx.Err())
			}
			if err != nil {
				f.tried = append(f.tried, Attempt{Source: SourceDownload, Reason: d.Name + ": " + err.Error()})
				continue
			}
		}
		if b, ok := f.examine(ctx, candidate{SourceDownload, path}); ok {
			return b, nil
		}
	}
	return Binary{}, &NotFoundError{Tried: f.tried}
}

func (f *finder) fetch(ctx context.Context, d Downloader, path string) error {
	if f.options.Sink != nil {
		progress.Infof(f.options.Sink, "downloading %s, as neither tofu nor terraform is here", d.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	temporary, err := os.MkdirTemp(filepath.Dir(path), ".download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	fetched, err := d.Fetch(ctx, temporary)
	if err != nil {
		return err
	}
	if err := os.Chmod(fetched, 0o755); err != nil {
		return err
	}
	return os.Rename(fetched, path)
}

func fetchTofu(ctx context.Context, dir string) (string, error) {
	downloader, err := tofudl.New(tofudl.ConfigHTTPClient(impatientClient()))
	if err != nil {
		return "", err
	}
	program, err := downloader.Download(ctx)
	if err != nil {
		return "", rootCause(err)
	}
	path := filepath.Join(dir, "tofu")
	return path, renameio.WriteFile(path, program, 0o755)
}

func fetchTerraform(ctx context.Context, dir string) (string, error) {
	constraints, err := version.NewConstraint(">= " + MinTerraform)
	if err != nil {
		return "", err
	}
	latest := releases.LatestVersion{
		Product: product.Terraform, Constraints: constraints, InstallDir: dir,
		Timeout: downloadTimeout, HTTPClient: impatientClient(),
	}
	path, err := latest.Install(ctx)
	if err != nil {
		return "", rootCause(err)
	}
	return path, nil
}

// impatientClient gives up within seconds where there is no network, yet leaves a slow download its time.
func impatientClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 10 * time.Second,
		DisableKeepAlives:     true,
	}}
}

// rootCause drops the layers that only say that a request failed, so that a list of attempts stays readable.
func rootCause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	return err
}
