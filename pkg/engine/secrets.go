package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/secret"
	"hive-test/pkg/secret/sops"
)

// SecretsFile is the encrypted file that is made where none is named.
const SecretsFile = "secrets.sops.yaml"

// SecretsRequest is what verbs on encrypted files are asked for.
type SecretsRequest struct {
	Settings config.Settings
	Getenv   func(string) string
	File     string // an encrypted file
}

// SecretsDone is what became of an encrypted file.
type SecretsDone struct {
	File       string
	Changed    bool
	Recipients []string // public keys that it is encrypted for now
	Made, Kept []string // files, by InitSecrets
	KeyFile    string   // by InitSecrets
}

// InitSecrets makes what is not there: an age key in keyFile (empty: where SOPS looks for it), a rule of SOPS for whom new
// files are encrypted, and an empty encrypted file. What is there stays as it is.
func (e *Engine) InitSecrets(r SecretsRequest, keyFile string) (SecretsDone, error) {
	done := SecretsDone{File: r.File, KeyFile: keyFile}
	for _, name := range []string{r.Settings.AgeKeyFile, secret.UserKeys(r.Getenv)} {
		if done.KeyFile == "" {
			done.KeyFile = name
		}
	}
	if done.KeyFile == "" {
		return done, usage(errors.New("there is no home directory for the key: name a file with --key"))
	}
	recipient, err := done.key()
	if err != nil {
		return done, Error{ExitConfig, err}
	}
	rules, err := secret.RulesFor(r.File)
	if errors.Is(err, secret.ErrNoRules) {
		rules, err = filepath.Join(filepath.Dir(r.File), secret.RulesFile), nil
	}
	if err != nil {
		return done, Error{ExitConfig, err}
	}
	if err := done.make(rules, 0o644, func() ([]byte, error) { return secret.NewRules(r.File, recipient), nil }); err != nil {
		return done, Error{ExitConfig, err}
	}
	err = done.make(r.File, 0o600, func() ([]byte, error) {
		document, err := newDocument(r.File)
		if err != nil {
			return nil, err
		}
		return document.Bytes()
	})
	if err != nil {
		return done, Error{ExitConfig, err}
	}
	done.Changed = len(done.Made) > 0
	if done.Recipients, err = recipientsOf(r.File); err == nil && !slices.Contains(done.Recipients, recipient) {
		progress.Warn(e.Events, fmt.Sprintf("%s is not encrypted for the key in %s: %s names others", r.File, done.KeyFile, rules),
			"hive-test secrets rotate "+remote.Quote(r.File)+" --add "+recipient)
	}
	return done, err
}

// key makes the key file, or reads the one that is there, and returns its first public key.
func (d *SecretsDone) key() (recipient string, err error) {
	none := func(string) string { return "" }
	if _, err := os.Lstat(d.KeyFile); err == nil {
		d.Kept = append(d.Kept, d.KeyFile)
		keys := secret.FindKeys(d.KeyFile, none)
		if len(keys.Recipients) == 0 {
			return "", progress.WithHint(fmt.Errorf("%s is there, and holds no age key", d.KeyFile), "name another file with --key")
		}
		return keys.Recipients[0], nil
	}
	if err := os.MkdirAll(filepath.Dir(d.KeyFile), 0o700); err != nil {
		return "", err
	}
	text, recipient, err := secret.NewKey(time.Now().UTC().Format(time.RFC3339))
	if err != nil {
		return "", err
	}
	return recipient, d.make(d.KeyFile, 0o600, func() ([]byte, error) { return text, nil })
}

// make writes a file that is not there.
func (d *SecretsDone) make(path string, mode fs.FileMode, content func() ([]byte, error)) error {
	if _, err := os.Lstat(path); err == nil {
		d.Kept = append(d.Kept, path)
		return nil
	}
	raw, err := content()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(path)
		return err
	}
	d.Made = append(d.Made, path)
	return nil
}

// newDocument is an empty file, for whom the rules say.
func newDocument(file string) (*sops.Document, error) {
	recipients, err := secret.RecipientsFor(file)
	if err != nil {
		return nil, err
	}
	format := sops.FormatOf(file)
	empty := ""
	if format == sops.JSON {
		empty = "{}"
	}
	if format == sops.Binary || format == sops.INI {
		return nil, usage(fmt.Errorf("%s: files that can be made here end in .yaml, .json or .env", file))
	}
	return sops.New(format, []byte(empty), recipients)
}

func recipientsOf(file string) ([]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	recipients, _, err := sops.Recipients(sops.FormatOf(file), raw)
	if err != nil {
		err = Error{ExitConfig, fmt.Errorf("%s: %w", file, err)}
	}
	return recipients, err
}

// SetSecret gives a value of an encrypted file, which is made if it is not there.
func (e *Engine) SetSecret(r SecretsRequest, keys, value string) (SecretsDone, error) {
	e.Secrets.Learn(value)
	return e.changeSecrets(r, true, func(document *sops.Document) (bool, error) {
		path := sops.SplitPath(keys)
		if before, err := document.Get(path); err == nil && before == value {
			return false, nil
		}
		return true, document.Set(path, value)
	})
}

// changeSecrets opens an encrypted file, lets change change it, and writes it in one step where that says so.
func (e *Engine) changeSecrets(
	r SecretsRequest, create bool, change func(*sops.Document) (changed bool, err error),
) (SecretsDone, error) {
	done := SecretsDone{File: r.File}
	file, err := e.openSecrets(r, create)
	if err != nil {
		return done, asConfig(r.File, err)
	}
	e.Secrets.Learn(file.document.Values()...)
	if done.Changed, err = change(file.document); err != nil {
		return done, asConfig(r.File, err)
	}
	if done.Changed || file.raw == nil {
		if err := file.write(); err != nil {
			return done, asConfig(r.File, err)
		}
	}
	done.Recipients, err = recipientsOf(r.File)
	return done, err
}

// asConfig is an error about a file, with the code of configuration unless it has another.
func asConfig(file string, err error) error {
	if _, coded := errors.AsType[Error](err); coded {
		return err
	}
	if _, missing := errors.AsType[*sops.PathError](err); missing {
		return usage(fmt.Errorf("%s: %w", file, err))
	}
	if strings.HasPrefix(err.Error(), file) {
		return Error{ExitConfig, err}
	}
	return Error{ExitConfig, fmt.Errorf("%s: %w", file, err)}
}

// secretsFile is an encrypted file that was opened.
type secretsFile struct {
	path     string // where links lead to
	raw      []byte // what it held; nil: it was not there
	document *sops.Document
}

func (e *Engine) openSecrets(r SecretsRequest, create bool) (f secretsFile, err error) {
	f.path = r.File
	if path, err := filepath.EvalSymlinks(r.File); err == nil {
		f.path = path
	}
	f.raw, err = os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) && create {
		f.document, err = newDocument(r.File)
		return f, err
	}
	if err != nil {
		return f, err
	}
	keys := secret.FindKeys(r.Settings.AgeKeyFile, r.Getenv)
	f.document, err = sops.Open(sops.FormatOf(r.File), f.raw, keys.Identities)
	if needsSOPS(err) {
		err = progress.WithHint(err, "change it with the program sops (https://getsops.io); hive-test reads it by that, too")
	}
	if _, noKey := errors.AsType[*sops.KeyError](err); noKey && !needsSOPS(err) {
		err = progress.WithHint(err, keys.Hint())
	}
	if errors.Is(err, sops.ErrPlain) {
		err = progress.WithHint(err, "encrypt it: sops -e -i FILE; or begin another one: hive-test secrets set FILE#key")
	}
	return f, err
}

// needsSOPS reports whether the program sops may open what could not be opened here.
func needsSOPS(err error) bool {
	_, unsupported := errors.AsType[*sops.UnsupportedError](err)
	missing, noKey := errors.AsType[*sops.KeyError](err)
	return unsupported || noKey && len(missing.Others) > 0
}

// write replaces the file in one step, unless somebody else has changed it meanwhile; it keeps its mode.
func (f secretsFile) write() error {
	raw, err := f.document.Bytes()
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(f.path); !errors.Is(err, fs.ErrNotExist) && (err != nil || f.raw == nil || !bytes.Equal(now, f.raw)) {
		return progress.WithHint(errors.New("somebody else has changed it meanwhile: nothing was written"), "do it again")
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(f.path); err == nil {
		mode = info.Mode().Perm()
	}
	return renameio.WriteFile(f.path, raw, mode)
}

// Editing is how EditSecrets has somebody edit a text.
type Editing struct {
	// Edit lets somebody change the file at path, and returns when that is done.
	Edit func(ctx context.Context, path string) error
	// Again asks whether to edit once more what is not accepted because of err; nil: nobody can be asked.
	Again func(err error) bool
}

// EditSecrets lets somebody edit the decrypted text of a file. It is in a directory that only this user can enter, and
// that is gone when this returns, whatever happened. Changed is false where the text says the same as before.
func (e *Engine) EditSecrets(ctx context.Context, r SecretsRequest, editing Editing) (SecretsDone, error) {
	return e.changeSecrets(r, true, func(document *sops.Document) (changed bool, err error) {
		text, err := document.Plain()
		if err != nil {
			return false, err
		}
		dir, err := privateDir(r.Getenv)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		path := filepath.Join(dir, filepath.Base(r.File))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return false, err
		}
		return e.edited(ctx, document, path, editing)
	})
}

// edited lets somebody edit until it is accepted.
func (e *Engine) edited(ctx context.Context, document *sops.Document, path string, editing Editing) (bool, error) {
	for {
		if err := editing.Edit(ctx, path); err != nil {
			return false, progress.WithHint(fmt.Errorf("%w: nothing was changed", err), "EDITOR names the program")
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w, before anything was changed", context.Cause(ctx))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		changed, err := document.Replace(text)
		if err == nil {
			e.Secrets.Learn(document.Values()...)
			return changed, nil
		}
		if editing.Again == nil || !editing.Again(err) {
			return false, fmt.Errorf("what was written is not accepted, and nothing was changed: %w", err)
		}
	}
}

// privateDir makes a directory for a decrypted text: in memory where the user has a place there.
func privateDir(getenv func(string) string) (string, error) {
	dir, err := os.MkdirTemp(getenv("XDG_RUNTIME_DIR"), "hive-test-secrets-")
	if err != nil {
		dir, err = os.MkdirTemp("", "hive-test-secrets-")
	}
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700)
}

// RotateSecrets encrypts a file anew, with a new data key: for those that it was encrypted for, with some more and without
// others.
func (e *Engine) RotateSecrets(r SecretsRequest, add, remove []string) (SecretsDone, error) {
	return e.changeSecrets(r, false, func(document *sops.Document) (bool, error) {
		now, err := recipientsOf(r.File)
		if err != nil {
			return false, err
		}
		var recipients []sops.Recipient
		for _, text := range append(now, add...) {
			text = strings.TrimSpace(text)
			known := func(r sops.Recipient) bool { return r.Text == text }
			if slices.Contains(remove, text) || slices.ContainsFunc(recipients, known) {
				continue
			}
			recipient, err := secret.ParseRecipient(text)
			if err != nil {
				return false, usage(fmt.Errorf("%s: %w", text, err))
			}
			recipients = append(recipients, recipient)
		}
		for _, text := range remove {
			if !slices.Contains(now, text) {
				return false, usage(fmt.Errorf("%s is not encrypted for %s", r.File, text))
			}
		}
		if err := document.Rotate(recipients); err != nil {
			return false, err
		}
		return true, e.opens(r, document)
	})
}

// opens refuses a file that nobody here could open any more.
func (e *Engine) opens(r SecretsRequest, document *sops.Document) error {
	raw, err := document.Bytes()
	if err != nil {
		return err
	}
	keys := secret.FindKeys(r.Settings.AgeKeyFile, r.Getenv)
	if _, err := sops.Open(sops.FormatOf(r.File), raw, keys.Identities); err != nil {
		return progress.WithHint(errors.New("you could not open it any more: nothing was changed"), "keep a recipient whose key is here")
	}
	return nil
}
