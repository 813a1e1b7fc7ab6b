package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/target"
)

// Question is what Init cannot decide; Choice is a possible answer to it.
type (
	Question = target.Question
	Choice   = target.Choice
)

// InitRequest says what a config file is to be made of.
type InitRequest struct {
	Settings config.Settings
	File     string // to be written
	Force    bool   // overwrite it
	Print    bool   // write nothing
	// FromEnv are the variables of a file of such, of which the settings were made; nil: there is none. Unknown are those
	// of them that no setting is read from.
	FromEnv map[string]string
	Unknown []string
	// SaveToken writes the API token into a file of its own beside File.
	SaveToken bool
	// Hypervisors, Datastore and SnippetStore are as in target.Discovery.
	Hypervisors             []string
	Datastore, SnippetStore string
	// Ask asks a person; nil: nobody can be asked.
	Ask target.Asker
}

// InitOutcome is a config file.
type InitOutcome struct {
	Text []byte
	// TokenFile is where the token was written, if it was.
	TokenFile string
}

// Init makes a config file of what is given and of what the Proxmox VE has that it names, and writes it, for this user
// alone to read. The API token never stands in it.
func (e *Engine) Init(ctx context.Context, r InitRequest) (InitOutcome, error) {
	i := initialization{Engine: e, InitRequest: r}
	if err := i.checkFiles(); err != nil {
		return InitOutcome{}, err
	}
	if len(r.Unknown) > 0 {
		progress.Infof(e.Events, "no settings of hive-test: %s", strings.Join(r.Unknown, ", "))
	}
	ctx, cancel := i.limited(ctx)
	defer cancel()
	found, err := i.entries(ctx)
	if err != nil {
		return InitOutcome{}, err
	}
	if err := i.askToSave(ctx, found); err != nil {
		return InitOutcome{}, err
	}
	return i.write(found)
}

type initialization struct {
	*Engine
	InitRequest
}

// limited is ctx with the limit of the whole run.
func (i initialization) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := i.Settings.Timeout
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, Error{ExitConfig, progress.WithHint(
		fmt.Errorf("init timed out after %s (--timeout), and nothing was written", progress.FormatLimit(limit)),
		"allow more time with --timeout, if it only was slow",
	)})
}

// checkFiles refuses what cannot be written and what would be overwritten, before anybody is asked.
func (i initialization) checkFiles() error {
	if i.Print {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(i.File)); err != nil {
		return Error{ExitConfig, err}
	}
	files := []string{i.File}
	if i.SaveToken {
		files = append(files, config.TokenPath(i.File))
	}
	for _, file := range files {
		if err := checkRegular(file); err != nil {
			return Error{ExitConfig, fmt.Errorf("%w: nothing was changed", err)}
		}
		if _, err := os.Lstat(file); err == nil && !i.Force {
			return i.exists(file)
		}
	}
	return i.checkTokenFile()
}

// checkTokenFile refuses a file for the token that a link makes the config file itself.
func (i initialization) checkTokenFile() error {
	if !i.SaveToken {
		return nil
	}
	token := config.TokenPath(i.File)
	file, err := followLinks(i.File)
	to, tokenErr := followLinks(token)
	if err = errors.Join(err, tokenErr); err != nil {
		return Error{ExitConfig, err}
	}
	if config.Absolute(file) == config.Absolute(to) {
		return Error{ExitConfig, fmt.Errorf("%s and %s are one file: nothing was changed", i.File, token)}
	}
	return nil
}

func (i initialization) exists(file string) error {
	return Error{ExitConfig, progress.WithHint(
		fmt.Errorf("%s exists: nothing was changed", file),
		"--force overwrites it, --config names another file, and --print only shows what would be written",
	)}
}

// entries are the settings of the file: those that are given for it, and those that are found out.
func (i initialization) entries(ctx context.Context) (target.Found, error) {
	found := target.Found{Token: i.Settings.Proxmox.Token.Reveal()}
	given := i.Settings.Entries(i.belongs)
	p := i.Settings.Proxmox
	switch {
	case i.Settings.Sim:
		found.Entries = []config.Entry{{Key: "sim", Value: true}}
	case i.FromEnv != nil && p.Endpoint != "" && len(p.Hypervisors) > 0 && len(i.Hypervisors) == 0:
		progress.Infof(i.Events, "the variables name endpoint and hypervisors: Proxmox VE was not asked")
		found.Entries = []config.Entry{
			{Key: "proxmox.endpoint", Value: p.Endpoint}, {Key: "proxmox.hypervisors", Value: p.Hypervisors},
		}
	default:
		var err error
		if found, err = i.discover(ctx); err != nil {
			return found, err
		}
	}
	found.Entries = append(given, found.Entries...)
	return found, nil
}

// belongs reports whether what comes from a source was given for this file.
func (i initialization) belongs(source string) bool {
	name, isVariable := strings.CutPrefix(source, "environment ")
	_, fromFile := i.FromEnv[name]
	return strings.HasPrefix(source, "flag ") || isVariable && fromFile
}

func (i initialization) discover(ctx context.Context) (target.Found, error) {
	return target.Discovery{
		Settings: i.Settings, Hypervisors: i.Hypervisors, Datastore: i.Datastore, SnippetStore: i.SnippetStore,
		Ask: i.Ask, Sink: i.Events, Learn: i.Secrets.Learn,
	}.Run(ctx)
}

// askToSave lets a person who has typed the token keep it in a file.
func (i *initialization) askToSave(ctx context.Context, found target.Found) error {
	if !found.Asked || i.SaveToken || i.Print {
		return nil
	}
	answer, err := i.Ask(ctx, Question{
		Text:  fmt.Sprintf("Write the token to %s, which only you can read", config.TokenPath(i.File)),
		YesNo: true, Usual: "yes",
	})
	i.SaveToken = answer == "yes"
	if err != nil || !i.SaveToken {
		return err
	}
	return i.checkFiles()
}

const initHeader = "Settings of hive-test, written by `hive-test init`. `hive-test help settings` lists them all;\n" +
	"flags and the environment win over this file."

// write renders the file, proves that it can be loaded, and puts it in its place.
func (i initialization) write(found target.Found) (InitOutcome, error) {
	var outcome InitOutcome
	if i.SaveToken && found.Token == "" {
		return outcome, usage(errors.New("there is no token to save: set PROXMOX_VE_API_TOKEN"))
	}
	if i.SaveToken {
		outcome.TokenFile = config.TokenPath(i.File)
		entry := config.Entry{Key: "proxmox.token_file", Value: config.TokenPath(filepath.Base(i.File))}
		if filepath.Dir(i.File) != "." {
			entry.Value = config.Absolute(outcome.TokenFile)
		}
		found.Entries = append(found.Entries, entry)
	}
	later := []string{"node_count", "cpu_cores", "memory_mb", "disk_size_gb"}
	text, err := config.Render(filepath.Dir(i.File), initHeader, found.Entries, later...)
	if err != nil {
		return outcome, err
	}
	outcome.Text = text
	if err := i.validate(text); err != nil || i.Print {
		return outcome, err
	}
	if i.SaveToken {
		if err := i.put(outcome.TokenFile, []byte(found.Token+"\n")); err != nil {
			return outcome, err
		}
		progress.Infof(i.Events, "wrote %s, which holds the API token: keep it out of version control", outcome.TokenFile)
	}
	if err := i.put(i.File, text); err != nil {
		return outcome, err
	}
	progress.Infof(i.Events, "wrote %s", i.File)
	i.adviseNext(found)
	return outcome, nil
}

// adviseNext says what to do with the file.
func (i initialization) adviseNext(found target.Found) {
	tokenFile := func(e config.Entry) bool { return e.Key == "proxmox.token_file" }
	source := i.Settings.Source("proxmox.token")
	set := strings.HasPrefix(source, "environment ") && !i.belongs(source)
	if !i.Settings.Sim && !set && !slices.ContainsFunc(found.Entries, tokenFile) {
		progress.Infof(
			i.Events, "the API token is not in it: use --save-token, or set it:\n"+
				"  export PROXMOX_VE_API_TOKEN='user@realm!name=secret'",
		)
	}
	progress.Infof(i.Events, "next: %s", i.Advise("hive-test doctor"))
	progress.Infof(i.Events, "then: %s", i.Advise("hive-test up dev1"))
}

// validate loads the text as the file that it will be, but for the token, which may not be there yet.
func (i initialization) validate(text []byte) error {
	dir := filepath.Dir(i.File)
	if i.Print {
		dir = os.TempDir()
	}
	file, err := os.CreateTemp(dir, ".hive-test-*.yaml")
	if err != nil {
		return Error{ExitConfig, err}
	}
	defer os.Remove(file.Name())
	if _, err = file.Write(text); err == nil {
		err = file.Close()
	}
	if err != nil {
		return Error{ExitConfig, err}
	}
	_, err = config.Load(config.LoadOptions{ConfigPath: file.Name(), Env: func(name string) string {
		if name == "PROXMOX_VE_API_TOKEN" {
			return "not-read"
		}
		return ""
	}})
	if err != nil {
		return Error{ExitConfig, errors.New(strings.ReplaceAll(err.Error(), file.Name(), i.File))}
	}
	return nil
}

// put writes a file that only this user can read. It overwrites one only by force.
func (i initialization) put(path string, content []byte) error {
	if i.Force {
		if err := replaceFile(path, content, renameio.WithStaticPermissions(0o600)); err != nil {
			return Error{ExitConfig, err}
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return i.exists(path)
	}
	if err != nil {
		return Error{ExitConfig, err}
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return Error{ExitConfig, fmt.Errorf("write %s: %w", remote.Quote(path), errors.Join(err, os.Remove(path)))}
	}
	return nil
}
