package pve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// fault makes matching requests go wrong. It is data: from a file, or posted to /sim/faults.
type fault struct {
	// Path is matched against the part after /api2/json: "*" stands for one path segment, "**" for any rest; a path
	// that ends in "/" matches everything below it.
	Path string `json:"path"`
	// Method is empty for any. SSH stands for a command that is run on a hypervisor: Path is then /nodes/NODE/ and the
	// command's words, such as "/nodes/*/qm disk import**", Status its exit status and Reason what it complains of.
	Method string `json:"method,omitempty"`
	// Nth is the first matching request that goes wrong, counted from 1 (0 is 1).
	Nth int `json:"nth,omitempty"`
	// Times is how many requests go wrong from there. 0 means one if Nth is set, else all.
	Times int `json:"times,omitempty"`
	// Status and Reason are answered instead of serving the request, if Status is set.
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Data is answered instead of serving the request, as a success: [] is a listing that shows nothing.
	Data json.RawMessage `json:"data,omitempty"`
	// Body is answered, as a page of some other server, in place of what PVE would: with Status, or with 200 if that is
	// unset.
	Body *string `json:"body,omitempty"`
	// Delay holds the request back ("1.5s"), whatever else happens to it.
	Delay duration `json:"delay,omitempty"`
	// TaskError lets the request pass and makes the task that it starts fail with this text, without having done its
	// work.
	TaskError string `json:"task_error,omitempty"`
	// TaskWarnings lets the request pass and makes the task that it starts warn so, do its work, and end with
	// "WARNINGS: N".
	TaskWarnings []string `json:"task_warnings,omitempty"`
	// HA makes the VM that is to be started or stopped one of the HA manager's: the task only asks for it and ends well
	// at once, and the manager does it that much later.
	HA duration `json:"ha,omitempty"`
	// Drop closes the connection without an answer, and without serving the request.
	Drop bool `json:"drop,omitempty"`
	// Lost serves the request and then closes the connection without an answer.
	Lost bool `json:"lost,omitempty"`
	// StorageLocked lets a VM be deleted while its storage is locked: the task ends well, and the disks stay.
	StorageLocked bool `json:"storage_locked,omitempty"`
	// DisksKept lets a VM be deleted while its disks cannot be, and says why: 9 warns of it, on 8 only the log tells.
	DisksKept string `json:"disks_kept,omitempty"`
	// DisksLost makes a task that fails with TaskError lose the VM's disks before it does, as a deletion does where the
	// quorum goes meanwhile.
	DisksLost bool `json:"disks_lost,omitempty"`
	// Interfaces changes what a guest agent tells of the guest's interfaces (agent/network-get-interfaces).
	Interfaces *guestReport `json:"interfaces,omitempty"`

	seen int
	hits int
	re   *regexp.Regexp
}

// duration is a time.Duration that is written as text ("200ms") or as a number of seconds.
type duration time.Duration

// UnmarshalJSON reads either form.
func (d *duration) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch x := v.(type) {
	case float64:
		*d = duration(x * float64(time.Second))
		return nil
	case string:
		p, err := time.ParseDuration(x)
		*d = duration(p)
		return err
	}
	return fmt.Errorf("a delay is text like \"1.5s\" or a number of seconds, not %s", b)
}

// MarshalJSON writes text.
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// faultList holds the faults in the order in which they were given; the first that matches is met.
type faultList struct {
	mu   sync.Mutex
	list []*fault
}

func (l *faultList) add(faults ...*fault) error {
	for _, f := range faults {
		if f.Path == "" {
			return fmt.Errorf("a fault needs a path, such as \"/nodes/*/qemu\"")
		}
		if err := f.check(); err != nil {
			return err
		}
		f.re = faultPattern(f.Path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, faults...)
	return nil
}

func (f *fault) check() error {
	answers := f.Data != nil || f.Body != nil || f.TaskError != "" || len(f.TaskWarnings) > 0 || f.HA != 0 || f.Drop ||
		f.Lost || f.StorageLocked || f.DisksKept != "" || f.Interfaces != nil
	switch {
	case f.Status == 0 && f.Delay == 0 && !answers:
		return fmt.Errorf(
			"fault on %s does nothing: set status, data, body, delay, task_error, task_warnings, ha, drop, lost, "+
				"storage_locked, disks_kept or interfaces",
			f.Path,
		)
	case f.command() && answers:
		return fmt.Errorf("fault on %s: a command has status, reason and delay only", f.Path)
	}
	return nil
}

// command tells whether the fault is one of commands on hypervisors, not of requests.
func (f *fault) command() bool { return strings.EqualFold(f.Method, methodSSH) }

// methodSSH is the method of commands that are run on a hypervisor, in faults and in the journal.
const methodSSH = "SSH"

func (l *faultList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

func (l *faultList) all() []fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]fault, 0, len(l.list))
	for _, f := range l.list {
		out = append(out, *f)
	}
	return out
}

// take returns a copy of the fault that a request is to meet, or nil.
func (l *faultList) take(method, path string) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.list {
		if f.command() != (method == methodSSH) || f.Method != "" && !strings.EqualFold(f.Method, method) ||
			!f.re.MatchString(unescape(path)) {
			continue
		}
		f.seen++
		times := f.Times
		if times == 0 && f.Nth > 0 {
			times = 1
		}
		if f.seen < max(f.Nth, 1) || (times > 0 && f.hits >= times) {
			continue
		}
		f.hits++
		hit := *f
		return &hit
	}
	return nil
}

func faultPattern(path string) *regexp.Regexp {
	path = "/" + strings.TrimLeft(strings.TrimPrefix(path, "/api2/json"), "/")
	if strings.HasSuffix(path, "/") {
		path += "**"
	}
	q := regexp.QuoteMeta(path)
	q = strings.ReplaceAll(q, `\*\*`, ".*")
	q = strings.ReplaceAll(q, `\*`, "[^/]*")
	return regexp.MustCompile("^" + q + "$")
}

// injected carries out a fault and returns the answer, or nil if the request goes on.
func (s *Server) injected(ctx context.Context, f *fault) *response {
	sleep(ctx, time.Duration(f.Delay))
	switch {
	case f.Drop:
		return &response{drop: true}
	case f.Data != nil:
		return dataResponse(f.Data)
	case f.Body != nil:
		return &response{
			status: cmp.Or(f.Status, 200), reason: cmp.Or(f.Reason, "OK"), ctype: "text/html", body: []byte(*f.Body),
		}
	case f.Status == 0:
		return nil
	case f.Status == 401 || f.Status >= 595:
		return &response{status: f.Status, reason: f.Reason}
	}
	return errorResponse(&apiError{status: f.Status, message: f.Reason})
}

// ReadFaults reads a file of faults: a JSON list, or an object with a key "faults".
func ReadFaults(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	if _, err := parseFaults(b); err != nil {
		return nil, fmt.Errorf("read faults from %s: %w", file, err)
	}
	return b, nil
}

func parseFaults(b []byte) ([]*fault, error) {
	trimmed := strings.TrimSpace(string(b))
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.DisallowUnknownFields()
	if strings.HasPrefix(trimmed, "[") {
		var l []*fault
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		return l, nil
	}
	var wrapped struct {
		Faults []*fault `json:"faults"`
	}
	if strings.Contains(trimmed, `"faults"`) {
		if err := dec.Decode(&wrapped); err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		return wrapped.Faults, nil
	}
	var one fault
	if err := dec.Decode(&one); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return []*fault{&one}, nil
}

// journalEntry is one API request as it was answered. Secrets are replaced by "***".
type journalEntry struct {
	Time         time.Time         `json:"time"`
	Method       string            `json:"method"`
	Path         string            `json:"path"`
	Params       map[string]string `json:"params,omitempty"`
	User         string            `json:"user,omitempty"`
	Status       int               `json:"status"`
	Reason       string            `json:"reason"`
	Milliseconds int64             `json:"ms"`
}

// journalSize bounds the journal; older requests are forgotten.
const journalSize = 20000

type journal struct {
	mu      sync.Mutex
	entries []*journalEntry
}

func (j *journal) add(e *journalEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	if len(j.entries) > journalSize {
		j.entries = slices.Delete(j.entries, 0, len(j.entries)-journalSize)
	}
}

func (j *journal) all() []*journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*journalEntry{}, j.entries...)
}

func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = nil
}

func redacted(params map[string]value) map[string]string {
	out := map[string]string{}
	for k, v := range params {
		switch k {
		case "password", "cipassword", "ticket", "otp", "CSRFPreventionToken":
			out[k] = "***"
		default:
			out[k] = v.text
			if v.isList {
				out[k] = strings.Join(v.list, " ")
			}
		}
	}
	return out
}

// handleSim serves what is about the simulator itself, for root's token: faults, journal, hypervisors.
func (s *Server) handleSim(ctx context.Context, r *request) *response {
	who, reason := s.authenticate(r)
	if reason != "" || who.user != "root@pam" {
		sleep(ctx, min(s.opt.AuthDelay, time.Second))
		return plainResponse(401, "the token of root@pam is needed here")
	}
	body, err := io.ReadAll(io.LimitReader(r.body, maxFormBody))
	if err != nil {
		return plainResponse(400, err.Error())
	}
	data, err := s.simCall(r.method, strings.TrimRight(r.path, "/"), body)
	if err != nil {
		return errorResponse(err)
	}
	return dataResponse(data)
}

func (s *Server) simCall(method, path string, body []byte) (any, error) {
	switch {
	case path == "/sim/faults" && method == "GET":
		return s.faults.all(), nil
	case path == "/sim/faults" && method == "DELETE":
		s.faults.clear()
		return nil, nil
	case path == "/sim/faults" && method == "POST":
		return nil, s.AddFaults(body)
	case path == "/sim/journal" && method == "GET":
		return s.journal.all(), nil
	case path == "/sim/journal" && method == "DELETE":
		s.journal.clear()
		return nil, nil
	case path == "/sim/status" && method == "GET":
		return s.simStatus(), nil
	case path == "/sim/clock" && method == "POST":
		return nil, s.setClock(body)
	case path == "/sim/dhcp" && method == "POST":
		return nil, s.setDHCP(body)
	case strings.HasPrefix(path, "/sim/nodes/") && method == "POST":
		return nil, s.setNode(strings.TrimPrefix(path, "/sim/nodes/"), body)
	case strings.HasPrefix(path, "/sim/vms/") && method == "POST":
		return nil, s.setVM(strings.TrimPrefix(path, "/sim/vms/"), body)
	}
	return nil, &apiError{status: 404, message: "the simulator has no " + method + " " + path}
}

// AddFaults adds faults given as JSON: one, a list, or {"faults": [...]}.
func (s *Server) AddFaults(b []byte) error {
	l, err := parseFaults(b)
	if err == nil {
		err = s.faults.add(l...)
	}
	if err != nil {
		return &apiError{status: 400, message: err.Error()}
	}
	return nil
}

func (s *Server) setNode(name string, body []byte) error {
	var in struct {
		Online *bool `json:"online"`
		Sudo   *bool `json:"sudo"` // whether users other than root may run what they want with it
		// whether it tells nothing of itself, as for some seconds after its daemons began
		Unknown *bool `json:"unknown"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Online == nil && in.Sudo == nil && in.Unknown == nil {
		return &apiError{
			status:  400,
			message: `give {"online": true} or false, {"sudo": true} or false, or {"unknown": true} or false`,
		}
	}
	if in.Unknown != nil {
		if err := s.setUnknown(name, *in.Unknown); err != nil {
			return err
		}
	}
	if in.Sudo != nil {
		if err := s.setSudo(name, *in.Sudo); err != nil {
			return err
		}
	}
	if in.Online == nil {
		return nil
	}
	return s.SetOnline(name, *in.Online)
}

func (s *Server) setSudo(name string, allowed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.node(name)
	if n == nil {
		return &apiError{status: 404, message: "no hypervisor " + name + " here"}
	}
	n.NoSudo = !allowed
	s.changed()
	return nil
}

func (s *Server) setUnknown(name string, unknown bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.node(name) == nil {
		return &apiError{status: 404, message: "no hypervisor " + name + " here"}
	}
	if s.state.Datacenter.Unknown == nil {
		s.state.Datacenter.Unknown = map[string]bool{}
	}
	s.state.Datacenter.Unknown[name] = unknown
	s.changed()
	return nil
}

func (s *Server) withoutSudo(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.node(name)
	return n != nil && n.NoSudo
}

// setDHCP makes the networks ones of IPv6 alone, or of IPv4 again, for machines that start from now on.
func (s *Server) setDHCP(body []byte) error {
	var in struct {
		IPv6 *bool `json:"ipv6"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.IPv6 == nil {
		return &apiError{status: 400, message: `give {"ipv6": true} or false`}
	}
	if err := s.opt.Machines.SetIPv6(*in.IPv6); err != nil {
		return &apiError{status: 400, message: err.Error()}
	}
	return nil
}

// setClock puts the clock that the answers' dates are of off by some time.
func (s *Server) setClock(body []byte) error {
	var in struct {
		Skew duration `json:"skew"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return &apiError{status: 400, message: `give {"skew": "-90s"}`}
	}
	s.skew.Store(int64(in.Skew))
	return nil
}

// now is the time by the hypervisors' clocks.
func (s *Server) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// SetOnline takes a hypervisor off the network or brings it back. Its VMs keep running, as they do when only the
// network is gone.
func (s *Server) SetOnline(name string, online bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.node(name)
	if n == nil {
		return &apiError{status: 404, message: "no hypervisor " + name + " here"}
	}
	n.Online = online
	if online {
		s.state.Expected = 0
	}
	s.changed()
	return nil
}

func (s *Server) simStatus() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, v := range s.state.VMs {
		if s.running(v) {
			running++
		}
	}
	return map[string]any{
		"vms": len(s.state.VMs), "running": running, "serving": s.serving.Load(), "hosts_kind": s.opt.Machines.Kind(),
	}
}
