package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

const initLong = `init writes a commented hive-test.yaml. It asks Proxmox VE which hypervisors, storages, bridges, images,
templates and pools there are. On a terminal it offers them; elsewhere flags say which, and what no flag says is chosen
where there is only one sensible choice: hive-test's default if it is there, or the only one. What is left is an error
that lists the choices.

Flags that are settings are written to the file as they are given. The API token is read from PROXMOX_VE_API_TOKEN or
--proxmox-token-file, and never stands in the file: --save-token writes it to a file of its own beside it, which only
you can read. With a certificate that this machine does not know, the terminal shows its fingerprint and asks; else
give --proxmox-ca-file or --proxmox-fingerprint.

A file that exists is not overwritten without --force. --print, -o yaml and -o json show what would be written and
write nothing.`

func (a *app) initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a hive-test.yaml, with what your Proxmox VE offers",
		Long:  initLong,
		Example: `  hive-test init                       # on a terminal: asks
  hive-test init --proxmox-endpoint https://pve1:8006 --datastore local-lvm
  hive-test init --hypervisors pve1,pve2 --template 9000
  hive-test init --from-env            # of ./.env
  hive-test init --sim                 # the simulator, for every verb here`,
		Args: cobra.NoArgs,
	}
	config.VerbFlags(cmd.Flags(), cmd.Name())
	cmd.Annotations = map[string]string{documents: "yes"}
	r := new(engine.InitRequest)
	flags := cmd.Flags()
	flags.StringVar(&r.Datastore, "datastore", "", "`storage` for the nodes' disks, on every hypervisor; or name=storage for each, with commas")
	flags.StringVar(&r.SnippetStore, "snippet-store", "", "`storage` for cloud-init snippets, likewise")
	flags.BoolVar(&r.SaveToken, "save-token", false, "write the API token to a file beside the config file, mode 0600")
	flags.BoolVar(&r.Force, "force", false, "overwrite files that exist")
	flags.BoolVar(&r.Print, "print", false, "print the file to stdout, and write nothing")
	fromEnv := flags.String(
		"from-env", "", "take settings from this `file` of NAME=value lines, such as upstream's (default .env)",
	)
	flags.Lookup("from-env").NoOptDefVal = ".env"
	cmd.Args = fromEnvArgument
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			*fromEnv = args[0]
		}
		return a.init(ctx, cmd, *r, *fromEnv)
	})
	return cmd
}

// fromEnvArgument takes the file of --from-env FILE, which a flag whose value may be left out leaves as an argument.
func fromEnvArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Changed("from-env") && cmd.Flag("from-env").Value.String() == ".env" {
		return nil
	}
	return cobra.NoArgs(cmd, args)
}

func (a *app) init(ctx context.Context, cmd *cobra.Command, r engine.InitRequest, fromEnv string) error {
	a.signals.looking() // the file is written at the end, as a whole
	getenv := a.Getenv
	home := a.Getenv("HOME")
	if fromEnv != "" {
		values, err := config.ReadWithin(ctx, func() (values map[string]string, err error) {
			values, r.Unknown, err = config.ReadEnvFile(config.Expand(fromEnv, home))
			return values, err
		})
		if err != nil {
			return err
		}
		r.FromEnv = values
		getenv = func(name string) string { return cmp.Or(values[name], a.Getenv(name)) }
	}
	// what is in a file already is not asked: the new one is to be complete
	settings, err := a.loadSettings(cmd, config.LoadOptions{Env: getenv, ConfigPath: os.DevNull})
	if err != nil {
		return err
	}
	if names := cmd.Flag("hypervisors").Value.String(); names != "" && !strings.ContainsAny(names, "[{") {
		r.Hypervisors = strings.Split(names, ",") // the rest of what is to be known of each is found out
	}
	named, err := cmd.Flags().GetString("config")
	if err != nil {
		return err
	}
	r.Settings = settings
	r.File = config.Expand(cmp.Or(named, a.Getenv("HIVE_TEST_CONFIG"), config.FileName), home)
	r.Print = r.Print || settings.Output == "yaml" || settings.Output == "json"
	if a.onTerminal() {
		r.Ask = a.ask
	}
	return a.work(settings, func(e *engine.Engine) error {
		outcome, err := e.Init(ctx, r)
		if err != nil {
			return err
		}
		return a.printInit(r, outcome)
	})
}

// printInit prints a file that was not written.
func (a *app) printInit(r engine.InitRequest, outcome engine.InitOutcome) error {
	if !r.Print {
		return nil
	}
	if r.Settings.Output == "json" {
		var document any
		if err := yaml.Unmarshal(outcome.Text, &document); err != nil {
			return err
		}
		return printJSON(a.Stdout, document)
	}
	_, err := a.Stdout.Write(outcome.Text)
	return err
}

// ask asks a person on the terminal until the answer fits.
func (a *app) ask(ctx context.Context, q engine.Question) (string, error) {
	paper := a.page(a.Stderr, config.Settings{})
	for i, c := range q.Choices {
		if i == 0 {
			_ = paper.line(q.Text+":", "  ") // who cannot be shown a question gives no answer
		}
		_ = paper.line(strings.TrimRight(fmt.Sprintf("  %d  %s  %s", i+1, c.Value, oneLine(c.Note)), " "), "   ")
	}
	for {
		typed, err := a.typed(ctx, prompt(q), q.Secret)
		if errors.Is(err, io.EOF) {
			return "", engine.Error{Code: engine.ExitConfig, Err: progress.WithHint(
				errors.New("the terminal was closed before all was answered"), "flags answer, too: `hive-test help init`",
			)}
		}
		if err != nil {
			return "", err
		}
		answer, err := understood(q, strings.TrimSpace(typed))
		if err == nil {
			return answer, nil
		}
		_ = paper.line("  "+err.Error(), "  ")
	}
}

// prompt says what may be typed, and, in brackets, what nothing stands for.
func prompt(q engine.Question) string {
	text, usual := q.Text, ""
	switch {
	case q.YesNo && q.Usual == "yes":
		return text + "? [Y/n]"
	case q.YesNo:
		return text + "? [y/N]"
	case q.Several:
		text = "Numbers or names, with commas"
	case len(q.Choices) > 0:
		text = "Number or name"
	}
	if q.Usual != "" {
		usual = " [" + q.Usual + "]"
	}
	return text + usual + ":"
}

// understood is an answer by what was typed: nothing stands for the usual one, and a number for a choice.
func understood(q engine.Question, typed string) (string, error) {
	if q.YesNo {
		word := strings.ToLower(cmp.Or(typed, q.Usual, "no"))
		if !slices.Contains([]string{"y", "yes", "n", "no"}, word) {
			return "", errors.New("answer yes or no")
		}
		return map[byte]string{'y': "yes", 'n': "no"}[word[0]], nil
	}
	var parts []string
	for part := range strings.SplitSeq(cmp.Or(typed, q.Usual), ",") {
		part = strings.TrimSpace(part)
		if n, err := strconv.Atoi(part); err == nil && n >= 1 && n <= len(q.Choices) {
			part = q.Choices[n-1].Value
		}
		parts = append(parts, part)
	}
	answer := strings.Join(parts, ",")
	return answer, q.Check(answer)
}

// typed asks on the terminal and returns the line that is typed; a secret is not shown. Where ctx ends, it gives up, and
// where the terminal is closed, the error is io.EOF.
func (a *app) typed(ctx context.Context, question string, secret bool) (string, error) {
	file, ok := a.Stdin.(*os.File)
	if !ok {
		return "", errors.New("not a terminal")
	}
	terminal := int(file.Fd())
	before, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	defer a.signals.asking()()
	fmt.Fprint(a.Stderr, progress.Wrap(question, a.page(a.Stderr, config.Settings{}).width, "  ")+" ")
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		if secret {
			raw, err := term.ReadPassword(terminal)
			fmt.Fprintln(a.Stderr)
			read <- line{string(raw), err}
			return
		}
		text, err := bufio.NewReader(file).ReadString('\n') // a terminal gives a line at a time
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(terminal, before) // what is typed is to be seen again
		fmt.Fprintln(a.Stderr)             // the question's line is over
		return "", context.Cause(ctx)
	case l := <-read:
		if errors.Is(l.err, io.EOF) && l.text != "" {
			l.err = nil
		}
		return l.text, l.err
	}
}
