package host

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"hive-test/pkg/sim/sshd"
)

// terminal is a pseudo-terminal of the machine. Its master is opened non-blocking, so that closing it ends a pending
// read and hangs up at once; a read that blocks in the kernel would keep it open.
type terminal struct {
	fd     int
	master *os.File
	slave  *os.File
}

func openTerminal() (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	t := &terminal{fd: fd, master: os.NewFile(uintptr(fd), "ptmx")}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		t.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = t.master.Close()
		return nil, fmt.Errorf("open the terminal's other end: %w", err)
	}
	return t, nil
}

// resize may be called until master is closed; nil has no size.
func (t *terminal) resize(w sshd.Window) {
	if t != nil {
		_ = unix.IoctlSetWinsize(t.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(w.Columns), Row: uint16(w.Rows)})
	}
}
