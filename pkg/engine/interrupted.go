package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
)

// command is how this run was asked for, without its flags.
func (s *session) command() string {
	if s.template.command != "" {
		return s.template.command
	}
	return "hive-test " + s.verb + " " + s.Name.String()
}

// finishWith is the command that removes what a run of the cluster has left.
func finishWith(store *state.Store, name cluster.Name) string {
	return fmt.Sprintf("hive-test down %s --clusters-dir %s", name, remote.Quote(store.Root()))
}

// goOnWith is the command that goes on with what a run of that verb has begun on a cluster that was there before.
func goOnWith(store *state.Store, verb string, r *cluster.Record) string {
	command := fmt.Sprintf("hive-test %s %s", verb, r.Name)
	if verb == string(cluster.PhaseConfigure) && r.OtherMembers() {
		command += " --force"
	}
	return command + " --clusters-dir " + remote.Quote(store.Root())
}

// rerun is the command that runs the suites of an interrupted test again. It leaves nothing that is to be removed.
func (s *session) rerun() string {
	command := s.command()
	if s.Settings.Given("suite") {
		for _, suite := range s.Settings.Suites {
			command += " --suite " + remote.Quote(suite)
		}
	}
	return s.Secrets.Mask(command) + " --clusters-dir " + remote.Quote(s.Store.Root())
}

// noteInterruptions notes in the cluster's directory, until the returned function is called, that the run is asked to
// end, so that whatever ends this process, `status` tells what is left undone and what finishes it.
func (s *session) noteInterruptions(ctx context.Context) (stop func()) {
	note := s.interrupt()
	if s.Attend != nil {
		s.Attend(note)
		return func() { s.Attend(nil) }
	}
	noted := make(chan struct{})
	ended := context.AfterFunc(ctx, func() {
		defer close(noted)
		if errors.Is(ctx.Err(), context.Canceled) {
			note(os.Interrupt, false)
		}
	})
	return func() {
		if !ended() {
			<-noted
		}
	}
}

func (s *session) interrupt() func(got os.Signal, again bool) []string {
	finish := finishWith(s.Store, s.Name)
	stays := s.keep() != lifecycle.KeepNever || !s.Makes()
	switch {
	case s.verb == string(cluster.PhaseTest) && stays:
		finish = s.rerun()
	case s.verb == string(cluster.PhaseConfigure) && stays:
		finish = goOnWith(s.Store, s.verb, s.Record)
	case s.provisions() && s.before != nil && s.before.Nodes.WereUp():
		finish = goOnWith(s.Store, string(cluster.PhaseUp), s.Record)
	case s.Recovered: // there may be no record that tells whose the VMs are
		finish += " --owner " + remote.Quote(s.Record.Owner.ID)
		if s.Record.Target.Simulated {
			finish += " --sim"
		}
	}
	return func(got os.Signal, again bool) []string { return s.noteInterruption(got, again, finish) }
}

func (s *session) noteInterruption(got os.Signal, again bool, finish string) []string {
	err := s.Store.Interrupt(s.Name, state.Interruption{
		Time: time.Now().UTC(), Signal: got.String(), Command: s.command(), Finish: finish,
	})
	var lines []string
	if err != nil {
		lines = append(lines, "warning: "+err.Error())
	}
	if again {
		lines = append(lines, "finish with: "+finish)
	}
	return lines
}

// Interruption is a run that was interrupted and that no later run has dealt with. Signal is empty where the run did
// not come to its end and had got no signal. Finish removes what it has left, or goes on where the cluster was there
// before.
type Interruption struct {
	Time    *time.Time `json:"time" jsonschema:"nullable"`
	Signal  string     `json:"signal"`
	Command string     `json:"command"`
	Finish  string     `json:"finish"`

	// needless is what people need not type of Finish: the clusters directory, where none is set and it is the one in
	// force.
	needless string
}

// StateInterrupted is the state of a cluster whose last run was interrupted.
const StateInterrupted = "interrupted"

// interruptionOf finds out whether the last run of a cluster was interrupted: it says so itself, or it has begun a
// phase and nobody is at work on it.
func interruptionOf(store *state.Store, r *cluster.Record, settings config.Settings) *Interruption {
	found := findInterruption(store, r)
	if found != nil && !settings.Given("clusters_dir") {
		found.needless = " --clusters-dir " + remote.Quote(store.Root())
	}
	return found
}

func findInterruption(store *state.Store, r *cluster.Record) *Interruption {
	holder, life := store.Holder(r.Name)
	if life == state.Alive || life == state.Elsewhere {
		return nil
	}
	if note, found := store.Interrupted(r.Name); found {
		noted := &Interruption{Time: &note.Time, Signal: note.Signal, Command: note.Command, Finish: note.Finish}
		if noted.finishes(cluster.PhaseConfigure) { // how far it has come since decides
			noted.Finish = goOnWith(store, string(cluster.PhaseConfigure), r)
		}
		return noted
	}
	p, status := r.Current()
	if status != cluster.PhaseRunning {
		return nil
	}
	found := &Interruption{Command: holder.Command, Finish: finishWith(store, r.Name)}
	if found.Command == "" {
		found.Command = fmt.Sprintf("hive-test %s %s", p, r.Name)
	}
	was := p == cluster.PhaseTest || p == cluster.PhaseConfigure || p == cluster.PhaseUp && r.Phases[p].Before
	if was && strings.HasPrefix(found.Command, fmt.Sprintf("hive-test %s ", p)) {
		found.Finish = goOnWith(store, string(p), r)
	}
	return found
}

// testing reports whether it was a run of test, which leaves nothing behind but a cluster as it was.
func (i *Interruption) testing() bool { return i.finishes(cluster.PhaseTest) }

// goesOn reports whether what was interrupted goes on, on a cluster that was there before.
func (i *Interruption) goesOn() bool {
	return i.finishes(cluster.PhaseUp) || i.finishes(cluster.PhaseConfigure)
}

func (i *Interruption) finishes(p cluster.Phase) bool {
	return strings.HasPrefix(i.Finish, fmt.Sprintf("hive-test %s ", p))
}

// next is the command that goes on with an up; none where what was left is to be removed.
func (i *Interruption) next(name cluster.Name) []string {
	if !i.finishes(cluster.PhaseUp) {
		return nil
	}
	return []string{fmt.Sprintf("hive-test up %s", name)}
}

// String tells it to people.
func (i *Interruption) String() string {
	how := "did not come to its end (it was killed, or its disk was full)"
	if i.Signal != "" {
		how = fmt.Sprintf("was interrupted (%s) at %s", signalWord(i.Signal), i.Time.Local().Format(time.DateTime))
	}
	finish := strings.Replace(i.Finish, i.needless, "", 1)
	switch {
	case i.testing():
		return fmt.Sprintf("`%s` %s; `%s` runs the suites again", i.Command, how, finish)
	case i.goesOn():
		return fmt.Sprintf("`%s` %s; the cluster was there before and stays: `%s` goes on", i.Command, how, finish)
	}
	return fmt.Sprintf("`%s` %s; remove what it left: %s", i.Command, how, finish)
}

// lockedBy is how status names the holder of a cluster.
func lockedBy(h state.Holder) string {
	if h.PID == 0 {
		return "another run"
	}
	return fmt.Sprintf("%s (pid %d on %s)", h.Command, h.PID, h.Host)
}
