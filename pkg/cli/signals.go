package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"hive-test/pkg/engine"
)

// endTime is how long the process may take to end by itself after the second signal: reports are written in it.
const endTime = 5 * time.Second

// echoTime is how long after the first signal another one is the same wish told twice: `timeout` signals its command
// and then the group that it is in, wrappers pass on the ^C that their children have got too, and a terminal that goes
// away is told of by the kernel and by the shell. No person is that fast.
const duplicateWindow = 100 * time.Millisecond

// signals turns INT, TERM and HUP into the end of a context. The first asks everything to stop and clean up; the second
// ends abort too, which stops the cleaning up; a third, or endTime, ends the process.
type signals struct {
	context context.Context
	abort   context.Context
	cancel  context.CancelCauseFunc
	kill    context.CancelCauseFunc
	exit    func(code int)
	now     func() time.Time
	channel chan os.Signal
	wait    sync.WaitGroup

	mu     sync.Mutex
	attend func(got os.Signal, again bool) []string
	looks  bool // there is nothing to clean up
	say    func(line string)
}

func watchSignals(stderr io.Writer, exit func(int), now func() time.Time) *signals {
	s := &signals{
		channel: make(chan os.Signal, 4), exit: exit, now: now, say: func(line string) { fmt.Fprintln(stderr, line) },
	}
	s.context, s.cancel = context.WithCancelCause(context.Background())
	s.abort, s.kill = context.WithCancelCause(context.Background())
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // else it was started by nohup
		list = append(list, syscall.SIGHUP)
	}
	signal.Notify(s.channel, list...)
	s.wait.Go(s.loop)
	return s
}

func (s *signals) loop() {
	count := 0
	var first time.Time
	var code engine.ExitCode // the first signal's, as everywhere
	var last *time.Timer
	defer func() {
		if last != nil {
			last.Stop()
		}
	}()
	for arrived := range s.queue() {
		got := arrived.signal
		if got == syscall.SIGPIPE { // whoever read our output is gone; the work goes on, and what must be destroyed is
			continue
		}
		if count == 1 && arrived.at.Sub(first) < duplicateWindow {
			continue
		}
		count++
		switch count {
		case 1:
			first = arrived.at
			code = engine.SignalCode(got)
			silent := s.onlyLooks() // as it is when the signal comes: a question is over then
			s.cancel(engine.SignalError{Signal: got})
			if !silent {
				s.told(fmt.Sprintf("%v: stopping, and cleaning up what can be cleaned; once more stops at once", got))
			}
			s.tell(got, false)
		case 2:
			s.told(fmt.Sprintf("%v again: stopping now", got))
			s.tell(got, true)
			s.kill(engine.SignalError{Signal: got})
			last = time.AfterFunc(endTime, func() { s.exit(int(code)) })
		default:
			s.exit(int(code))
		}
	}
}

// arrival is a signal, and when it came: what is done about the one before may take its time, as a slow disk does.
type arrival struct {
	signal os.Signal
	at     time.Time
}

func (s *signals) queue() <-chan arrival {
	arrived := make(chan arrival, cap(s.channel))
	go func() {
		defer close(arrived)
		for got := range s.channel {
			arrived <- arrival{got, s.now()}
		}
	}()
	return arrived
}

// onSignal makes f hear of signals, and its lines be printed; nil ends that. F is called in a goroutine of its own,
// while what the signal stops is still at work, and before the second signal stops the cleaning up.
func (s *signals) onSignal(f func(got os.Signal, again bool) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attend = f
}

func (s *signals) tell(got os.Signal, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attend == nil {
		return
	}
	for _, line := range s.attend(got, again) {
		s.say(line)
	}
}

// setPrinter makes f show what signals have to say, in place of plain lines.
func (s *signals) setPrinter(f func(line string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say = f
}

// told says a line of its own: the terminal has just shown ^C.
func (s *signals) told(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say("\n" + line)
}

// looking makes the first signal be silent: what runs only looks, ends at once and has nothing to clean up.
func (s *signals) looking() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = true
}

// asking makes the first signal be silent until the question is answered: nothing has begun that would be cleaned up.
func (s *signals) asking() (answered func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.looks
	s.looks = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looks = before
	}
}

func (s *signals) onlyLooks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func (s *signals) stop() {
	signal.Stop(s.channel)
	close(s.channel)
	s.wait.Wait()
}
