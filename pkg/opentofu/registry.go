package opentofu

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// registryTime bounds the look at a registry.
const registryTime = 5 * time.Second

// maxDiscovery bounds what is read of a discovery document, which has some hundred bytes.
const maxDiscovery = 1 << 20

// Registry is where providers come from where there is no mirror.
type Registry struct {
	Host string      // with its port, if that is not 443
	TLS  *tls.Config // nil: the system's
}

// RegistryOf returns the registry that programs of a flavor ask.
func RegistryOf(flavor string) Registry { return Registry{Host: registryHost(flavor)} }

// InstallationConfig returns the user's own CLI configuration file, if it says where providers are installed from, such
// as a mirror; else nothing.
func InstallationConfig(env []string, flavor string) string {
	path := userConfig(env, flavor)
	if path == "" {
		return ""
	}
	if raw, err := os.ReadFile(path); err != nil || !bytes.Contains(raw, []byte("provider_installation")) {
		return ""
	}
	return path
}

// Check asks the registry for its discovery document, as every init does first, in seconds. It returns why providers
// cannot be fetched from there, or nil.
func (r Registry) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: r.TLS, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Host+"/.well-known/terraform.json", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return r.unreachable(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s cannot be used: it answers %s", r.Host, response.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxDiscovery))
	if err != nil {
		return r.unreachable(ctx, err)
	}
	var services map[string]any
	if err := json.Unmarshal(raw, &services); err != nil || services["providers.v1"] == nil {
		return fmt.Errorf("%s cannot be used: what answers there is no registry of providers", r.Host)
	}
	return nil
}

func (r Registry) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s cannot be reached: no answer within %s", r.Host, registryTime)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok { // its text has the URL, which says no more than the host
		err = failed.Err
	}
	return fmt.Errorf("%s cannot be reached: %w", r.Host, err)
}
