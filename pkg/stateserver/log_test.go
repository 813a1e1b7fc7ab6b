package stateserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errStorage = errors.New("the storage failed")

// Two servers on one storage never both write what comes after the same version, nor both have the lock.
func TestServersShareAStorage(t *testing.T) {
	m := new(memory)
	one, _ := serverOf(t, m)
	other, _ := serverOf(t, m)
	servers := []*Server{one, other}
	const clients, rounds = 8, 12
	var written, inside atomic.Int64
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for round := range rounds {
				s, id := servers[(client+round)%2], fmt.Sprintf("lock-%d-%d", client, round)
				for ask(s, "LOCK", "/state/shared", lockOf(id)).Code != 200 {
					time.Sleep(time.Millisecond)
				}
				if inside.Add(1) != 1 {
					t.Error("two have the lock")
				}
				serial := 0
				if w := ask(servers[round%2], "GET", "/state/shared", ""); w.Code == 200 {
					file, err := parseState(w.Body.Bytes())
					if err != nil {
						t.Error(err)
					}
					serial = int(file.serial)
				}
				body := stateOf(serial+1, "l", id)
				if w := ask(s, "POST", "/state/shared?ID="+id, body); w.Code != 200 {
					t.Errorf("%s: %d %s", id, w.Code, w.Body)
				}
				written.Add(1)
				inside.Add(-1)
				if w := ask(servers[client%2], "UNLOCK", "/state/shared", lockOf(id)); w.Code != 200 {
					t.Errorf("unlocking %s: %d %s", id, w.Code, w.Body)
				}
			}
		})
	}
	group.Wait()
	var h History
	if err := json.Unmarshal(ask(one, "GET", "/history/shared?limit=1000", "").Body.Bytes(), &h); err != nil {
		t.Fatal(err)
	}
	if len(h.Versions) != int(written.Load()) || len(h.Versions) != clients*rounds {
		t.Fatalf("%d versions were written, and %d are there", written.Load(), len(h.Versions))
	}
	for i, v := range h.Versions {
		if want := int64(len(h.Versions) - i); v.Number != want || v.Serial != uint64(want) {
			t.Errorf("version %d has serial %d, want %d", v.Number, v.Serial, want)
		}
	}
	if keys, _ := m.List(t.Context(), logPrefix("shared")); len(keys) > keptRecords+4 {
		t.Errorf("%d records are kept", len(keys))
	}
}

// Without locks, of two who write after the same version one is refused.
func TestWritersWithoutLocks(t *testing.T) {
	m := new(memory)
	one, _ := serverOf(t, m)
	other, _ := serverOf(t, m)
	for round := range 30 {
		var fine, refused atomic.Int32
		var group sync.WaitGroup
		for writer, s := range []*Server{one, other, one, other} {
			group.Go(func() {
				switch w := ask(s, "POST", "/state/a", stateOf(round+1, "l", fmt.Sprint(writer))); w.Code {
				case 200:
					fine.Add(1)
				case 409:
					refused.Add(1)
				default:
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		group.Wait()
		if fine.Load() != 1 || refused.Load() != 3 {
			t.Fatalf("round %d: %d have written and %d were refused", round, fine.Load(), refused.Load())
		}
	}
}

// A server that was asleep while others wrote so much that records were deleted does not write into the gap.
func TestServerThatWasAsleep(t *testing.T) {
	m := new(memory)
	awake, _ := serverOf(t, m)
	asleep, _ := serverOf(t, &sleeper{memory: m})
	sleeping, wake := make(chan struct{}), make(chan struct{})
	var once sync.Once
	asleep.storage.(*sleeper).beforeRecord = func() {
		once.Do(func() {
			close(sleeping)
			<-wake
		})
	}
	run(t, awake, []step{{"POST", "/state/a", stateOf(1, "l", "first"), 200, ""}})
	answered := make(chan int)
	go func() { answered <- ask(asleep, "POST", "/state/a", stateOf(2, "l", "of the one asleep")).Code }()
	<-sleeping
	for i := range 3 * keptRecords {
		id := fmt.Sprint(i)
		run(t, awake, []step{
			{"LOCK", "/state/a", lockOf(id), 200, ""},
			{"UNLOCK", "/state/a", lockOf(id), 200, ""},
		})
	}
	run(t, awake, []step{{"POST", "/state/a", stateOf(9, "l", "newest"), 200, ""}})
	if _, err := m.Read(t.Context(), logKey("a", 2)); !errors.Is(err, ErrNotFound) {
		t.Fatalf("record 2 was to be deleted: %v", err)
	}
	close(wake)
	if code := <-answered; code != 409 {
		t.Errorf("the one asleep is answered %d", code)
	}
	run(t, awake, []step{
		{"GET", "/state/a", "", 200, "newest"},
		{"GET", "/history/a", "", 200, `"version": 2`},
		{"LOCK", "/state/a", lockOf("last"), 200, ""},
	})
	if strings.Contains(ask(awake, "GET", "/history/a?version=2", "").Body.String(), "asleep") {
		t.Error("what the one asleep wrote is a version")
	}
}

// sleeper is a storage that sleeps before it writes a record.
type sleeper struct {
	*memory
	beforeRecord func()
}

func (s *sleeper) Create(ctx context.Context, key string, data []byte) error {
	if strings.Contains(key, "/_log/") {
		s.beforeRecord()
	}
	return s.memory.Create(ctx, key, data)
}

// Whatever operation of the storage fails, before or after it was done, once or for good: a write that was acknowledged is
// there, one that was refused for good is not, and the next client can go on.
func TestStorageThatFails(t *testing.T) {
	base, _ := serverOf(t, new(memory))
	for _, when := range []string{"before", "after"} {
		for at := range 14 {
			for _, times := range []int{1, 2, 3, 1000} {
				t.Run(fmt.Sprintf("%s/%d/%d", when, at, times), func(t *testing.T) { failAt(t, base, when, at, times) })
			}
		}
	}
}

func failAt(t *testing.T, base *Server, when string, at, times int) {
	m := new(memory)
	s := over(base, m)
	run(t, s, []step{
		{"POST", "/state/a", stateOf(1, "l", "one"), 200, ""},
		{"LOCK", "/state/a", lockOf("i"), 200, ""},
	})
	var count atomic.Int64
	fail := func(string, string) error {
		if n := int(count.Add(1)) - 1; n >= at && n < at+times {
			return errStorage
		}
		return nil
	}
	if when == "before" {
		m.before = fail
	} else {
		m.after = func(operation, key string) error { return fail(operation, key) }
	}
	first := ask(s, "POST", "/state/a?ID=i", stateOf(2, "l", "two"))
	m.before, m.after = nil, nil
	if first.Code != 200 && first.Code != 503 {
		t.Fatalf("the write is answered %d %s", first.Code, first.Body)
	}
	if got := ask(s, "GET", "/state/a", ""); got.Code != 200 || first.Code == 200 && !strings.Contains(got.Body.String(), "two") {
		t.Fatalf("the write was answered %d, and the state is %d %s", first.Code, got.Code, got.Body)
	}
	run(t, s, []step{
		{"POST", "/state/a?ID=i", stateOf(2, "l", "two"), 200, ""}, // as clients do
		{"GET", "/state/a", "", 200, "two"},
		{"POST", "/state/a?ID=i", stateOf(3, "l", "three"), 200, ""},
		{"UNLOCK", "/state/a", lockOf("i"), 200, ""},
		{"GET", "/state/a", "", 200, "three"},
		{"GET", "/history/a?version=1", "", 200, "one"},
		{"GET", "/history/a?version=2", "", 200, "two"},
		{"GET", "/history/a?version=3", "", 200, "three"},
	})
}

// A record that a storage writes long after it has said that it failed does not count, for another has its number by then.
func TestRecordThatComesLate(t *testing.T) {
	m := new(memory)
	s, _ := serverOf(t, &late{memory: m})
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", "one"), 200, ""}})
	storage := s.storage.(*late)
	storage.lose = true
	if w := ask(s, "LOCK", "/state/a", lockOf("i")); w.Code != 503 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if storage.key == "" {
		t.Fatal("no record was lost")
	}
	_ = m.Create(t.Context(), storage.key, storage.data) // it comes now
	run(t, s, []step{
		{"GET", "/history/a", "", 200, `"lock": null`},
		{"LOCK", "/state/a", lockOf("k"), 200, ""},
	})
}

// late is a storage that loses a record and says that it failed.
type late struct {
	*memory
	lose bool
	key  string
	data []byte
}

func (l *late) Create(ctx context.Context, key string, data []byte) error {
	if l.lose && strings.Contains(key, "/_log/") {
		l.lose, l.key, l.data = false, key, data
		return errStorage
	}
	return l.memory.Create(ctx, key, data)
}

// What a server leaves that dies between a version and its record is no version, and is in nobody's way.
func TestServerThatDies(t *testing.T) {
	m := new(memory)
	s, _ := serverOf(t, m)
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", "one"), 200, ""}})
	for range 2 {
		v := &version{Version: Version{Number: 2, SHA256: "x"}, Object: versionName(2, newID())}
		if err := s.keep(t.Context(), "a", v, []byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	run(t, s, []step{
		{"GET", "/state/a", "", 200, "one"},
		{"GET", "/history/a?version=2", "", 404, ""},
		{"POST", "/state/a", stateOf(2, "l", "two"), 200, ""},
		{"POST", "/state/a", stateOf(3, "l", "three"), 200, ""},
		{"POST", "/state/a", stateOf(4, "l", "four"), 200, ""},
		{"GET", "/history/a?version=2", "", 200, "two"},
		{"GET", "/history/a?before=3", "", 200, `"serial": 2`},
	})
}

// What is damaged is never served as a state.
func TestDamage(t *testing.T) {
	m := new(memory)
	s, log := serverOf(t, m)
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", "one"), 200, ""}})
	for key, data := range m.objects {
		if strings.HasPrefix(key, "server/") {
			continue
		}
		for i := range len(data) {
			changed := append([]byte{}, data...)
			changed[i] ^= 1
			m.objects[key] = changed
			w := ask(s, "GET", "/state/a", "")
			if w.Code == http.StatusOK && w.Body.String() != stateOf(1, "l", "one") {
				t.Fatalf("with byte %d of %s changed, the state is %s", i, key, w.Body)
			}
		}
		m.objects[key] = data[:len(data)/2]
		if w := ask(s, "GET", "/state/a", ""); w.Code != 500 {
			t.Errorf("with half of %s: %d %s", key, w.Code, w.Body)
		}
		m.objects[key] = data
	}
	if !strings.Contains(log.String(), "damaged") {
		t.Error("the log tells nothing of damage")
	}
}

// Servers whose clocks are years apart, and go back, do the same as others.
func TestClocks(t *testing.T) {
	m := new(memory)
	clock := func(year int) func(*Options) {
		return func(o *Options) { o.Now = func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) } }
	}
	early, _ := serverOf(t, m, clock(1970))
	late, _ := serverOf(t, m, clock(2999))
	for i := range 4 {
		one, other, id := late, early, fmt.Sprint(i)
		if i%2 == 1 {
			one, other = early, late
		}
		run(t, one, []step{{"LOCK", "/state/a", lockOf(id), 200, ""}})
		run(t, other, []step{
			{"LOCK", "/state/a", lockOf("else"), 423, id},
			{"POST", "/state/a", stateOf(i+1, "l", "else"), 423, id},
			{"POST", "/state/a?ID=" + id, stateOf(i+1, "l", id), 200, ""},
		})
		run(t, one, []step{
			{"GET", "/state/a", "", 200, id},
			{"UNLOCK", "/state/a", lockOf(id), 200, ""},
		})
	}
}
