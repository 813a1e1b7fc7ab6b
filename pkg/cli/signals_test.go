package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/engine"
)

// buffer may be written to and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was ended")
	}
}

// every is a clock that goes on by a step each time it is looked at.
func every(step time.Duration) func() time.Time {
	now := time.Now()
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

// `timeout` and other wrappers tell a run to stop twice at once. That is one wish: the cleaning up goes on.
func TestSignalsToldTwice(t *testing.T) {
	for gap, again := range map[time.Duration]bool{0: false, duplicateWindow - 1: false, duplicateWindow: true} {
		out := new(buffer)
		s := watchSignals(out, func(int) {}, every(gap))
		s.channel <- syscall.SIGTERM
		s.channel <- syscall.SIGHUP
		s.stop()
		if got := s.abort.Err() != nil; got != again || s.context.Err() == nil {
			t.Errorf("a second signal after %v stops the cleaning up: %v, said %q", gap, got, out.String())
		}
	}
}

// One wish it is, too, where noting the first takes longer than it takes to tell it twice.
func TestSignalsToldTwiceOnASlowDisk(t *testing.T) {
	s := watchSignals(new(buffer), func(int) {}, time.Now)
	noted := make(chan struct{})
	s.onSignal(func(os.Signal, bool) []string {
		<-noted
		return nil
	})
	s.channel <- syscall.SIGTERM
	s.channel <- syscall.SIGHUP
	time.AfterFunc(2*duplicateWindow, func() { close(noted) })
	s.stop()
	if s.abort.Err() != nil {
		t.Error("the second signal stops the cleaning up")
	}
}

// Who only looks is ended without a word of cleaning up.
func TestSignalsOfALook(t *testing.T) {
	out := new(buffer)
	s := watchSignals(out, func(int) {}, every(time.Second))
	s.looking()
	s.channel <- syscall.SIGINT
	ended(t, s.context)
	s.channel <- syscall.SIGINT
	ended(t, s.abort)
	s.stop()
	if got := out.String(); got != "\ninterrupt again: stopping now\n" {
		t.Errorf("said %q", got)
	}
}

// At a question nothing has begun; after it, something may have.
func TestSignalsAtAQuestion(t *testing.T) {
	for _, answered := range []bool{false, true} {
		out := new(buffer)
		s := watchSignals(out, func(int) {}, every(time.Second))
		done := s.asking()
		if answered {
			done()
		}
		s.channel <- syscall.SIGINT
		ended(t, s.context)
		done() // the question ends with the context, and makes nothing loud
		s.stop()
		if got := out.String(); (got != "") != answered {
			t.Errorf("answered %v: said %q", answered, got)
		}
	}
}

func TestSignals(t *testing.T) {
	for first, code := range map[syscall.Signal]engine.ExitCode{
		syscall.SIGINT: engine.ExitInterrupted, syscall.SIGTERM: engine.ExitTerminated,
		syscall.SIGHUP: engine.ExitTerminated,
	} {
		out := new(buffer)
		exits := make(chan int, 1)
		s := watchSignals(out, func(code int) { exits <- code }, every(time.Second))
		var heard []bool
		s.onSignal(func(_ os.Signal, again bool) []string {
			heard = append(heard, again)
			return map[bool][]string{true: {"finish with: x"}}[again]
		})
		s.channel <- syscall.SIGPIPE
		s.channel <- first
		ended(t, s.context)
		if got := engine.CodeOf(s.context, context.Cause(s.context)); got != code || s.context.Err() == nil ||
			s.abort.Err() != nil {
			t.Errorf("%v: code %d, abort %v", first, got, s.abort.Err())
		}
		s.channel <- syscall.SIGTERM
		ended(t, s.abort)
		if !strings.Contains(out.String(), "terminated again: stopping now\nfinish with: x\n") {
			t.Errorf("said %q", out.String())
		}
		s.channel <- syscall.SIGHUP
		select {
		case got := <-exits:
			if got != int(code) {
				t.Errorf("the third ended with %d", got)
			}
		case <-time.After(endTime / 2):
			t.Error("the third does not end the process")
		}
		s.stop()
		if len(heard) != 2 || heard[0] || !heard[1] {
			t.Errorf("heard %v", heard)
		}
	}
}

// blocked is a terminal that was stopped (^S), or a pipe that nobody reads.
type blocked struct{ until chan struct{} }

func (b blocked) Write(p []byte) (int, error) {
	<-b.until
	return len(p), nil
}

// Signals are heard where nothing can be written, and no note can be made.
func TestSignalsWhereNothingIsTaken(t *testing.T) {
	out := blocked{make(chan struct{})}
	exits := make(chan int, 1)
	s := watchSignals(out, func(code int) { exits <- code }, every(time.Second))
	s.onSignal(func(os.Signal, bool) []string {
		<-out.until
		return []string{"too late"}
	})
	for range 3 {
		s.channel <- syscall.SIGTERM
	}
	ended(t, s.context)
	ended(t, s.abort)
	select {
	case got := <-exits:
		if got != int(engine.ExitTerminated) {
			t.Errorf("ended with %d", got)
		}
	case <-time.After(2 * endTime):
		t.Error("the third does not end the process")
	}
	s.stop()
	close(out.until)
}
