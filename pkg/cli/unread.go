package cli

import (
	"context"
	"io"
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
