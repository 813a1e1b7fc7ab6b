package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/stateserver"
	"hive-test/pkg/stateserver/filestore"
	"hive-test/pkg/stateserver/s3store"
)

// checkTime is how long the storage may take to show that it does what the server needs.
const checkTime = 30 * time.Second

// StateServe serves states to the HTTP backend of OpenTofu and Terraform until ctx ends. Log gets a line of JSON for each
// request, and ready is called once, when the server answers. Errors are of ExitUsage where a setting is missing or wrong,
// and else of ExitConfig.
func (e *Engine) StateServe(
	ctx context.Context, settings config.Settings, log io.Writer, ready func(stateserver.Info),
) error {
	o := settings.StateServer
	if err := checkStateServer(o); err != nil {
		return usage(err)
	}
	if err := e.stateServe(ctx, o, log, ready); err != nil {
		return Error{ExitConfig, err}
	}
	return nil
}

func (e *Engine) stateServe(
	ctx context.Context, o config.StateServer, log io.Writer, ready func(stateserver.Info),
) (err error) {
	storage, err := e.openStorage(o.Storage)
	if err != nil {
		return fmt.Errorf("storage %s: %w", shownStorage(o.Storage), err)
	}
	defer func() { err = errors.Join(err, storage.Close()) }()
	checking, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if err := stateserver.CheckStorage(checking, storage); err != nil {
		return fmt.Errorf("storage %s: %w", shownStorage(o.Storage), err)
	}
	keys, err := e.stateKeys(checking, storage, o)
	if err != nil {
		return err
	}
	server, err := stateserver.New(storage, keys, stateserver.Options{
		Listen: o.Listen, UsersFile: o.UsersFile, TLS: stateserver.Transport(o.TLS), CertFile: o.TLSCert, KeyFile: o.TLSKey,
		Names: o.TLSNames, MaxSize: o.MaxSize << 20, Log: slog.New(slog.NewJSONHandler(log, nil)), Now: time.Now,
	})
	if err != nil {
		return err
	}
	return server.Run(ctx, ready)
}

// checkStateServer says what is missing.
func checkStateServer(o config.StateServer) error {
	switch {
	case o.Storage == "":
		return progress.WithHint(errors.New("it is not said where states are kept"),
			"name a directory, or s3://BUCKET/PREFIX, with --storage")
	case o.UsersFile == "":
		return progress.WithHint(errors.New("it is not said who may use the server"),
			"write a line NAME:HASH for each user to a file, as `htpasswd -nB NAME` prints it, and name that with --users")
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case o.TLSCert != "" && o.TLS != string(stateserver.Auto):
		return fmt.Errorf("--tls %s has no use for the certificate that is given", o.TLS)
	case !o.Passphrase.Empty() && o.PassphraseFile != "":
		return errors.New("the passphrase and a file of it are both given: which of them?")
	}
	return nil
}

// closableStorage is a storage that has something to end.
type closableStorage interface {
	stateserver.Storage
	io.Closer
}

func (e *Engine) openStorage(place string) (closableStorage, error) {
	kind, _, address := strings.Cut(place, "://")
	switch {
	case !address:
		return filestore.Open(place)
	case kind == "s3":
		return s3store.Open(place, s3store.Env{Getenv: e.getenv})
	}
	return nil, fmt.Errorf("a directory or s3:// it can be, not %s://", kind)
}

// shownStorage is a place without what an address may have beside it: some put keys there.
func shownStorage(place string) string {
	address, _, _ := strings.Cut(place, "?")
	if _, rest, found := strings.Cut(address, "@"); found && strings.Contains(address, "://") {
		return "…@" + rest
	}
	return address
}

// getenv is a variable of the engine's environment.
func (e *Engine) getenv(name string) string {
	for _, entry := range e.Environ {
		if key, value, found := strings.Cut(entry, "="); found && key == name {
			return value
		}
	}
	return ""
}

// stateKeys reads what is encrypted with.
func (e *Engine) stateKeys(ctx context.Context, storage stateserver.Storage, o config.StateServer) (stateserver.Keys, error) {
	options := stateserver.KeyOptions{Recipients: o.Recipients, Passphrase: o.Passphrase.Reveal()}
	if o.Identities != "" {
		text, err := os.ReadFile(o.Identities)
		if err != nil {
			return stateserver.Keys{}, fmt.Errorf("reading identities of age: %w", err)
		}
		options.Identities = string(text)
	}
	if o.PassphraseFile != "" {
		text, err := os.ReadFile(o.PassphraseFile)
		if err != nil {
			return stateserver.Keys{}, fmt.Errorf("reading the passphrase: %w", err)
		}
		if options.Passphrase = strings.TrimRight(string(text), "\r\n"); options.Passphrase == "" {
			return stateserver.Keys{}, fmt.Errorf("reading the passphrase: %s is empty", o.PassphraseFile)
		}
		e.Secrets.Learn(options.Passphrase)
	}
	return stateserver.OpenKeys(ctx, storage, options)
}
