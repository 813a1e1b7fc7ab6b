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

// duplicateWindow is how long after the first signal another one is the same wish told twice: `timeout` signals its command
// and then the group that it is in, wrappers pass on the ^C that their children have got too, and a terminal that goes
// away is told of by the kernel and by the shell. No person is that fast.
const duplicateWindow = 100 * time.Millisecond

// patience is how long what a signal does waits for what is said and written down of it: a terminal may be stopped, a pipe
// may be full, a disk may hang.
const patience = time.Second

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
	words   chan func(say func(line string)) // what is to be said, in this order
	silent  chan struct{}                    // closed when nothing more is to be said
	wait    sync.WaitGroup                   // for the loop
	speaker sync.WaitGroup

	mu     sync.Mutex // held while attend runs
	attend func(got os.Signal, again bool) []string

	saying sync.Mutex
	looks  bool // there is nothing to clean up
	say    func(line string)
}

func watchSignals(stderr io.Writer, exit func(int), now func() time.Time) *signals {
	s := &signals{
		channel: make(chan os.Signal, 4), exit: exit, now: now, say: func(line string) { fmt.Fprintln(stderr, line) },
		words: make(chan func(func(string)), 64), silent: make(chan struct{}),
	}
	s.context, s.cancel = context.WithCancelCause(context.Background())
	s.abort, s.kill = context.WithCancelCause(context.Background())
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // else it was started by nohup
		list = append(list, syscall.SIGHUP)
	}
	signal.Notify(s.channel, list...)
	s.wait.Go(s.loop)
	s.speaker.Go(s.speak)
	return s
}

// speak says what is to be said. It is a goroutine of its own, for a terminal that takes nothing must not keep the next
// signal from being heard.
func (s *signals) speak() {
	for {
		select {
		case word := <-s.words:
			s.saying.Lock()
			say := s.say
			s.saying.Unlock()
			word(say)
		case <-s.silent:
			if len(s.words) == 0 {
				return
			}
		}
	}
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
		close(s.silent)
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
			last = time.AfterFunc(endTime, func() { s.exit(int(code)) })
			s.told(fmt.Sprintf("%v again: stopping now", got))
			s.tell(got, true)
			s.awaitSaid()
			s.kill(engine.SignalError{Signal: got})
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

// tell lets attend hear of a signal, and goes on without it when it takes too long.
func (s *signals) tell(got os.Signal, again bool) {
	within(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.attend == nil {
			return
		}
		for _, line := range s.attend(got, again) {
			s.speakOf(line)
		}
	})
}

// within waits for do, but not longer than limit.
func within(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// setPrinter makes f show what signals have to say, in place of plain lines.
func (s *signals) setPrinter(f func(line string)) {
	s.saying.Lock()
	defer s.saying.Unlock()
	s.say = f
}

// told says a line of its own: the terminal has just shown ^C.
func (s *signals) told(line string) { s.speakOf("\n" + line) }

func (s *signals) speakOf(line string) {
	s.enqueue(func(say func(string)) { say(line) })
}

// enqueue lets speak do something in its turn. Where it has fallen that far behind, nobody reads what is said.
func (s *signals) enqueue(word func(say func(string))) {
	select {
	case s.words <- word:
	default:
	}
}

// awaitSaid waits until all that was to be said is said.
func (s *signals) awaitSaid() {
	said := make(chan struct{})
	s.enqueue(func(func(string)) { close(said) })
	within(patience, func() { <-said })
}

// looking makes the first signal be silent: what runs only looks, ends at once and has nothing to clean up.
func (s *signals) looking() {
	s.saying.Lock()
	defer s.saying.Unlock()
	s.looks = true
}

// asking makes the first signal be silent until the question is answered: nothing has begun that would be cleaned up.
func (s *signals) asking() (answered func()) {
	s.saying.Lock()
	defer s.saying.Unlock()
	before := s.looks
	s.looks = true
	return func() {
		s.saying.Lock()
		defer s.saying.Unlock()
		s.looks = before
	}
}

func (s *signals) onlyLooks() bool {
	s.saying.Lock()
	defer s.saying.Unlock()
	return s.looks
}

func (s *signals) stop() {
	signal.Stop(s.channel)
	close(s.channel)
	s.wait.Wait()
	within(patience, s.speaker.Wait)
}
