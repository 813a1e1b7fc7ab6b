package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestRun(t *testing.T) {
	_, h := connected(t)
	for _, c := range []struct {
		name           string
		cmd            Command
		stdout, stderr string
		code           int
	}{
		{"output of both streams", Command{Argv: []string{"sh", "-c", "echo out; echo err >&2"}}, "out\n", "err\n", 0},
		{"arguments arrive as given", Command{Argv: []string{"printf", "[%s]", "a b", "", "$HOME", "it's"}}, "[a b][][$HOME][it's]", "", 0},
		{"exit code", Command{Argv: []string{"sh", "-c", "exit 7"}}, "", "", 7},
		{"standard input", Command{Argv: []string{"cat"}, Stdin: strings.NewReader("in\n")}, "in\n", "", 0},
		{"no standard input", Command{Argv: []string{"cat"}}, "", "", 0},
		{"script with arguments", Command{Script: `printf '[%s]' "$#" "$@"`, Args: []string{"a b", "", "$x"}}, "[3][a b][][$x]", "", 0},
		{"script with environment", Command{Script: "sh -c 'echo \"$TOKEN\"'", Env: map[string]string{"TOKEN": "it's $1"}}, "it's $1\n", "", 0},
		{"script reads its own input, not itself", Command{Script: "cat; echo end", Stdin: strings.NewReader("in\n")}, "in\nend\n", "", 0},
		{"script cannot eat itself", Command{Script: "cat\necho end"}, "end\n", "", 0},
		{"script stops at its first failure if it says so", Command{Script: "set -eu\nfalse\necho no"}, "", "", 1},
		{"script with here-document and comment at its end", Command{Script: "cat <<'X'\n$a }\nX\n# the end"}, "$a }\n", "", 0},
		{"script exits", Command{Script: "echo a; exit 3; echo b"}, "a\n", "", 3},
		{"argv with environment and input", Command{Argv: []string{"sh", "-c", "echo $TOKEN; cat"}, Env: map[string]string{"TOKEN": "x"}, Stdin: strings.NewReader("in")}, "x\nin", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := h.Run(t.Context(), c.cmd)
			if diff := cmp.Diff([]string{c.stdout, c.stderr}, []string{
				string(got.Stdout), string(got.Stderr),
			}); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			exit, isExit := errors.AsType[*ExitError](err)
			if got.ExitCode != c.code || isExit != (c.code != 0) || (err != nil && !isExit) {
				t.Errorf("exit code %d, error %v, want code %d", got.ExitCode, err, c.code)
			}
			if isExit && !cmp.Equal(exit.Result, got) {
				t.Error("the error does not keep the result")
			}
		})
	}
}

func TestScriptWithSyntaxErrorDoesNothing(t *testing.T) {
	s, h := connected(t)
	_, err := h.Run(t.Context(), Command{Name: "install", Script: "touch done\nif true; then\n"})
	contains(t, err, "ci-1: install exited with", "syntax error")
	if _, err := os.Stat(filepath.Join(s.home, "done")); err == nil {
		t.Error("a part of the script was run")
	}
}

func TestSecretsAreInNoArgument(t *testing.T) {
	s, h := connected(t)
	if _, err := h.Run(t.Context(), Command{Script: "true #s3cret", Env: map[string]string{"T": "t0ken"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}, Env: map[string]string{"T": "t0ken"}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range s.seen() {
		if strings.Contains(line, "s3cret") || strings.Contains(line, "t0ken") {
			t.Errorf("the command line %q shows a secret", line)
		}
	}
}

func TestCommandsThatCannotBe(t *testing.T) {
	_, h := connected(t)
	for name, cmd := range map[string]Command{
		"empty":         {},
		"both":          {Argv: []string{"true"}, Script: "true"},
		"argv and args": {Argv: []string{"true"}, Args: []string{"x"}},
		"NUL":           {Argv: []string{"echo", "a\x00b"}},
		"bad variable":  {Script: "true", Env: map[string]string{"A-B": ""}},
	} {
		_, err := h.Run(t.Context(), cmd)
		if err == nil || !strings.HasPrefix(err.Error(), "ci-1: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestExitErrorMessage(t *testing.T) {
	_, h := connected(t)
	_, err := h.Run(t.Context(), Command{Script: "seq 1 9 >&2; printf '\\033[31mred\\033[0m\\n' >&2; exit 4", Name: "install"})
	contains(t, err, "ci-1: install exited with 4: 8 | 9 | [31mred[0m")
	_, err = h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo only stdout; kill -TERM $$"}})
	contains(t, err, "ci-1: sh -c 'echo only stdout; kill -TERM $$' was ended by signal TERM: only stdout")
	if e, _ := errors.AsType[*ExitError](err); e == nil || e.Result.Signal != "TERM" || e.Result.ExitCode != 143 {
		t.Errorf("got %+v", e)
	}
}

func TestOnLine(t *testing.T) {
	_, h := connected(t)
	var got []string
	long := strings.Repeat("x", 70<<10)
	_, err := h.Run(t.Context(), Command{
		Script: `printf 'a\r\nb\n\nlast'; sleep 0.1; echo e >&2; sleep 0.1; printf '\n'; head -c 71680 /dev/zero | tr '\0' x`,
		OnLine: func(stream, line string) { got = append(got, stream+":"+line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"stdout:a", "stdout:b", "stdout:", "stderr:e", "stdout:last", "stdout:" + long[:64<<10],
		"stdout:" + long[64<<10:],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestDeadlineEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, signal string }{
		{"obeys TERM", "echo begun; sleep 60", "TERM"},
		{"ignores TERM", "trap '' TERM; echo begun; sleep 60", "KILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, h := connected(t)
			wantWithin(t, 6*time.Second, func() {
				got, err := h.Run(t.Context(), Command{Script: c.script, Timeout: 700 * time.Millisecond})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				contains(t, err, "ci-1: script: it did not end within 700ms", "begun")
				if got.Signal != c.signal || string(got.Stdout) != "begun\n" {
					t.Errorf("signal %q, output %q", got.Signal, got.Stdout)
				}
			})
		})
	}
}

func TestCancelEndsTheCommand(t *testing.T) {
	t.Parallel()
	s, h := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := h.Run(ctx, Command{
		Script: "echo $$ > pid; echo begun; exec sleep 60",
		OnLine: func(string, string) { cancel() },
	})
	if unfinished, _ := errors.AsType[*UnfinishedError](err); unfinished == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pid, err := os.ReadFile(filepath.Join(s.home, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil {
		t.Error("the remote process still runs")
	}
}

// What a command has started ends with it, on the node, however it has slipped away: by the ways of sudo above all,
// whose children lose the environment and, with a terminal of their own, the session. What is not the command's is left
// alone.
func TestCancelEndsWhatTheCommandHasStarted(t *testing.T) {
	t.Parallel()
	const note = "echo $$ > pid; echo begun; "
	wait := "while :; do sleep 0.2; done"
	for name, script := range map[string]string{
		"a child":                              "sh -c " + Quote(note+"sleep 60; true") + "; true",
		"in the background, its parent gone":   "(sh -c " + Quote(note+wait) + " &) ; sleep 60",
		"in a session of its own":              "setsid sh -c " + Quote(note+wait) + " & sleep 60",
		"without the environment":              "env -i PATH=$PATH sh -c " + Quote(note+wait) + "; true",
		"without the environment, own session": "env -i PATH=$PATH setsid -w sh -c " + Quote(note+wait) + "; true",
		"as before, and deaf to TERM": "env -i PATH=$PATH setsid -w sh -c " + Quote(
			"trap '' TERM HUP INT; "+note+wait,
		) + "; true",
		"deaf, and so is its parent": "trap '' TERM; sh -c " + Quote(note+wait) + "; true",
	} {
		for _, deaf := range []bool{false, true} { // OpenSSH passes no signals on where the user is root
			t.Run(fmt.Sprintf("%s, server deaf %v", name, deaf), func(t *testing.T) {
				t.Parallel()
				s, h := connected(t)
				s.deaf = deaf
				bystander, err := h.Run(t.Context(), Command{Script: "setsid sleep 60 >/dev/null 2>&1 & echo $!"})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					_, _ = h.Run(
						t.Context(), Command{Argv: []string{"kill", strings.TrimSpace(string(bystander.Stdout))}},
					)
				}()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wantWithin(t, 10*time.Second, func() {
					_, err := h.Run(ctx, Command{Script: script, OnLine: func(string, string) { cancel() }})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				})
				pid, err := os.ReadFile(filepath.Join(s.home, "pid"))
				if err != nil {
					t.Fatal(err)
				}
				if runs(strings.TrimSpace(string(pid))) {
					t.Error("what the command has started still runs")
				}
				if !runs(strings.TrimSpace(string(bystander.Stdout))) {
					t.Error("a process of another command was ended")
				}
			})
		}
	}
}

// runs tells whether a process exists that has not ended.
func runs(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

func TestPeersThatHang(t *testing.T) {
	t.Parallel()
	t.Run("silent from the start", func(t *testing.T) {
		t.Parallel()
		cfg := testConfig(t)
		cfg.ConnectTimeout = 200 * time.Millisecond
		h := newDialer(t, cfg).Host(nodeAt(silent(t), 1))
		wantWithin(t, 5*time.Second, func() {
			_, err := h.Run(t.Context(), Command{Argv: []string{"true"}})
			contains(t, err, "ci-1: ", "did not finish the handshake within 200ms")
		})
	})
	t.Run("silent, and the command's deadline is shorter", func(t *testing.T) {
		t.Parallel()
		h := newDialer(t, testConfig(t)).Host(nodeAt(silent(t), 1))
		wantWithin(t, 5*time.Second, func() {
			_, err := h.Run(t.Context(), Command{Argv: []string{"true"}, Timeout: 100 * time.Millisecond})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
	for name, keepAlive := range map[string]time.Duration{
		"half open, found by keep-alive": 50 * time.Millisecond, "half open, ended by the deadline": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, newServer(t).addr)
			cfg := testConfig(t)
			cfg.KeepAlive = keepAlive
			h := newDialer(t, cfg).Host(nodeAt(p.addr, 1))
			wantWithin(t, 8*time.Second, func() {
				_, err := h.Run(t.Context(), Command{
					Script: "echo begun; sleep 60", Timeout: time.Second,
					OnLine: func(string, string) { p.freeze() },
				})
				want := ErrConnectionLost
				if keepAlive == time.Hour {
					want = context.DeadlineExceeded
				}
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		})
	}
	t.Run("stops reading", func(t *testing.T) {
		t.Parallel()
		p := newProxy(t, newServer(t).addr)
		h := newDialer(t, testConfig(t)).Host(nodeAt(p.addr, 1))
		if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		p.freeze()
		wantWithin(t, 8*time.Second, func() {
			_, err := h.Run(t.Context(), Command{
				Argv: []string{"cat"}, Stdin: endless{}, Timeout: 300 * time.Millisecond,
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// scripted is an SSH server that accepts one exec request and then does as play says with the channel.
func scripted(t *testing.T, play func(ch ssh.Channel)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	cfg.AddHostKey(newHostKey(t))
	var work sync.WaitGroup
	work.Go(func() {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		_, channels, requests, err := ssh.NewServerConn(raw, cfg)
		if err != nil {
			return
		}
		work.Go(func() { ssh.DiscardRequests(requests) })
		for nc := range channels {
			ch, reqs, err := nc.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				for req := range reqs {
					_ = req.Reply(true, nil)
					if req.Type == "exec" {
						work.Go(func() { play(ch) })
					}
				}
				_ = ch.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().(*net.TCPAddr)
}

func sendExit(ch ssh.Channel, code uint32) {
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
}

func TestEndsOfCommands(t *testing.T) {
	t.Parallel()
	t.Run("something in the background holds the output", func(t *testing.T) {
		addr := scripted(t, func(ch ssh.Channel) {
			_, _ = ch.Write([]byte("begun\n"))
			sendExit(ch, 0)
			time.Sleep(100 * time.Millisecond)
			_, _ = ch.Write([]byte("late\n"))
		})
		h := newDialer(t, testConfig(t)).Host(nodeAt(addr, 1))
		wantWithin(t, 5*time.Second, func() {
			got, err := h.Run(t.Context(), Command{Argv: []string{"x"}})
			if err != nil || string(got.Stdout) != "begun\nlate\n" {
				t.Errorf("got %q, %v", got.Stdout, err)
			}
		})
		_ = h.dialer.Close()
	})
	t.Run("no exit status", func(t *testing.T) {
		addr := scripted(t, func(ch ssh.Channel) {
			_, _ = ch.Stderr().Write([]byte("going down\n"))
			_ = ch.Close()
		})
		h := newDialer(t, testConfig(t)).Host(nodeAt(addr, 1))
		got, err := h.Run(t.Context(), Command{Argv: []string{"reboot"}})
		contains(t, err, "ci-1: reboot: command ended without an exit status: going down")
		if got.ExitCode != -1 {
			t.Errorf("exit code %d", got.ExitCode)
		}
		_ = h.dialer.Close()
	})
}

func TestOneConnectionForManySessions(t *testing.T) {
	s, h := connected(t)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if got, err := h.Run(t.Context(), Command{Argv: []string{"echo", "x"}}); err != nil ||
				string(got.Stdout) != "x\n" {
				t.Errorf("got %q, %v", got.Stdout, err)
			}
		})
	}
	all.Wait()
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections were made, not one", n)
	}
}

func TestDialsAgainWhenBroken(t *testing.T) {
	s, h := connected(t)
	for range 2 {
		if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		s.restart()
	}
	begun := make(chan struct{}, 1)
	go func() {
		<-begun
		s.stop()
	}()
	_, err := h.Run(t.Context(), Command{Script: "echo begun; sleep 60", OnLine: func(string, string) { begun <- struct{}{} }})
	if !errors.Is(err, ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	if n := len(slices.DeleteFunc(s.seen(), func(c string) bool { return !strings.Contains(c, "bash") })); n != 1 {
		t.Errorf("the command was started %d times", n)
	}
}

func TestClosedDialer(t *testing.T) {
	_, h := connected(t)
	if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.dialer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestDialContext(t *testing.T) {
	_, h := connected(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
	c, err := h.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := c.Read(buf); err != nil || string(buf) != "hello" {
		t.Errorf("got %q, %v", buf, err)
	}
	_ = c.Close()
	_ = l.Close()
	_, err = h.DialContext(t.Context(), "tcp", l.Addr().String())
	contains(t, err, "ci-1: ", "connecting from the node to 127.0.0.1")
}

func TestRunIsLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(t)
	cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d := newDialer(t, cfg)
	h := d.Host(newServer(t).node(1))
	if _, err := h.Run(t.Context(), Command{Name: "a step", Script: "echo hidden; exit 3"}); err == nil {
		t.Error("it passed")
	}
	if _, err := h.Run(t.Context(), Command{
		Name: "slow", Argv: []string{"sleep", "60"}, Timeout: 300 * time.Millisecond,
	}); err == nil {
		t.Error("it passed")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{
		`msg="ssh command" node=ci-1 ms=`, `command="a step" exit=3`,
		`command=slow error="ci-1: slow: it did not end within 300ms`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("a command's script or output is there:\n%s", text)
	}
}
