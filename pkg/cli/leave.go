package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
)

// leaving is what down, or full at its end, does with hive on the hosts of a hosts file.
type leaving struct {
	stop, purge, yes bool
	agreed           bool // to purge
}

func leaveFlags(cmd *cobra.Command) *leaving {
	l := &leaving{}
	cmd.Flags().BoolVar(&l.stop, "stop-hive", false, "stop hive on the hosts of a hosts file, which else runs on")
	cmd.Flags().BoolVar(&l.purge, "purge", false, "stop hive on the hosts of a hosts file, and remove its data, programs and profiles")
	cmd.Flags().BoolVar(&l.yes, "yes", false, "purge without asking")
	return l
}

func (l *leaving) leave() lifecycle.Leave {
	switch {
	case l.purge:
		return lifecycle.LeaveNothing
	case l.stop:
		return lifecycle.LeaveStopped
	}
	return lifecycle.LeaveRunning
}

// check refuses what is meant for hosts of a hosts file only, and asks before their data is removed. It may be called again.
func (l *leaving) check(s *session) error {
	if !l.stop && !l.purge {
		return nil
	}
	if s.record.Spec.Deployer != cluster.DeployerExisting {
		return usageError{fmt.Errorf("--stop-hive and --purge are for clusters of a hosts file: the VMs of %q are destroyed", s.name)}
	}
	if !l.purge || l.yes || l.agreed {
		return nil
	}
	hosts := strings.Join(s.record.Nodes.Names(), ", ")
	agreed, err := s.agrees("remove hive and all its data from " + hosts + "?")
	switch {
	case err != nil:
		return usageError{err}
	case !agreed:
		return usageError{errors.New("nothing was removed")}
	}
	l.agreed = true
	return nil
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
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	word := strings.ToLower(strings.TrimSpace(answer))
	return word == "y" || word == "yes", nil
}
