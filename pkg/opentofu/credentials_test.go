package opentofu

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
)

// A child gets its credentials and nothing else of the caller's; what the module itself needs wins.
func TestCredentials(t *testing.T) {
	w := workdir{root: filepath.Join(t.TempDir(), "ci-1")}
	if err := w.prepare(sample(), Backend{}); err != nil {
		t.Fatal(err)
	}
	options := Options{
		Env: []string{"ARM_CLIENT_SECRET=of-the-caller", "PATH=/bin"},
		Credentials: func(context.Context) (Environment, error) {
			return Environment{Variables: map[string]string{"TF_HTTP_PASSWORD": "credential", "OWN": "credential"}, Secrets: []string{"credential"}}, nil
		},
		Environment: func(context.Context, string) (Environment, error) {
			return Environment{Variables: map[string]string{"OWN": "own"}, Secrets: []string{"own"}}, nil
		},
	}
	env, secrets, err := New(options).environment(t.Context(), w, Binary{Flavor: OpenTofu})
	if env["TF_HTTP_PASSWORD"] != "credential" || env["OWN"] != "own" || env["ARM_CLIENT_SECRET"] != "" || err != nil {
		t.Errorf("%v, %v", env, err)
	}
	if !slices.Equal(secrets, []string{"credential", "own"}) {
		t.Errorf("hidden are %q", secrets)
	}
	broken := errors.New("the store of secrets is closed")
	options.Credentials = func(context.Context) (Environment, error) { return Environment{}, broken }
	if _, _, err := New(options).environment(t.Context(), w, Binary{Flavor: OpenTofu}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
