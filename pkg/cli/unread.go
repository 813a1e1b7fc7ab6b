package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unreadInterval is how often it is looked whether somebody still reads.
const unreadInterval = 200 * time.Millisecond

// whileRead returns a context that ends when nobody reads w any more, with [syscall.EPIPE] as its cause. A write would
// tell only with the next line, and what is followed may never write one. The caller calls stop at the end.
func whileRead(ctx context.Context, w io.Writer) (reading context.Context, stop func()) {
	reading, cancel := context.WithCancelCause(ctx)
	stop = func() { cancel(context.Canceled) }
	file, ok := w.(*os.File)
	if !ok {
		return reading, stop
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return reading, stop
	}
	go func() {
		ticker := time.NewTicker(unreadInterval)
		defer ticker.Stop()
		for {
			select {
			case <-reading.Done():
				return
			case <-ticker.C:
				if unread(conn) {
					cancel(syscall.EPIPE)
				}
			}
		}
	}()
	return reading, stop
}

// unread reports whether conn is a pipe or a socket whose other end is closed. Linux answers POLLERR whatever is asked;
// macOS answers POLLHUP, and only if something is asked (xnu, bsd/kern/sys_generic.c).
func unread(conn syscall.RawConn) (gone bool) {
	_ = conn.Control(func(fd uintptr) {
		asked := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(asked, 0)
		gone = err == nil && n > 0 && asked[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return gone
}

// unlessUnread is err without that whoever read stdout has seen enough, as head has: that is no failure of a verb.
func (a *app) unlessUnread(err error) error {
	stdout, ok := a.Stdout.(*os.File)
	if !ok {
		return err
	}
	return withoutClosedPipe(err, stdout.Name())
}

// withoutClosedPipe is err without writes to the file of that name that failed because nobody reads it any more.
func withoutClosedPipe(err error, name string) error {
	switch outer := err.(type) {
	case *fs.PathError:
		if outer.Path == name && errors.Is(outer.Err, syscall.EPIPE) {
			return nil
		}
	case interface{ Unwrap() []error }:
		all := outer.Unwrap()
		var rest []error
		for _, inner := range all {
			if inner = withoutClosedPipe(inner, name); inner != nil {
				rest = append(rest, inner)
			}
		}
		if len(rest) < len(all) {
			return errors.Join(rest...)
		}
	case interface{ Unwrap() error }:
		if inner := outer.Unwrap(); inner != nil && withoutClosedPipe(inner, name) == nil {
			return nil
		}
	}
	return err
}
