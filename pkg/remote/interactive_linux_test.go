package remote

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hive-test/pkg/sim/sshd"
)

// openTerminal makes a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	return master, slave
}

func resize(t *testing.T, f *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func TestInteractiveOnATerminal(t *testing.T) {
	master, slave := openTerminal(t)
	resize(t, master, 100, 40)
	s, h := connected(t)
	s.windows = make(chan sshd.Window, 4)
	type end struct {
		exit int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		var out bytes.Buffer
		exit, err := h.Interactive(t.Context(), []string{"sh", "-c", "read x; exit 5"}, slave, &out, &out, true)
		ended <- end{exit, err}
	}()
	window := func() sshd.Window {
		select {
		case w := <-s.windows:
			return w
		case <-time.After(10 * time.Second):
			t.Fatal("no window size came")
			return sshd.Window{}
		}
	}
	if w := window(); w != (sshd.Window{Columns: 100, Rows: 40}) {
		t.Errorf("the session began with %+v", w)
	}
	if echoes(t, slave) {
		t.Error("the local terminal is not in raw mode")
	}
	resize(t, master, 120, 50)
	if w := window(); w != (sshd.Window{Columns: 120, Rows: 50}) {
		t.Errorf("the new size came as %+v", w)
	}
	if _, err := master.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if e := <-ended; e.err != nil || e.exit != 5 {
		t.Errorf("got %+v", e)
	}
	if !echoes(t, slave) {
		t.Error("the local terminal was not restored")
	}
	_ = master.Close() // ends the read that is under way
	_ = slave.Close()
}
