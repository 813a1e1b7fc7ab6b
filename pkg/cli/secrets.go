package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

func (a *app) secretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "secrets in files that are encrypted by SOPS for age keys, and what of them lies open",
		Long: `secrets keeps tokens and passwords in files that are encrypted for age keys, as SOPS does it: they can be committed, and
the program sops reads and writes them, too. Settings refer to them:

  proxmox:
    token: sops:secrets.sops.yaml#proxmox.token

Other references are env:NAME, file:PATH, age:FILE and, for Vault, 1Password and others, {command: [program, argument]}.`,
		Example: `  hive-test secrets init
  hive-test secrets set secrets.sops.yaml#proxmox.token
  hive-test secrets edit secrets.sops.yaml
  hive-test secrets check`,
	}
	cmd.AddCommand(
		a.secretsInitCommand(), a.secretsSetCommand(), a.secretsEditCommand(), a.secretsRotateCommand(), a.secretsCheckCommand(),
	)
	return cmd
}

// secretsVerb is the word whose settings all of them use.
const secretsVerb = "secrets"

// secretsJSON is the shape of `secrets init|set|edit|rotate -o json`.
type secretsJSON struct {
	Schema     int      `json:"schema"`
	File       string   `json:"file"`
	Changed    bool     `json:"changed"`
	Recipients []string `json:"recipients"`         // public keys that it is encrypted for
	KeyFile    string   `json:"key_file,omitempty"` // of init
	Made       []string `json:"made,omitempty"`     // files that init made
	Kept       []string `json:"kept,omitempty"`     // files that were there
}

// printSecrets prints what became of a file.
func (a *app) printSecrets(settings config.Settings, done engine.SecretsDone, text string) error {
	document := secretsJSON{
		Schema: outputSchema, File: done.File, Changed: done.Changed, Recipients: done.Recipients, KeyFile: done.KeyFile,
		Made: done.Made, Kept: done.Kept,
	}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	paper := a.page(a.Stdout, settings)
	for line := range strings.Lines(text) {
		if err := paper.line(strings.TrimRight(line, "\n"), "  "); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) secretsRequest(settings config.Settings, file string) engine.SecretsRequest {
	return engine.SecretsRequest{Settings: settings, Getenv: a.Getenv, File: config.Expand(file, a.Getenv("HOME"))}
}

func (a *app) secretsInitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "make an age key, a rule of SOPS, and an encrypted file",
		Long: `init makes what is not there: an age key that only you can read, where SOPS looks for it (~/.config/sops/age/keys.txt) or
where --key says; .sops.yaml beside the file, which says for whom new files are encrypted; and the file itself, with nothing in
it. What is there stays as it is. Keep a copy of the key: without it nobody can read what is encrypted for it.`,
		Example: `  hive-test secrets init
  hive-test secrets init deploy/ci.sops.env --key ./ci.key`,
		Args: cobra.MaximumNArgs(1),
	}
	load := a.settingsOf(cmd, secretsVerb)
	key := cmd.Flags().String("key", "", "`file` of the age key; empty: where SOPS looks for it")
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		file := engine.SecretsFile
		if len(args) == 1 {
			file = args[0]
		}
		return a.work(settings, func(e *engine.Engine) error {
			done, err := e.InitSecrets(a.secretsRequest(settings, file), config.Expand(*key, a.Getenv("HOME")))
			if err != nil {
				return err
			}
			var lines []string
			for _, made := range done.Made {
				lines = append(lines, "made "+made)
			}
			for _, kept := range done.Kept {
				lines = append(lines, "kept "+kept)
			}
			if err := a.printSecrets(settings, done, strings.Join(lines, "\n")); err != nil {
				return err
			}
			a.tell("next: " + a.inPlace("hive-test secrets set "+remote.Quote(done.File+"#proxmox.token")))
			return nil
		})
	})
	return cmd
}

func (a *app) secretsSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set FILE#KEY",
		Short: "give a value of an encrypted file, from stdin or a prompt",
		Long: `set reads a value from stdin, where the line end at its end does not count, or asks for it on a terminal, where it is not
shown. KEY may be several with dots between, as in proxmox.token; a dot within one is \. and the items of a list are
numbers. Keys that are not there are made, and so is the file, for those whom .sops.yaml names. Other values stay as they
are written.`,
		Example: `  hive-test secrets set secrets.sops.yaml#proxmox.token
  pass show pve/ci | hive-test secrets set secrets.sops.yaml#proxmox.token`,
		Args: oneArgument("the file and the key, as in secrets.sops.yaml#proxmox.token"),
	}
	load := a.settingsOf(cmd, secretsVerb)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		file, key, named := strings.Cut(args[0], "#")
		if !named || file == "" || key == "" {
			return usage(fmt.Errorf("%q names no key: FILE#KEY, as in secrets.sops.yaml#proxmox.token", args[0]))
		}
		value, err := a.readSecret(ctx, key)
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			done, err := e.SetSecret(a.secretsRequest(settings, file), key, value)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("set %s in %s", key, done.File)
			if !done.Changed {
				text = fmt.Sprintf("%s in %s has that value already", key, done.File)
			}
			return a.printSecrets(settings, done, text)
		})
	})
	return cmd
}

// oneArgument takes exactly one argument.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usage(progress.WithHint(fmt.Errorf("%s needs %s", cmd.CommandPath(), what), usageLine(cmd)))
	}
}

// longestValue is how long a value that is typed or piped in may be, in bytes.
const longestValue = 1 << 20

// readSecret reads a value from stdin, or asks for it where that is a terminal.
func (a *app) readSecret(ctx context.Context, key string) (string, error) {
	var value string
	if a.onTerminal() {
		typed, err := a.typed(ctx, "Value of "+key+" (not shown):", true)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		value = typed
	} else {
		raw, err := a.readAllOfStdin(ctx)
		if err != nil {
			return "", err
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	}
	a.known.Learn(value)
	switch {
	case value == "":
		return "", usage(errors.New("the value is empty: nothing was changed"))
	case len(value) > longestValue:
		return "", usage(fmt.Errorf("the value is longer than %d MiB: nothing was changed", longestValue>>20))
	case strings.ContainsRune(value, 0):
		return "", usage(errors.New("the value has a NUL byte, which no setting can have: nothing was changed"))
	}
	return value, nil
}

func (a *app) readAllOfStdin(ctx context.Context) ([]byte, error) {
	defer a.signals.asking()()
	return config.ReadWithin(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(a.Stdin, longestValue+3)) })
}

func (a *app) secretsEditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit FILE",
		Short: "edit an encrypted file with $EDITOR",
		Long: `edit decrypts a file into a directory that only you can enter, runs $VISUAL or $EDITOR on it, and encrypts what was written.
The decrypted text is gone afterwards, whatever happened. What did not change stays as it is written; where nothing did,
the file is not touched. A file that is not there is made, for those whom .sops.yaml names.`,
		Example: `  hive-test secrets edit secrets.sops.yaml
  EDITOR='code --wait' hive-test secrets edit secrets.sops.yaml`,
		Args: oneArgument("a file"),
	}
	load := a.settingsOf(cmd, secretsVerb)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			done, err := e.EditSecrets(ctx, a.secretsRequest(settings, args[0]), a.editing(ctx))
			if err != nil {
				return err
			}
			text := "changed " + done.File
			if !done.Changed {
				text = "nothing changed in " + done.File
			}
			return a.printSecrets(settings, done, text)
		})
	})
	return cmd
}

func (a *app) secretsRotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate FILE",
		Short: "encrypt a file anew, with a new key, and for others if wanted",
		Long: `rotate encrypts every value of a file with a new data key, for those that it was encrypted for; --add and --remove change
who that is. Who could read the file before still knows what was in it: after somebody was removed, replace the
secrets themselves, too. A file that nobody here could open any more is not written.`,
		Example: `  hive-test secrets rotate secrets.sops.yaml
  hive-test secrets rotate secrets.sops.yaml --add age1… --remove age1…`,
		Args: oneArgument("a file"),
	}
	load := a.settingsOf(cmd, secretsVerb)
	add := cmd.Flags().StringArray("add", nil, "public `key` that it is encrypted for, too; may be repeated")
	remove := cmd.Flags().StringArray("remove", nil, "public `key` that it is no longer encrypted for; may be repeated")
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			done, err := e.RotateSecrets(a.secretsRequest(settings, args[0]), *add, *remove)
			if err != nil {
				return err
			}
			return a.printSecrets(settings, done, fmt.Sprintf(
				"%s is encrypted anew, for %s", done.File, progress.Count(len(done.Recipients), "public key")))
		})
	})
	return cmd
}

func (a *app) secretsCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "find secrets that lie open, and references that cannot be read",
		Long: `check looks for secrets that stand as they are in the config file, in .env and in the files that are named; for keys and
secrets in git's index; for files with keys or tokens that others can read; and reads every reference of the config file and
every encrypted file that is named. Each finding has its place and its fix. The exit code is 3 where there is one.

What counts as a secret: keys of age and private keys, tokens of Proxmox VE, AWS access keys, passwords in URLs, and values
that look random of names with secret, token, password or key in them. Values are never shown.`,
		Example: `  hive-test secrets check
  hive-test secrets check ci.env secrets.sops.yaml -o json`,
	}
	load := a.settingsOf(cmd, secretsVerb)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		for i := range args {
			args[i] = config.Expand(args[i], a.Getenv("HOME"))
		}
		return a.work(settings, func(e *engine.Engine) error {
			checked, err := e.CheckSecrets(ctx, a.secretsRequest(settings, ""), ".", args)
			if err != nil {
				return err
			}
			return a.printChecked(settings, checked)
		})
	})
	return cmd
}

// secretsCheckJSON is the shape of `secrets check -o json`.
type secretsCheckJSON struct {
	Schema     int                    `json:"schema"`
	OK         bool                   `json:"ok"`
	Findings   []engine.SecretFinding `json:"findings"`
	Files      []string               `json:"files"`      // that were looked at
	References int                    `json:"references"` // that were read, or tried
	Skipped    []string               `json:"skipped"`    // what was not looked at, and why
}

func (a *app) printChecked(settings config.Settings, checked engine.SecretsChecked) error {
	document := secretsCheckJSON{
		Schema: outputSchema, OK: len(checked.Findings) == 0, Findings: append([]engine.SecretFinding{}, checked.Findings...),
		Files: append([]string{}, checked.Files...), References: checked.References, Skipped: append([]string{}, checked.Skipped...),
	}
	structured, err := printAs(a.Stdout, settings.Output, document)
	if !structured {
		err = document.print(a.page(a.Stdout, settings))
	}
	if err = a.unlessUnread(err); err == nil && !document.OK {
		return engine.Error{Code: engine.ExitConfig}
	}
	return err
}

func (d secretsCheckJSON) print(p page) error {
	var failed error
	say := func(text, indent string) {
		if err := p.line(text, indent); failed == nil {
			failed = err
		}
	}
	for _, f := range d.Findings {
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		say(place+": "+oneLine(f.Detail), "  ")
		for line := range strings.Lines(f.Fix) {
			say("  fix: "+strings.TrimSpace(line), "  ")
		}
	}
	for _, skipped := range d.Skipped {
		say("not looked at: "+skipped, "  ")
	}
	say(fmt.Sprintf("%s in %s, with %s", progress.Count(len(d.Findings), "finding"), progress.Count(len(d.Files), "file"),
		progress.Count(d.References, "reference")), "")
	return failed
}

// editing has somebody edit by the program of the environment.
func (a *app) editing(ctx context.Context) engine.Editing {
	editing := engine.Editing{Edit: a.runEditor}
	if a.onTerminal() {
		editing.Again = func(err error) bool {
			a.tell("error: " + a.words(err.Error()))
			answer, err := a.ask(ctx, engine.Question{Text: "Edit again", YesNo: true, Usual: "yes"})
			return err == nil && answer == "yes"
		}
	}
	return editing
}
