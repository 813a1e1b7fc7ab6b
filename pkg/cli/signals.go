package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals turns INT, TERM and HUP into the end of a context. The first asks everything to stop and clean up; the second
// ends abort too, which stops the cleaning up.
type signals struct {
	context context.Context
	abort   context.Context
	cancel  context.CancelCauseFunc
	kill    context.CancelCauseFunc
	channel chan os.Signal
	wait    sync.WaitGroup

	mu    sync.Mutex
	notes []string // what to say at the second signal
}

func watchSignals(stderr io.Writer) *signals {
	s := &signals{channel: make(chan os.Signal, 4)}
	s.context, s.cancel = context.WithCancelCause(context.Background())
	s.abort, s.kill = context.WithCancelCause(context.Background())
	signal.Notify(s.channel, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	s.wait.Go(func() { s.loop(stderr) })
	return s
}

func (s *signals) loop(stderr io.Writer) {
	count := 0
	for got := range s.channel {
		if got == syscall.SIGPIPE { // whoever read our output is gone; the work goes on, and what must be destroyed is
			continue
		}
		count++
		switch count {
		case 1:
			fmt.Fprintf(stderr, "\n%v: stopping, and cleaning up what can be cleaned; once more stops at once\n", got)
			s.cancel(signalError{got})
		case 2:
			fmt.Fprintf(stderr, "\n%v again: stopping now\n", got)
			for _, note := range s.farewell() {
				fmt.Fprintln(stderr, note)
			}
			s.kill(signalError{got})
		}
	}
}

// note adds a line that the second signal prints: the command that finishes what is left undone.
func (s *signals) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, line)
}

func (s *signals) farewell() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.notes...)
}

func (s *signals) stop() {
	signal.Stop(s.channel)
	close(s.channel)
	s.wait.Wait()
}
