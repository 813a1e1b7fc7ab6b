package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// stateServers are processes of `hive-test state serve` on one storage.
type stateServers struct {
	storage string
	users   string // file
	client  *http.Client
}

// newStateServers are none as yet. An empty storage is a new directory.
func newStateServers(t testing.TB, storage string) *stateServers {
	t.Helper()
	dir := t.TempDir()
	s := &stateServers{storage: cmp.Or(storage, filepath.Join(dir, "states")), users: filepath.Join(dir, "users"), client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	hash, err := bcrypt.GenerateFromPassword([]byte(canarySecret), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.users, fmt.Appendf(nil, "me:%s\nyou:%s\n", hash, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

var servedAt = regexp.MustCompile(`states are served at (\S+)/state/NAME`)

// start starts one, and returns where it listens. It ends with the test at the latest.
func (s *stateServers) start(t testing.TB) (*exec.Cmd, string) {
	t.Helper()
	serve := exec.Command(filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "hive-test"), "state", "serve",
		"--listen", "127.0.0.1:0", "--storage", s.storage, "--users", s.users)
	told, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	lines := bufio.NewReader(told)
	line, err := lines.ReadString('\n')
	found := servedAt.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("the server says %q (%v)", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return serve, found[1]
}

// ask returns the status and body of an answer; 0: there was none.
func (s *stateServers) ask(method, address, body string) (int, string) {
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.SetBasicAuth("me", canarySecret)
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(data)
}

// stateClient writes one state again and again, and knows what was acknowledged.
type stateClient struct {
	name   string
	serial int // that was acknowledged last
	sent   int // that was sent last
	lock   string
	locked bool // the lock was acknowledged, and its release not asked for
}

func (c *stateClient) state(serial int) string {
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"of-%s","outputs":{"mark":"%s-%d","filler":"%s"}}`,
		serial, c.name, c.name, serial, strings.Repeat("x", 2000+serial%7*9000))
}

// work writes until an answer is missing. Each step goes to another server.
func (c *stateClient) work(s *stateServers, servers []string) error {
	at := rand.IntN(len(servers))
	ask := func(method, query, body string) (int, string) {
		at++
		return s.ask(method, servers[at%len(servers)]+"/state/"+c.name+query, body)
	}
	for round := 0; ; round++ {
		if !c.locked {
			c.lock = fmt.Sprintf("%s-%d-%d", c.name, c.sent, round)
			if code, text := ask("LOCK", "", `{"ID":"`+c.lock+`"}`); code == 0 {
				return nil
			} else if code != 200 {
				return fmt.Errorf("locking %s: %d %s", c.name, code, text)
			}
			c.locked = true
		}
		c.sent = c.serial + 1
		if code, text := ask("POST", "?ID="+c.lock, c.state(c.sent)); code == 0 {
			return nil
		} else if code != 200 {
			return fmt.Errorf("writing %s: %d %s", c.name, code, text)
		}
		c.serial = c.sent
		c.locked = false
		if code, text := ask("UNLOCK", "", `{"ID":"`+c.lock+`"}`); code == 0 {
			return nil
		} else if code != 200 {
			return fmt.Errorf("unlocking %s: %d %s", c.name, code, text)
		}
	}
}

// check compares what a server has with what was acknowledged, and gets the client ready to go on.
func (c *stateClient) check(s *stateServers, server string) error {
	code, body := s.ask("GET", server+"/state/"+c.name, "")
	switch {
	case code == 200 && (body == c.state(c.serial) || body == c.state(c.sent)):
	case code == 404 && c.serial == 0:
	default:
		return fmt.Errorf("%s: %d was acknowledged and %d sent last, and there is %d %.100s", c.name, c.serial, c.sent, code, body)
	}
	if code == 200 && body == c.state(c.sent) {
		c.serial = c.sent
	}
	code, body = s.ask("GET", server+"/history/"+c.name+"?limit=1000", "")
	var history struct {
		Lock     *struct{ ID string }
		Versions []struct{ Version, Serial int }
	}
	if code != 404 || c.serial > 0 {
		if err := json.Unmarshal([]byte(body), &history); err != nil {
			return fmt.Errorf("%s: its history: %d %w", c.name, code, err)
		}
	}
	for i, v := range history.Versions {
		if want := c.serial - i; v.Version != want || v.Serial != want {
			return fmt.Errorf("%s: version %d has serial %d, want %d", c.name, v.Version, v.Serial, want)
		}
	}
	if c.locked && (history.Lock == nil || history.Lock.ID != c.lock) {
		return fmt.Errorf("%s: lock %s was acknowledged, and there is %v", c.name, c.lock, history.Lock)
	}
	if history.Lock != nil { // as who was told that the answer is missing
		if code, text := s.ask("UNLOCK", server+"/state/"+c.name, `{"ID":"`+history.Lock.ID+`"}`); code != 200 {
			return fmt.Errorf("%s: unlocking: %d %s", c.name, code, text)
		}
	}
	c.locked = false
	return nil
}

// Servers that are killed at any moment while clients write through all of them have what they have acknowledged, states and
// locks, when they are started again, and nobody has to mend anything.
func TestKilledStateServersKeepWhatTheyAnswered(t *testing.T) {
	skipInShort(t)
	moments := 3
	if soaking() {
		moments = 100
	}
	t.Run("files", func(t *testing.T) {
		s := newStateServers(t, "")
		killStateServers(t, s, moments)
		left, err := filepath.Glob(filepath.Join(s.storage, ".writing", "process-*"))
		if err != nil || len(left) > 1 {
			t.Errorf("what killed servers were writing is there: %q (%v)", left, err)
		}
	})
	t.Run("s3", func(t *testing.T) {
		bucket := os.Getenv("HIVE_TEST_S3") // make test-s3 sets it
		if bucket == "" {
			t.Skip("there is no S3 server: make test-s3 starts one")
		}
		address, parameters, _ := strings.Cut(bucket, "?")
		killStateServers(t, newStateServers(t, fmt.Sprintf("%s/kill-%d?%s", address, time.Now().UnixNano(), parameters)), moments)
	})
}

// killStateServers kills servers at so many moments.
func killStateServers(t *testing.T, s *stateServers, moments int) {
	clients := make([]*stateClient, 6)
	for i := range clients {
		clients[i] = &stateClient{name: fmt.Sprintf("team/state-%d", i)}
	}
	for moment := range moments {
		first, at := s.start(t)
		second, alsoAt := s.start(t)
		errs := make([]error, len(clients))
		var group sync.WaitGroup
		for i, c := range clients {
			group.Go(func() { errs[i] = c.work(s, []string{at, alsoAt}) })
		}
		time.Sleep(time.Duration(rand.IntN(int(400 * time.Millisecond))))
		_ = first.Process.Kill()
		if moment%2 == 0 {
			time.Sleep(time.Duration(rand.IntN(int(20 * time.Millisecond))))
		}
		_ = second.Process.Kill()
		group.Wait()
		_, _ = first.Wait(), second.Wait()
		again, at := s.start(t)
		for i, c := range clients {
			if errs[i] == nil {
				errs[i] = c.check(s, at)
			}
			if errs[i] != nil {
				t.Fatalf("moment %d: %v", moment, errs[i])
			}
		}
		_ = again.Process.Kill()
		_ = again.Wait()
	}
	written := 0
	for _, c := range clients {
		written += c.serial
	}
	if written < moments {
		t.Errorf("%d versions were written", written)
	}
	t.Logf("%d moments, %d versions", moments, written)
}

// BenchmarkStateServe has 500 clusters plan and apply, each once in a minute: they read, lock, read, write and unlock a state
// of 100 KiB.
func BenchmarkStateServe(b *testing.B) {
	const clusters, window = 500, time.Minute
	s := newStateServers(b, "")
	server, at := s.start(b)
	body := func(name string, serial int) string {
		return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"%s","outputs":{"x":"%s"}}`, serial, name, bytes.Repeat([]byte("x"), 100<<10))
	}
	var all []time.Duration
	serial := 0
	for b.Loop() {
		serial++
		took := make([][]time.Duration, clusters)
		var group sync.WaitGroup
		begun := time.Now()
		for i := range clusters {
			group.Go(func() {
				time.Sleep(time.Until(begun.Add(time.Duration(i) * window / clusters)))
				address := fmt.Sprintf("%s/state/bench/cluster-%d", at, i)
				id := fmt.Sprintf("%d-%d", serial, i)
				for _, step := range []struct{ method, query, body string }{
					{"GET", "", ""},
					{"LOCK", "", `{"ID":"` + id + `"}`},
					{"GET", "", ""},
					{"POST", "?ID=" + id, body(fmt.Sprint(i), serial)},
					{"UNLOCK", "", `{"ID":"` + id + `"}`},
				} {
					from := time.Now()
					code, text := s.ask(step.method, address+step.query, step.body)
					took[i] = append(took[i], time.Since(from))
					if code != 200 && (code != 404 || step.method != "GET") {
						b.Errorf("%s: %d %s", step.method, code, text)
					}
				}
			})
		}
		group.Wait()
		all = append(all, slices.Concat(took...)...)
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	_ = server.Wait()
	used := server.ProcessState.UserTime() + server.ProcessState.SystemTime()
	slices.Sort(all)
	p50, p99 := all[len(all)/2], all[len(all)*99/100]
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(used.Microseconds())/1000/float64(len(all)), "cpu-ms/request")
	b.Logf("%d requests of %d clusters in %s, with %s of a processor each: half within %s, 99 %% within %s (wanted: 50ms), all within %s",
		len(all), clusters, window, (used / time.Duration(len(all))).Round(10*time.Microsecond), p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond))
}
