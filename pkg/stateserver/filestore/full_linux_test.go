package filestore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"hive-test/pkg/stateserver"
)

// A disk that is full refuses what is written, has all that was acknowledged, and takes more once there is room.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 200<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("p"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, fmt.Appendf(nil, "me:%s\n", hash), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	server, err := stateserver.New(open(t, filepath.Join(disk, "states")), stateserver.Keys{}, stateserver.Options{
		UsersFile: users, MaxSize: 1 << 20, Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, target, body string) (int, string) {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.SetBasicAuth("me", "p")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	state := func(serial int) string {
		return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","filler":"%s"}`, serial, strings.Repeat("x", 30<<10))
	}
	serial, refused := 1, 0
	for ; refused < 3 && serial < 100; serial++ {
		switch code, text := ask("POST", "/state/a", state(serial)); code {
		case 200:
		case 503:
			refused++
			serial-- // as a client that tries again
		default:
			t.Fatalf("serial %d: %d %s", serial, code, text)
		}
	}
	if refused == 0 {
		t.Fatal("the disk is not full")
	}
	if code, text := ask("GET", "/state/a", ""); code != 200 || text != state(serial-1) {
		t.Errorf("on a full disk, the state is %d %.60s", code, text)
	}
	if code, text := ask("GET", "/healthz", ""); code == 200 && !strings.Contains(log.String(), "no space left") {
		t.Errorf("a full disk is told as %d %s", code, text)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if code, text := ask("POST", "/state/a", state(serial)); code != 200 {
		t.Errorf("with room, a write is answered %d %s", code, text)
	}
	if code, text := ask("GET", "/state/a", ""); code != 200 || text != state(serial) {
		t.Errorf("with room, the state is %d %.60s", code, text)
	}
	if left, _ := filepath.Glob(filepath.Join(disk, "states", ".writing", "*", "[0-9]*")); len(left) > 0 {
		t.Errorf("half written files are there: %q", left)
	}
}
