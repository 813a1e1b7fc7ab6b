package pve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// client is a plain HTTP client of a server under test.
type client struct {
	t     *testing.T
	e     Endpoint
	http  *http.Client
	token string
}

// answer is what a call came back with.
type answer struct {
	Status  int
	Reason  string
	Data    any
	Errors  map[string]string
	Message string
	Body    string
}

func startServer(t *testing.T, o Options) (*Server, *client, *fakeMachines) {
	t.Helper()
	f, _ := o.Machines.(*fakeMachines)
	if f == nil {
		f = newFake()
		o.Machines = f
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.AuthDelay == 0 {
		o.AuthDelay = -1
	}
	if o.OfflineDelay == 0 {
		o.OfflineDelay = -1
	}
	if o.AgentTimeout == 0 {
		o.AgentTimeout = -1
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, newClient(t, e), f
}

func newClient(t *testing.T, e Endpoint) *client {
	t.Helper()
	pem, err := os.ReadFile(e.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{t: t, e: e, http: &http.Client{Transport: tr}, token: e.Token}
}

func (c *client) as(token string) *client {
	other := *c
	other.token = token
	return &other
}

// do sends a request; the body's type follows from what it is: url.Values, map (JSON), string (form) or nil.
func (c *client) do(method, path string, body any) answer {
	c.t.Helper()
	return c.send(method, full(path), body)
}

func (c *client) send(method, path string, body any) answer {
	c.t.Helper()
	var r io.Reader
	ctype := ""
	switch b := body.(type) {
	case url.Values:
		r, ctype = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	case string:
		r, ctype = strings.NewReader(b), "application/x-www-form-urlencoded"
	case map[string]any:
		j, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		r, ctype = bytes.NewReader(j), "application/json"
	}
	h := http.Header{}
	if ctype != "" {
		h.Set("Content-Type", ctype)
	}
	if c.token != "" {
		h.Set("Authorization", "PVEAPIToken="+c.token)
	}
	return c.raw(method, path, h, r)
}

// full is the URL path of an API path; what starts with /sim or /api2 is one already.
func full(path string) string {
	if strings.HasPrefix(path, "/sim/") || strings.HasPrefix(path, "/api2/") {
		return path
	}
	return "/api2/json" + path
}

func (c *client) raw(method, path string, h http.Header, body io.Reader) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.e.URL+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = h
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{Reason: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	_, reason, _ := strings.Cut(resp.Status, " ")
	a := answer{Status: resp.StatusCode, Reason: reason, Body: string(b)}
	var decoded struct {
		Data    any
		Errors  map[string]string
		Message string
	}
	if json.Unmarshal(b, &decoded) == nil {
		a.Data, a.Errors, a.Message = decoded.Data, decoded.Errors, decoded.Message
	}
	return a
}

// ok is do that must succeed.
func (c *client) ok(method, path string, body any) any {
	c.t.Helper()
	a := c.do(method, path, body)
	if a.Status != 200 {
		c.t.Fatalf("%s %s: %d %s %v", method, path, a.Status, a.Reason, a.Errors)
	}
	return a.Data
}

// task is ok for a call that starts a task; it returns the task's exit status.
func (c *client) task(method, path string, body any) string {
	c.t.Helper()
	upid, _ := c.ok(method, path, body).(string)
	return c.wait(upid)
}

func (c *client) wait(upid string) string {
	c.t.Helper()
	parts := strings.Split(upid, ":")
	if len(parts) < 2 || parts[0] != "UPID" {
		c.t.Fatalf("not a task: %q", upid)
	}
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		st, _ := c.ok("GET", "/nodes/"+parts[1]+"/tasks/"+url.PathEscape(upid)+"/status", nil).(map[string]any)
		if st["status"] == "stopped" {
			exit, _ := st["exitstatus"].(string)
			return exit
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatalf("task %s does not end", upid)
	return ""
}

func (c *client) config(path string) map[string]any {
	c.t.Helper()
	m, _ := c.ok("GET", path+"/config", nil).(map[string]any)
	return m
}

// login opens an SSH connection to a hypervisor.
func (c *client) login(i int, user string) *ssh.Client {
	c.t.Helper()
	key, err := os.ReadFile(c.e.SSHPrivateKey)
	if err != nil {
		c.t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	h := c.e.Hypervisors[i]
	conn, err := ssh.Dial("tcp", h.Address+":"+itoa(h.Port), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Timeout: 10 * time.Second,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// run runs a command and returns stdout, stderr and the exit status.
func run(t *testing.T, conn *ssh.Client, command, stdin string) (string, string, int) {
	t.Helper()
	ses, err := conn.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ses.Close() }()
	var out, errOut bytes.Buffer
	ses.Stdout, ses.Stderr = &out, &errOut
	if stdin != "" { // a program that does not read it would make the client report an error of its own
		ses.Stdin = strings.NewReader(stdin)
	}
	err = ses.Run(command)
	rc := 0
	if err != nil {
		exit, ok := err.(*ssh.ExitError)
		if !ok {
			t.Fatal(err)
		}
		rc = exit.ExitStatus()
	}
	return out.String(), errOut.String(), rc
}
