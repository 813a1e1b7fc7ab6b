package provider

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// record is one line of a recording of the real provider.
type record struct {
	Kind     string          `json:"kind"`
	Node     string          `json:"node"`
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Query    string          `json:"query"`
	Body     string          `json:"raw_body"`
	Status   int             `json:"status"`
	Reason   string          `json:"reason"`
	Response json.RawMessage `json:"response"`
	Op       string          `json:"op"`
	Command  string          `json:"command"`
	Stdin    string          `json:"stdin"`
	Output   string          `json:"output"`
	Exit     int             `json:"exit"`
	File     string          `json:"sftp_path"`
}

// line is what is compared of a record.
func (r record) line() string {
	switch r.Kind {
	case "http":
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.target(), r.Body))
	case "sftp":
		return fmt.Sprintf("sftp %s %s %s", r.Node, r.Op, r.File)
	}
	return strings.TrimSpace(fmt.Sprintf("ssh %s %s %s%s", r.Node, r.Op, r.Command, prefixed("\n<", r.Stdin)))
}

func (r record) target() string {
	return strings.TrimPrefix(r.Path, "/api2/json") + prefixed("?", r.Query)
}

func readFlow(t *testing.T, name string) []record {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../testdata/provider/flows", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var flow []record
	for dec := json.NewDecoder(bufio.NewReader(f)); ; {
		var r record
		if err := dec.Decode(&r); err == io.EOF {
			return flow
		} else if err != nil {
			t.Fatal(err)
		}
		flow = append(flow, r)
	}
}

// stage answers as a recording did and notes what it was asked.
type stage struct {
	t        *testing.T
	endpoint string
	key      string // private key for SSH, PEM
	nodes    map[string]nodeAddress

	mu      sync.Mutex
	answers map[string][]record
	seen    []string
	written map[string]string // files by node and path
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, nodes: map[string]nodeAddress{}, written: map[string]string{}}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	s.endpoint = server.URL + "/"
	s.key = newKey(t)
	for _, n := range []string{"pve1", "pve2", "pve3"} {
		s.nodes[n] = s.listen(n)
	}
	return s
}

// play loads a recording.
func (s *stage) play(flow []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.seen = map[string][]record{}, nil
	for _, r := range flow {
		k := ""
		switch {
		case r.Kind == "http":
			k = r.Method + " " + r.target()
		case r.Op == "exec":
			k = r.Node + " " + r.Command
		default:
			continue
		}
		s.answers[k] = append(s.answers[k], r)
	}
}

func (s *stage) note(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.line())
}

// next takes the next recorded answer for a request.
func (s *stage) next(key string) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.answers[key]
	if len(queue) == 0 {
		return record{}, false
	}
	s.answers[key] = queue[1:]
	return queue[0], true
}

func (s *stage) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	// The recorder did not keep the slash that ends the path of a VM's deletion.
	r := record{
		Kind: "http", Method: req.Method, Path: strings.TrimSuffix(req.URL.EscapedPath(), "/"),
		Query: req.URL.RawQuery, Body: string(body),
	}
	s.note(r)
	if got := req.Header.Get("Authorization"); got != "PVEAPIToken="+testToken {
		s.t.Errorf("%s was sent with the authorization %q", r.line(), got)
	}
	if ct := req.Header.Get("Content-Type"); (len(body) > 0) != (ct == "application/x-www-form-urlencoded") {
		s.t.Errorf("%s was sent as %q", r.line(), ct)
	}
	answer, ok := s.next(r.Method + " " + r.target())
	if !ok {
		answer = record{Status: 501, Reason: "not in the recording", Response: json.RawMessage(`{"data":null}`)}
	}
	// net/http cannot send a reason phrase of one's own.
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.Close()
	reason := answer.Reason
	if reason == "" {
		reason = "OK"
	}
	fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		answer.Status, reason, len(answer.Response), answer.Response)
	buf.Flush()
}

func newKey(t *testing.T) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

// listen serves SSH and SFTP for a hypervisor.
func (s *stage) listen(node string) nodeAddress {
	hostKey, err := ssh.ParsePrivateKey([]byte(newKey(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, nil
	}}
	cfg.AddHostKey(hostKey)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var open sync.WaitGroup
	s.t.Cleanup(func() { l.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { s.serveSSH(node, conn, cfg) })
		}
	})
	addr := l.Addr().(*net.TCPAddr)
	return nodeAddress{addr.IP.String(), addr.Port}
}

func (s *stage) serveSSH(node string, conn net.Conn, cfg *ssh.ServerConfig) {
	defer conn.Close()
	c, chans, reqs, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	defer c.Close()
	s.note(record{Kind: "ssh", Node: node, Op: "connect"})
	go ssh.DiscardRequests(reqs)
	for n := range chans {
		ch, reqs, err := n.Accept()
		if err != nil {
			return
		}
		for req := range reqs {
			if req.Type == "exec" || req.Type == "subsystem" {
				_ = req.Reply(true, nil)
				s.session(node, ch, req)
				break
			}
			_ = req.Reply(false, nil)
		}
		ch.Close()
	}
}

func (s *stage) session(node string, ch ssh.Channel, req *ssh.Request) {
	if req.Type == "subsystem" {
		s.note(record{Kind: "ssh", Node: node, Op: "subsystem"})
		h := &sftpFiles{s, node}
		server := sftp.NewRequestServer(ch, sftp.Handlers{FileGet: h, FileList: h})
		_ = server.Serve()
		return
	}
	r := record{Kind: "ssh", Node: node, Op: "exec", Command: string(req.Payload[4:])}
	_, target, isTee := strings.Cut(strings.TrimSuffix(r.Command, "'"), "/usr/bin/tee ")
	if isTee {
		in, _ := io.ReadAll(ch)
		r.Stdin = string(in)
		s.mu.Lock()
		s.written[node+target] = r.Stdin
		s.mu.Unlock()
	}
	s.note(r)
	answer, ok := s.next(node + " " + r.Command)
	if !ok {
		answer = record{Output: "not in the recording\n", Exit: 99}
	}
	_, _ = io.WriteString(ch, answer.Output)
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(answer.Exit)}))
}

// sftpFiles shows the files that were written through tee.
type sftpFiles struct {
	*stage
	node string
}

func (f *sftpFiles) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	f.note(record{Kind: "sftp", Node: f.node, Op: "open-read", File: r.Filepath})
	return strings.NewReader(""), nil
}

func (f *sftpFiles) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	f.note(record{Kind: "sftp", Node: f.node, Op: "stat", File: r.Filepath})
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.written[f.node+r.Filepath]
	if !ok {
		return nil, os.ErrNotExist
	}
	return fileInfo{filepath.Base(r.Filepath), int64(len(content))}, nil
}

type fileInfo struct {
	name string
	size int64
}

func (f fileInfo) Name() string       { return f.name }
func (f fileInfo) Size() int64        { return f.size }
func (f fileInfo) Mode() os.FileMode  { return 0o644 }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return false }
func (f fileInfo) Sys() any           { return nil }
func (f fileInfo) ListAt(out []os.FileInfo, offset int64) (int, error) {
	if offset > 0 || len(out) == 0 {
		return 0, io.EOF
	}
	out[0] = f
	return 1, io.EOF
}

var (
	pathID   = regexp.MustCompile(`/qemu/(\d+)|/tasks/UPID:[^:]+:[^:]+:[^:]+:[^:]+:[^:]*:(\d+):`)
	bodyID   = regexp.MustCompile(`(?:^|&)vmid=(\d+)`)
	nodeName = regexp.MustCompile(`pve\d`)
)

// owner groups requests of a recording of several VMs: by VM or, for files and
// SSH, by hypervisor. What belongs to no one is told apart by its text.
func owner(line string) string {
	if m := bodyID.FindStringSubmatch(line[strings.LastIndex(line, " ")+1:]); m != nil &&
		strings.HasPrefix(line, "POST") {
		return "vm " + m[1]
	}
	if m := pathID.FindStringSubmatch(line); m != nil {
		return "vm " + m[1] + m[2]
	}
	if m := nodeName.FindString(line); m != "" {
		return m
	}
	return line
}

func group(lines []string) map[string][]string {
	m := map[string][]string{}
	for _, l := range lines {
		if strings.Contains(l, "/cluster/nextid") {
			continue // which id is asked for depends on who comes first
		}
		m[owner(l)] = append(m[owner(l)], l)
	}
	return m
}

func lines(flow []record) []string {
	var out []string
	for _, r := range flow {
		out = append(out, r.line())
	}
	return out
}

// lastID makes the first id asked for the one of the recording.
func lastID(flow []record) string {
	for _, r := range flow {
		if r.Path == "/api2/json/cluster/nextid" {
			q, _ := url.ParseQuery(r.Query)
			return q.Get("vmid")
		}
	}
	return ""
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func tcpAddr(n nodeAddress) net.Addr { return &net.TCPAddr{IP: net.ParseIP(n.host), Port: n.port} }

func publicKey(t *testing.T) ssh.PublicKey {
	k, err := ssh.ParsePrivateKey([]byte(newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	return k.PublicKey()
}
