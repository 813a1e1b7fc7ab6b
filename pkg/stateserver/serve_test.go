package stateserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// running starts a server, and returns where it listens and what ends it.
func running(t *testing.T, s *Server) (Info, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan Info, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(info Info) { ready <- info }) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	select {
	case info := <-ready:
		return info, stop
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return Info{}, nil
	}
}

// raw sends what is not quite HTTP, and returns the status line.
func raw(t *testing.T, info Info, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(info.Endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

const asAlice = "Authorization: Basic YWxpY2U6c2VjcmV0LWE=\r\n" // alice:secret-a

// An upload that is cut off anywhere leaves the state as it was.
func TestUploadsThatAreCutOff(t *testing.T) {
	s, _ := serverOf(t, new(memory))
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", "before"), 200, ""}})
	info, _ := running(t, s)
	body := stateOf(2, "l", strings.Repeat("0123456789abcdef", 40<<10/16))
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, form := range []struct{ header, body string }{
		{fmt.Sprintf("Content-Length: %d\r\n", len(body)), body}, {"Transfer-Encoding: chunked\r\n", chunked},
	} {
		for cut := 0; cut < len(form.body); cut += 1024 {
			line := raw(t, info, "POST /state/a HTTP/1.1\r\nHost: x\r\n"+asAlice+form.header+"\r\n"+form.body[:cut])
			if strings.Contains(line, "200") {
				t.Fatalf("cut at %d: %s", cut, line)
			}
		}
		last := form.body[:len(form.body)-1]
		if line := raw(t, info, "POST /state/a HTTP/1.1\r\nHost: x\r\n"+asAlice+form.header+"\r\n"+last); strings.Contains(line, "200") {
			t.Errorf("cut before the last byte: %s", line)
		}
	}
	run(t, s, []step{
		{"GET", "/state/a", "", 200, "before"},
		{"GET", "/history/a?version=2", "", 404, ""},
	})
	if line := raw(t, info, "POST /state/a HTTP/1.1\r\nHost: x\r\n"+asAlice+"Transfer-Encoding: chunked\r\n\r\n"+chunked); !strings.Contains(line, "200") {
		t.Errorf("the whole: %s", line)
	}
}

// A client that goes away while its state is being written has written it whole or not at all, and a storage that is slow
// makes others wait only for that.
func TestClientsThatGoAway(t *testing.T) {
	m := new(memory)
	s, _ := serverOf(t, m)
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", "one"), 200, ""}})
	info, _ := running(t, s)
	reached, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.mu.Lock()
	m.before = func(operation, key string) error {
		if operation == "create" && strings.Contains(key, "states/a/_versions") {
			once.Do(func() { close(reached) })
			<-hold
		}
		return nil
	}
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, info.Endpoint+"/state/a", strings.NewReader(stateOf(2, "l", "two")))
	r.SetBasicAuth("alice", "secret-a")
	gone := make(chan struct{})
	go func() {
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
		close(gone)
	}()
	<-reached
	cancel()
	<-gone
	run(t, s, []step{{"POST", "/state/b", stateOf(1, "l", "another"), 200, ""}})
	close(hold)
	for end := time.Now().Add(10 * time.Second); !strings.Contains(ask(s, "GET", "/state/a", "").Body.String(), "two"); {
		if time.Now().After(end) {
			t.Fatal("what had begun is not finished")
		}
		time.Sleep(time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A server that is to end finishes what is being written, and refuses what is new.
func TestEnd(t *testing.T) {
	m := new(memory)
	s, _ := serverOf(t, m)
	info, stop := running(t, s)
	reached, hold := make(chan struct{}), make(chan struct{})
	m.before = func(operation, key string) error {
		if operation == "create" && strings.Contains(key, "_log") {
			close(reached)
			<-hold
		}
		return nil
	}
	answered := make(chan error, 1)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	post := func(name string) error {
		r, _ := http.NewRequest(http.MethodPost, info.Endpoint+"/state/"+name, strings.NewReader(stateOf(1, "l", "")))
		r.SetBasicAuth("alice", "secret-a")
		answer, err := client.Do(r)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != 200 {
				err = errors.New(answer.Status)
			}
		}
		return err
	}
	go func() { answered <- post("a") }()
	<-reached
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	refused := func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(info.Endpoint, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}
	for end := time.Now().Add(10 * time.Second); !refused(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("new connections are taken")
		}
	}
	close(hold)
	if err := errors.Join(<-answered, <-stopped); err != nil {
		t.Fatal(err)
	}
	m.before = nil
	run(t, s, []step{{"GET", "/state/a", "", 200, ""}})
}

// A mistake that makes a request panic ends that request, and is told.
func TestPanic(t *testing.T) {
	m := new(memory)
	s, log := serverOf(t, m)
	info, _ := running(t, s)
	m.before = func(string, string) error { panic("a mistake") }
	r, _ := http.NewRequest(http.MethodGet, info.Endpoint+"/state/a", nil)
	r.SetBasicAuth("alice", "secret-a")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	m.before = nil
	if answer.StatusCode != 500 || !strings.Contains(log.String(), "a mistake") {
		t.Errorf("%d, and the log:\n%s", answer.StatusCode, log)
	}
	run(t, s, []step{{"POST", "/state/a", stateOf(1, "l", ""), 200, ""}})
	http.DefaultClient.CloseIdleConnections()
}

// The server's own certificate stays the same for all servers of a storage, and says the names that it is asked for.
func TestOwnCertificate(t *testing.T) {
	m := new(memory)
	own := func(names ...string) func(*Options) {
		return func(o *Options) { o.TLS, o.Names = SelfSigned, names }
	}
	s, _ := serverOf(t, m, own("states.example"))
	first, stop := running(t, s)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, _ := serverOf(t, m, own("states.example"))
	info, _ := running(t, again)
	if info.Fingerprint != first.Fingerprint || len(info.Fingerprint) != 32*3-1 {
		t.Errorf("the fingerprint was %s and is %s", first.Fingerprint, info.Fingerprint)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ask(again, "GET", "/certificate", "").Body.Bytes())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "states.example"}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get(info.Endpoint + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}}}
	if answer, err := old.Get(info.Endpoint + "/healthz"); err == nil {
		_ = answer.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}
	more, _ := serverOf(t, m, own("states.example", "another.example"))
	now, _ := running(t, more)
	if now.Fingerprint == first.Fingerprint {
		t.Error("a certificate without a name that is asked for is used")
	}
}

// A certificate of files is read again when it was renewed.
func TestGivenCertificate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "both.pem")
	renew := func() {
		made, err := makeCertificate([]string{"127.0.0.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", made, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	s, _ := serverOf(t, new(memory), func(o *Options) { o.CertFile, o.KeyFile = path, path })
	info, _ := running(t, s)
	fingerprint := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(info.Endpoint, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return Fingerprint(c.ConnectionState().PeerCertificates[0].Raw)
	}
	before := fingerprint()
	if before != info.Fingerprint {
		t.Errorf("shown is %s, printed was %s", before, info.Fingerprint)
	}
	time.Sleep(10 * time.Millisecond) // file systems tell times apart so much
	renew()
	if fingerprint() == before {
		t.Error("the certificate before is shown")
	}
}

func TestWhatIsPlain(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{Listen: "127.0.0.1:1", TLS: Auto}, true},
		{Options{Listen: "[::1]:1", TLS: Auto}, true},
		{Options{Listen: "0.0.0.0:1", TLS: Auto}, false},
		{Options{Listen: ":1", TLS: Auto}, false},
		{Options{Listen: "localhost:1", TLS: Auto}, false},
		{Options{Listen: "10.0.0.1:1", TLS: Auto}, false},
		{Options{Listen: "127.0.0.1:1", TLS: SelfSigned}, false},
		{Options{Listen: "0.0.0.0:1", TLS: Plain}, true},
		{Options{Listen: "127.0.0.1:1", TLS: Auto, CertFile: "c", KeyFile: "c"}, false},
	} {
		if got := c.o.plain(); got != c.want {
			t.Errorf("%+v: %t", c.o, got)
		}
	}
	for listen, want := range map[string]bool{"127.0.0.1:0": false, "localhost:0": true} { // a name can be of any address
		s, _ := serverOf(t, new(memory), func(o *Options) { o.Listen, o.TLS = listen, Plain })
		if info, _ := running(t, s); info.Exposed != want || info.Fingerprint != "" {
			t.Errorf("plain HTTP on %s: %+v", listen, info)
		}
	}
}

// A client that sends its header slowly is not waited for. (Its time limit is real: the test waits for it.)
func TestSlowClients(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes as long as a time limit: make soak runs it")
	}
	s, _ := serverOf(t, new(memory))
	info, _ := running(t, s)
	c, err := net.Dial("tcp", strings.TrimPrefix(info.Endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	begun := time.Now()
	for {
		if _, err := io.WriteString(c, "G"); err != nil {
			break
		}
		if time.Since(begun) > 3*headerTime {
			t.Fatal("it is waited for")
		}
		time.Sleep(time.Second)
	}
}

// Whether the storage can be written is told, and asking often does not write often.
func TestHealth(t *testing.T) {
	m := new(memory)
	s, _ := serverOf(t, m)
	var writes atomic.Int32
	m.before = func(operation, _ string) error {
		if operation == "create" {
			writes.Add(1)
			return errStorage
		}
		return nil
	}
	for range 100 {
		if w := ask(s, "GET", "/healthz", ""); w.Code != 503 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := writes.Load(); n > 2 {
		t.Errorf("100 questions have written %d times", n)
	}
	m.before = nil
	s.health.at = time.Time{}
	run(t, s, []step{{"GET", "/healthz", "", 200, "ok"}})
}

func TestOptionsThatAreRefused(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.MaxSize = 0 }, func(o *Options) { o.MaxSize = LargestSize + 1 },
		func(o *Options) { o.CertFile = "x" }, func(o *Options) { o.UsersFile = "/nothing" },
	} {
		o := Options{UsersFile: usersOf(t), MaxSize: 1, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		change(&o)
		if _, err := New(new(memory), Keys{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
