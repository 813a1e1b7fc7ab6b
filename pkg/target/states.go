package target

import (
	"context"
	"fmt"
	"path/filepath"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
)

// The state of a cluster as OpenTofu keeps it, for people.
type (
	StateFile     = opentofu.StateFile
	StateResource = opentofu.StateResource
	StateChange   = opentofu.StateChange
	StateLock     = opentofu.StateLock
)

// ParseState reads a state as it is without encryption.
func ParseState(text string) (StateFile, error) { return opentofu.ParseState(text) }

// DiffStates returns what a state has otherwise than one before it.
func DiffStates(before, after StateFile) []StateChange { return opentofu.DiffStates(before, after) }

// SameResources is an error unless two states say the same.
func SameResources(a, b string) error { return opentofu.SameResources(a, b) }

// KeepsState is an error unless OpenTofu makes the cluster's VMs: nobody else keeps a state.
func (t *Target) KeepsState() error {
	if kindOf(t.Record).tofu {
		return nil
	}
	return &Error{Usage: true, Err: fmt.Errorf("deployer %s makes cluster %q without OpenTofu: there is no state", t.Record.Spec.Deployer, t.Name)}
}

// states is what reads and writes the cluster's state by hand.
func (t *Target) states() *opentofu.States {
	return opentofu.NewStates(opentofu.Options{
		Find: t.sharedTofu(), Env: t.Program.TofuEnviron, CacheDir: t.Program.CacheDir, Backend: t.backend(),
		ProviderMirror: t.providerMirror(t.place().ProviderMirror), // init installs the providers of what a state holds
		Credentials:    t.credentials(config.CredentialsState), LogPath: t.File("tofu.log"), Sink: t.Sink,
	}, t.stateFile())
}

func (t *Target) stateFile() string { return opentofu.StatePath(t.Store.Dir(t.Name)) }

// State returns the cluster's state as it is without encryption; empty: there is none.
func (t *Target) State(ctx context.Context) (string, error) {
	text, err := t.states().Pull(ctx, t.Name.String())
	return text, t.stateError("reading", err)
}

func (t *Target) stateError(what string, err error) error {
	if err == nil {
		return nil
	}
	place := t.backend().Type
	if place == "" {
		place = "local"
	}
	return configError(fmt.Errorf("%s the state of cluster %q (backend %s): %w", what, t.Name, place, err))
}

// PushState writes the cluster's state. One of another origin, or with a serial that is not higher, is refused.
func (t *Target) PushState(ctx context.Context, text string) error {
	return t.stateError("writing", t.states().Push(ctx, t.Name.String(), text))
}

// ReplaceState writes an older state in place of the one that is there.
func (t *Target) ReplaceState(ctx context.Context, text string) error {
	return t.stateError("writing", t.states().Replace(ctx, t.Name.String(), text))
}

// EmptyState takes all resources out of the state.
func (t *Target) EmptyState(ctx context.Context) error {
	return t.stateError("emptying", t.states().Empty(ctx, t.Name.String()))
}

// PlainState returns a state of a file as it is without encryption.
func (t *Target) PlainState(ctx context.Context, path string) (string, error) {
	text, err := t.states().Plain(ctx, t.Name.String(), path)
	return text, t.stateError("reading "+path+" for", err)
}

// ErroredState returns the file of a state that a run could not write; empty: there is none.
func (t *Target) ErroredState() string {
	path := t.Store.Path(t.Name, filepath.Join("tofu", "errored.tfstate"))
	if present(path) {
		return path
	}
	return ""
}

// StateLock returns the lock that OpenTofu holds on the state; nil: none.
func (t *Target) StateLock(ctx context.Context) (*StateLock, error) {
	lock, err := t.states().Lock(ctx, t.Name.String())
	return lock, t.stateError("looking for the lock of", err)
}

// UnlockState takes OpenTofu's lock with that id from the state.
func (t *Target) UnlockState(ctx context.Context, id string) error {
	return t.stateError("unlocking", t.states().Unlock(ctx, t.Name.String(), id))
}

// StateReady makes the cluster's directory ready for OpenTofu, and returns where it works.
func (t *Target) StateReady(ctx context.Context) (string, error) {
	return t.provision().Ready(ctx, t.Store.Dir(t.Name))
}

// ValidateModule returns what OpenTofu finds wrong with the module.
func (t *Target) ValidateModule(ctx context.Context) ([]deploy.Problem, error) {
	return t.provision().Validate(ctx, t.Store.Dir(t.Name))
}

// UnformattedModule returns the module's files that are not formatted.
func (t *Target) UnformattedModule(ctx context.Context) ([]string, error) {
	return t.provision().Unformatted(ctx, t.Store.Dir(t.Name))
}

// CheckBackend returns what is wrong with a place of states, or lacks for it.
func (t *Target) CheckBackend(state config.State) error {
	if err := checkBackend(state, t.Settings); err != nil {
		return configError(err)
	}
	return nil
}

// HTTPBackend is how a server of states is reached.
type HTTPBackend struct {
	Address, User, Password string
	CA                      string // PEM; empty: the system's
	Insecure                bool
}

// HTTPBackend returns how the server is reached that has the cluster's state.
func (t *Target) HTTPBackend(ctx context.Context) (HTTPBackend, error) {
	backend := t.backend()
	if backend.Type != "http" {
		place := "is a file here"
		if backend.Remote() {
			place = "is in the backend " + backend.Type
		}
		return HTTPBackend{}, configError(progress.WithHint(
			fmt.Errorf("the state of cluster %q %s, which keeps no versions that can be asked for", t.Name, place),
			"`state serve` keeps every version; buckets can have versions of their own",
		))
	}
	own := backend.Of(t.Name.String())
	given, err := t.credentials(config.CredentialsState)(ctx)
	if err != nil {
		return HTTPBackend{}, err
	}
	look := func(key, variable string) string {
		if value, ok := own.Config[key].(string); ok {
			return value
		}
		if value := given.Variables[variable]; value != "" {
			return value
		}
		return opentofu.Lookup(t.Program.TofuEnviron, variable)
	}
	address, _ := own.Config["address"].(string)
	insecure, _ := own.Config["skip_cert_verification"].(bool)
	return HTTPBackend{
		Address: address, User: look("username", "TF_HTTP_USERNAME"), Password: look("password", "TF_HTTP_PASSWORD"),
		CA: look("client_ca_certificate_pem", "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"), Insecure: insecure,
	}, nil
}
