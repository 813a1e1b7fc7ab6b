package cli

import (
	"errors"
	"io"
	"os"
	"strings"

	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func leaveFlags(cmd *cobra.Command) *engine.Leave {
	l := new(engine.Leave)
	cmd.Flags().BoolVar(&l.Stop, "stop-hive", false, "stop hive on the hosts of a hosts file, which else runs on")
	cmd.Flags().BoolVar(
		&l.Purge, "purge", false, "stop hive on the hosts of a hosts file, and remove its data, programs and profiles",
	)
	cmd.Flags().BoolVar(&l.Yes, "yes", false, "purge without asking")
	return l
}

// onTerminal tells whether somebody can answer.
func (a *app) onTerminal() bool {
	file, isFile := a.Stdin.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// agrees asks the user on the terminal. Where there is none, that is an error.
func (a *app) agrees(question string) (bool, error) {
	if !a.onTerminal() {
		return false, errors.New("not a terminal: pass --yes to " + strings.TrimSuffix(question, "?"))
	}
	answer, err := a.typed(a.signals.context, question+" [y/N]", false)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	word := strings.ToLower(strings.TrimSpace(answer))
	return word == "y" || word == "yes", nil
}
