package pve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// fullRecord is a record as the recorders wrote it: an API request with its answer, or a command with its output.
type fullRecord struct {
	Seq                int
	Note, Method, Path string
	Params             any
	RawBody            string `json:"raw_body"`
	ContentType        string `json:"ctype"` // of the request where RawBody is set
	Auth               string
	Status             int
	Reason             string
	Body, Response     any
	Command            string
	RC                 *int
	Stdout, Stderr     string
}

func (r *fullRecord) answer() map[string]any {
	for _, b := range []any{r.Body, r.Response} {
		if m, ok := b.(map[string]any); ok {
			return m
		}
	}
	return nil
}

// brief is the record in the form of the records that lie with the source.
func (r *fullRecord) brief() record {
	out := record{Method: r.Method, Path: r.Path, Params: r.Params, Auth: r.Auth, Status: r.Status, Reason: r.Reason}
	body := r.answer()
	out.Data = body["data"]
	if errs, ok := body["errors"].(map[string]any); ok {
		out.Errors = map[string]string{}
		for k, v := range errs {
			out.Errors[k] = fmt.Sprint(v)
		}
	}
	return out
}

// verdict is what became of one record.
type verdict int

const (
	alike verdict = iota // status, reason, errors, the task's end and configurations are the same
	// status, reason and errors are the same; the data, which depends on the machine, only in shape
	shaped
	different  // anything of that is not the same
	impossible // the situation cannot be made, or the call is not simulated
)

// subject counts the verdicts on one file of records.
type subject struct {
	name    string
	counts  [4]int
	ours    [4]int // of these, calls that hive-test or the provider make
	reasons map[string]int
}

// ourCalls are the calls of pkg/deploy/proxmox/api, with their parameters. Those of the provider are in its recorded
// flows.
const ourCalls = `
GET /version
GET /nodes
GET /cluster/resources type
GET /cluster/status
GET /cluster/nextid vmid
GET /access/permissions
GET /access/users/{userid}/token/{tokenid}
GET /pools poolid
POST /pools poolid comment
PUT /pools poolid comment
DELETE /pools poolid
GET /pools/{poolid}
PUT /pools/{poolid} comment
DELETE /pools/{poolid}
GET /storage
GET /nodes/{node}/storage
GET /nodes/{node}/storage/{storage}/content content
DELETE /nodes/{node}/storage/{storage}/content/{volume}
GET /nodes/{node}/network type
GET /nodes/{node}/tasks vmid limit source since
GET /nodes/{node}/tasks/{upid}/status
GET /nodes/{node}/tasks/{upid}/log limit
GET /nodes/{node}/qemu/{vmid}/config
PUT /nodes/{node}/qemu/{vmid}/config description tags protection
GET /nodes/{node}/qemu/{vmid}/pending
GET /nodes/{node}/qemu/{vmid}/status/current
POST /nodes/{node}/qemu/{vmid}/status/start
POST /nodes/{node}/qemu/{vmid}/status/stop
POST /nodes/{node}/qemu/{vmid}/status/shutdown timeout forceStop
DELETE /nodes/{node}/qemu/{vmid} purge destroy-unreferenced-disks
GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces
GET /nodes/{node}/qemu/{vmid}/agent/file-read file
POST /nodes/{node}/qemu/{vmid}/agent/exec command
GET /nodes/{node}/qemu/{vmid}/agent/exec-status pid
`

// TestResearchRecords replays all records of a real Proxmox VE 8.4 and prints how many of them the simulator answers
// alike. No record about a call that hive-test or the provider makes may differ.
func TestResearchRecords(t *testing.T) {
	dir := os.Getenv("HIVE_TEST_RESEARCH_DIR")
	if dir == "" {
		t.Skip("HIVE_TEST_RESEARCH_DIR is unset: the records of a real Proxmox VE are not here")
	}
	files, err := filepath.Glob(filepath.Join(dir, "pve", "real", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records: %v", err)
	}
	calls := knownCalls(t, files)
	var subjects []*subject
	for _, group := range groupFiles(files) {
		t.Run(group.name, func(t *testing.T) {
			p := newPlayer(t, group.name, group.files, calls)
			for _, file := range group.files {
				p.play(file)
			}
			subjects = append(subjects, p.subjects...)
		})
	}
	t.Log("\n" + summary(subjects))
}

// fileGroup is a flow over several files: what one leaves behind is what the next finds.
type fileGroup struct {
	name  string
	files []string
}

var stepOfFlow = regexp.MustCompile(`-0\d-[a-z]+$`)

func groupFiles(files []string) []fileGroup {
	var out []fileGroup
	for _, f := range files {
		name := stepOfFlow.ReplaceAllString(strings.TrimSuffix(filepath.Base(f), ".jsonl"), "")
		switch name {
		case "03-clone-template", "04-config", "05-protection-locks":
			name = "03-config" // one went on where the other had ended
		}
		if n := len(out); n > 0 && out[n-1].name == name {
			out[n-1].files = append(out[n-1].files, f)
			continue
		}
		out = append(out, fileGroup{name: name, files: []string{f}})
	}
	return out
}

func readFull(t *testing.T, file string) []fullRecord {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []fullRecord
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16*mib)
	for sc.Scan() {
		var r fullRecord
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, r)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	return out
}

func isProviderFlow(file string) bool {
	name := filepath.Base(file)
	return strings.HasPrefix(name, "bpg-") || strings.HasPrefix(name, "v52-")
}

// knownCalls are the calls of hive-test and of the provider by method and path, each with the parameters it is made
// with.
func knownCalls(t *testing.T, files []string) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	note := func(call string, params []string) {
		if out[call] == nil {
			out[call] = map[string]bool{}
		}
		for _, p := range params {
			out[call][p] = true
		}
	}
	for line := range strings.Lines(strings.TrimSpace(ourCalls)) {
		words := strings.Fields(line)
		note(words[0]+" "+words[1], words[2:])
	}
	published, err := apiTable(Version84)
	if err != nil {
		t.Fatal(err)
	}
	table := &Server{routes: routes(), table: published}
	for _, file := range slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !isProviderFlow(f) }) {
		for _, r := range readFull(t, file) {
			if call := template(table, &r); call != "" {
				note(call, slices.Collect(maps.Keys(paramsOf(&r))))
			}
		}
	}
	return out
}

// template is the method and the published path of a record, "" if the simulator does not serve it.
func template(s *Server, r *fullRecord) string {
	path, _, _ := strings.Cut(r.Path, "?")
	path, ok := strings.CutPrefix(path, "/api2/json")
	if !ok {
		return ""
	}
	if m := s.match(r.Method, path); m != nil {
		return r.Method + " " + m.route.path
	}
	return ""
}

// paramsOf are a record's parameters, of the query and of the body; of a body in JSON the names only.
func paramsOf(r *fullRecord) url.Values {
	out := url.Values{}
	if _, query, found := strings.Cut(r.Path, "?"); found {
		values, _ := url.ParseQuery(query)
		maps.Copy(out, values)
	}
	text := r.RawBody
	switch p := body(r.Params).(type) {
	case url.Values:
		maps.Copy(out, p)
	case map[string]any:
		for k := range p {
			out[k] = nil
		}
	case string:
		text = p
	}
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil {
		for k := range object {
			out[k] = nil
		}
	} else if values, err := url.ParseQuery(text); err == nil {
		maps.Copy(out, values)
	}
	return out
}

// player replays the files of one group.
type player struct {
	t                     *testing.T
	s                     *Server
	c                     *client
	f                     *fakeMachines
	calls                 map[string]map[string]bool
	upids                 map[string]string // recorded to ours
	secrets               map[string]string // of tokens by their id
	ticket                string
	csrf                  string
	scene                 scene
	now                   *subject
	subjects              []*subject
	crowd                 *crowd
	exits                 map[string]string // how the recorded tasks ended
	touched               map[int]bool      // VMs that a record was about
	lastSeq               int
	kept                  map[int]bool           // VMs whose deletion is not replayed
	refusals              string                 // all that the records refuse
	comments              map[string]string      // of pools
	configs               map[int]map[string]any // the first configuration that was recorded of a VM
	failed                map[string]bool        // recorded tasks that failed by the tools of their machine
	lockedFor, poweredFor string                 // what was arranged last
	moved                 bool                   // a disk, by a call that is not simulated
	names                 []string               // snapshots that the recorder removed unseen
	variant               string                 // of the token that lacks a privilege
}

func newPlayer(t *testing.T, group string, files []string, calls map[string]map[string]bool) *player {
	t.Helper()
	p := &player{
		t: t, calls: calls, upids: map[string]string{}, secrets: map[string]string{}, scene: scenes()[group],
		exits: map[string]string{}, touched: map[int]bool{}, configs: map[int]map[string]any{},
		failed: map[string]bool{},
		kept:   map[int]bool{}, comments: map[string]string{},
	}
	p.s, p.c, p.f = labServer(t, Options{LockTimeout: 50 * time.Millisecond})
	for _, file := range files {
		p.lookAhead(readFull(t, file))
	}
	if p.scene.prepare != nil {
		p.scene.prepare(p)
	}
	return p
}

func (p *player) play(file string) {
	p.t.Helper()
	p.now = &subject{name: strings.TrimSuffix(filepath.Base(file), ".jsonl"), reasons: map[string]int{}}
	p.subjects = append(p.subjects, p.now)
	records := readFull(p.t, file)
	for _, r := range records {
		p.one(&r)
	}
	p.endCrowd()
}

// lookAhead notes what tells of the time before: how tasks ended, what was refused, the first configuration of each VM.
func (p *player) lookAhead(records []fullRecord) {
	for _, r := range records {
		if strings.HasSuffix(r.Path, "/status") && strings.Contains(r.Path, "/tasks/") {
			exit := field(r.answer()["data"], "exitstatus")
			p.exits[unescape(upidIn.FindString(r.Path))] = exit
			p.refusals += exit + "\n"
		}
		p.refusals += r.Reason + "\n"
		if rows, ok := r.answer()["data"].([]any); ok && len(rows) == 1 &&
			strings.HasPrefix(r.Path, "/api2/json/pools") {
			p.comments[field(rows[0], "poolid")] = field(rows[0], "comment")
		}
		m := vmCall.FindStringSubmatch(r.Path)
		if config, ok := r.answer()["data"].(map[string]any); ok && m != nil && m[3] == "/config" &&
			r.Method == http.MethodGet {
			if vmid, _ := strconv.Atoi(m[2]); p.configs[vmid] == nil {
				p.configs[vmid] = config
			}
		}
	}
}

func (p *player) one(r *fullRecord) {
	p.t.Helper()
	if r.Command != "" {
		p.command(r)
		return
	}
	if r.Params == "<binary>" {
		p.count(r, impossible, "the file that was uploaded is not in the records")
		p.skipped(r)
		return
	}
	if r.Method == "" {
		return // a remark of the recorder, no request
	}
	if why := p.scene.enter(p, r); why != "" {
		p.skipped(r)
		p.count(r, impossible, why)
		return
	}
	p.joinCrowd(r)
	p.arrange(r)
	want := r.brief()
	path, why := p.translate(want)
	p.lastSeq = r.Seq
	if why != "" {
		p.lastSeq = -1 // what started the task was not recorded, nor what else there was
		p.count(r, impossible, why)
		return
	}
	if why := p.tools(r, want); why != "" {
		p.count(r, impossible, why)
		return
	}
	call := template(p.s, r)
	if call == "" && want.Status != 501 {
		if p.isOurs(r) {
			p.count(r, different, "not served")
			return
		}
		p.count(r, impossible, "not simulated: "+r.Method+" "+generic(r.Path))
		return
	}
	release := p.hold(r)
	got := p.send(r, path)
	p.learn(want, got)
	release()
	if p.crowd != nil {
		p.crowd.note(p, r, want, got)
		return
	}
	p.judge(r, call, want, got)
}

// skipped notes that the task of a request did not start here.
func (p *player) skipped(r *fullRecord) {
	if upid := upidOf(r); strings.HasPrefix(upid, "UPID:") {
		p.upids[upid] = ""
	}
}

// tools lets a task fail that failed by the programs of the machine on which it was recorded, and tells why a record of
// such a failure cannot be compared.
func (p *player) tools(r *fullRecord, want record) string {
	p.t.Helper()
	const why = "a program or the network of the recording machine failed"
	if m := vmCall.FindStringSubmatch(want.Path); m != nil && want.Method == http.MethodDelete &&
		toolErr.MatchString(want.Reason) {
		vmid, _ := strconv.Atoi(m[2])
		p.kept[vmid] = true
	}
	if toolErr.MatchString(want.Reason) || p.failed[unescape(upidIn.FindString(want.Path))] {
		return why
	}
	upid := upidOf(r)
	exit := p.exits[upid]
	if !strings.HasPrefix(upid, "UPID:") || !toolErr.MatchString(exit) {
		return ""
	}
	p.failed[upid] = true
	path, _, _ := strings.Cut(strings.TrimPrefix(want.Path, "/api2/json"), "?")
	p.s.faults.clear()
	if err := p.s.faults.add(&fault{Path: path, Method: want.Method, Nth: 1, TaskError: exit}); err != nil {
		p.t.Fatal(err)
	}
	return ""
}

func (p *player) judge(r *fullRecord, call string, want record, got answer) {
	p.t.Helper()
	diffs := differences(want, got)
	if len(diffs) == 0 {
		diffs = append(diffs, taskDifferences(call, want, got)...)
	}
	switch {
	case len(diffs) > 0:
		p.count(r, different, strings.Join(diffs, "\n    "))
	case want.Status == 200 && !exact(call, want):
		if diff := shapeDifference(want.Data, got.Data); diff != "" {
			p.count(r, different, diff)
			return
		}
		p.count(r, shaped, "")
	default:
		p.count(r, alike, "")
	}
}

func (p *player) count(r *fullRecord, v verdict, why string) {
	p.t.Helper()
	p.now.counts[v]++
	mine := p.isOurs(r)
	if mine {
		p.now.ours[v]++
	}
	switch {
	case v == different && mine:
		p.t.Errorf("%s %d %q: %s %s %s\n    %s", p.now.name, r.Seq, r.Note, r.Method, r.Path, short(r), why)
	case v == different:
		p.t.Logf("%s %d %q: %s %s %s\n    %s", p.now.name, r.Seq, r.Note, r.Method, r.Path, short(r), why)
	case v == impossible:
		p.now.reasons[why]++
	}
}

func short(r *fullRecord) string {
	text := r.RawBody
	if r.Params != nil {
		text = string(mustJSON(r.Params))
	}
	return text[:min(len(text), 300)]
}

// isOurs tells whether hive-test or the provider makes such a call, with no other parameters than they use.
func (p *player) isOurs(r *fullRecord) bool {
	if isProviderFlow(p.now.name) {
		return true
	}
	params, ok := p.calls[template(p.s, r)]
	if !ok {
		return false
	}
	for name := range paramsOf(r) {
		if !params[name] {
			return false
		}
	}
	return true
}

var (
	numbers = regexp.MustCompile(`\d+`)
	upidIn  = regexp.MustCompile(`UPID(?::|%3A)[^/?]*`)
)

// generic is a path without what is particular to one record.
func generic(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return numbers.ReplaceAllString(upidIn.ReplaceAllString(strings.TrimPrefix(path, "/api2/json"), "UPID"), "N")
}

// translate puts our task's id in place of the recorded one.
func (p *player) translate(want record) (path, why string) {
	recorded := upidIn.FindString(want.Path)
	if recorded == "" {
		return want.Path, ""
	}
	plain := unescape(recorded)
	ours, known := p.upids[plain]
	switch {
	case known && ours == "":
		return "", "of a task that did not start here"
	case known:
		if strings.Contains(recorded, "%3A") {
			ours = url.QueryEscape(ours)
		}
		return strings.Replace(want.Path, recorded, ours, 1), ""
	case want.Status != 200 || strings.HasSuffix(want.Path, "/log") && jsonType(want.Data) == "object":
		return want.Path, "" // unknown there too
	}
	return "", "of a task whose start is not in the records"
}

// learn keeps what later records refer to, and waits for tasks.
func (p *player) learn(want record, got answer) {
	p.t.Helper()
	if recorded, ok := want.Data.(string); ok && strings.HasPrefix(recorded, "UPID:") {
		ours, _ := got.Data.(string)
		p.upids[recorded] = ours
	}
	if ours, ok := got.Data.(string); ok && strings.HasPrefix(ours, "UPID:") {
		p.c.wait(ours)
	}
	data, _ := got.Data.(map[string]any)
	if secret, ok := data["value"].(string); ok {
		if id, ok := data["full-tokenid"].(string); ok {
			p.secrets[id] = secret
		}
	}
	if ticket, ok := data["ticket"].(string); ok && ticket != "" {
		p.ticket = ticket
		p.csrf, _ = data["CSRFPreventionToken"].(string)
	}
}

// send makes the recorded request.
func (p *player) send(r *fullRecord, path string) answer {
	p.t.Helper()
	header := p.credentials(r)
	if r.RawBody != "" {
		header.Set("Content-Type", r.ContentType)
		return p.c.raw(r.Method, path, header, strings.NewReader(r.RawBody))
	}
	text, kind := "", "application/x-www-form-urlencoded"
	switch b := body(r.Params).(type) {
	case url.Values:
		if strings.HasPrefix(b.Get("password"), "PVE:") {
			b.Set("password", p.ticket)
		}
		text = b.Encode()
	case map[string]any:
		text, kind = string(mustJSON(b)), "application/json"
	case string:
		text = b
		switch {
		case text == "<binary>":
		case noted(r, "text/plain"):
			kind = "text/plain"
		case text != "" && strings.ContainsAny(text[:1], "{["):
			kind = "application/json"
		}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		text = "" // these parameters are in the query
	}
	if text == "" {
		return p.c.raw(r.Method, path, header, nil)
	}
	header.Set("Content-Type", kind)
	return p.c.raw(r.Method, path, header, strings.NewReader(text))
}

// credentials are the recorded token's, or what the scene says.
func (p *player) credentials(r *fullRecord) http.Header {
	h := http.Header{}
	const nobody = "00000000-0000-0000-0000-000000000000"
	if p.scene.login != nil && p.scene.login(p, r, h) {
		return h
	}
	switch {
	case r.Auth == "PVEAPIToken" && r.Status == 401:
		h.Set("Authorization", "PVEAPIToken="+p.tokenID()+"="+nobody)
	case r.Auth == "token" || r.Auth == "PVEAPIToken":
		h.Set("Authorization", "PVEAPIToken="+p.c.token)
	case p.secrets[r.Auth] != "":
		h.Set("Authorization", "PVEAPIToken="+r.Auth+"="+p.secrets[r.Auth])
	case r.Auth == "garbage":
		h.Set("Authorization", "PVEAPIToken=garbage")
	case r.Auth != "":
		h.Set("Authorization", "PVEAPIToken="+r.Auth+"="+nobody)
	}
	return h
}

func (p *player) tokenID() string {
	id, _, _ := strings.Cut(p.c.token, "=")
	return id
}

// command runs a recorded command on the first hypervisor.
func (p *player) command(r *fullRecord) {
	p.t.Helper()
	conn := p.c.login(0, "root")
	_, errOut, rc := run(p.t, conn, r.Command, "")
	switch {
	case rc == 127 || strings.Contains(errOut, "unknown command"):
		p.count(r, impossible, "not simulated: "+numbers.ReplaceAllString(r.Command, "N"))
	case rc != *r.RC || errOut != r.Stderr:
		p.count(r, different, fmt.Sprintf("= %d %q, want %d %q", rc, errOut, *r.RC, r.Stderr))
	default:
		p.count(r, alike, "")
	}
}

// taskDifferences compares how a task ended and the last line of its log.
func taskDifferences(call string, want record, got answer) []string {
	switch call {
	case "GET /nodes/{node}/tasks/{upid}/status":
		w, g := field(want.Data, "exitstatus"), field(got.Data, "exitstatus")
		if field(want.Data, "status") == "stopped" && steady(w) != steady(g) {
			return []string{fmt.Sprintf("task = %q, want %q", g, w)}
		}
	case "GET /nodes/{node}/tasks/{upid}/log":
		w, g := lastLine(want.Data), lastLine(got.Data)
		if strings.HasPrefix(w, "TASK ") && steady(w) != steady(g) {
			return []string{fmt.Sprintf("log ends %q, want %q", g, w)}
		}
	}
	return nil
}

func field(data any, name string) string {
	m, _ := data.(map[string]any)
	text, _ := m[name].(string)
	return text
}

func lastLine(data any) string {
	rows, _ := data.([]any)
	if len(rows) == 0 {
		return ""
	}
	return field(rows[len(rows)-1], "t")
}

// exact tells whether the data of an answer was compared as a whole.
func exact(call string, want record) bool {
	if text, ok := want.Data.(string); ok && strings.HasPrefix(text, "UPID:") || want.Data == nil {
		return true
	}
	return strings.Contains(call, "/tasks/{upid}/") || strings.HasSuffix(want.Path, "/config")
}

// shapeDifference says where got lacks a key that want has, or has another type there.
func shapeDifference(want, got any) string {
	if jsonType(want) != jsonType(got) {
		return fmt.Sprintf("data is %s, want %s", jsonType(got), jsonType(want))
	}
	rows, isList := want.([]any)
	if !isList {
		return lacking(want, []any{got})
	}
	ours, _ := got.([]any)
	if len(rows) == 0 || len(ours) == 0 {
		return ""
	}
	return lacking(common(rows), ours)
}

// common are the keys that all rows have.
func common(rows []any) any {
	first, _ := rows[0].(map[string]any)
	out := maps.Clone(first)
	for _, row := range rows[1:] {
		m, _ := row.(map[string]any)
		maps.DeleteFunc(out, func(k string, _ any) bool { _, there := m[k]; return !there })
	}
	return out
}

// ofQEMU are keys that only Proxmox's own QEMU fills.
var ofQEMU = []string{"nics", "running-machine", "running-qemu", "clipboard"}

// lacking says which keys of want no row of ours has, or has with another type.
func lacking(want any, ours []any) string {
	w, _ := want.(map[string]any)
	var out []string
	for _, k := range sortedKeys(w) {
		if slices.Contains(ofQEMU, k) || strings.HasPrefix(k, "/") { // the latter are paths of permissions
			continue
		}
		var types []string
		for _, row := range ours {
			m, _ := row.(map[string]any)
			if v, there := m[k]; there {
				types = append(types, jsonType(v))
			}
		}
		switch {
		case len(types) == 0:
			out = append(out, k+" is missing")
		case !slices.Contains(types, jsonType(w[k])):
			out = append(out, fmt.Sprintf("%s is a %s, want a %s", k, types[0], jsonType(w[k])))
		}
	}
	return strings.Join(out, "; ")
}

// crowd is a group of requests that were made at once. Which of them won is chance: what counts is how many answers
// there are of each kind.
type crowd struct {
	name      string
	records   []*fullRecord
	want, got []string
	touched   map[int]bool
	end       func()
}

var inCrowd = regexp.MustCompile(`^(.*) #\d+`)

func (p *player) joinCrowd(r *fullRecord) {
	p.t.Helper()
	name := ""
	if m := inCrowd.FindStringSubmatch(r.Note); m != nil {
		name = m[1]
	}
	if p.crowd != nil && p.crowd.name == name {
		return
	}
	p.endCrowd()
	if name == "" {
		return
	}
	p.crowd = &crowd{name: name, touched: map[int]bool{}}
	if p.scene.hold != nil {
		p.crowd.end = p.scene.hold(p, name)
	}
}

func (g *crowd) note(p *player, r *fullRecord, want record, got answer) {
	p.t.Helper()
	g.records = append(g.records, r)
	g.want = append(g.want, outcome(want.Path, want.Status, want.Reason, want.Data))
	g.got = append(g.got, outcome(want.Path, got.Status, got.Reason, got.Data))
}

// outcome is an answer without what tells its VM from the others.
func outcome(path string, status int, reason string, data any) string {
	text := fmt.Sprintf("%s = %d %s", generic(path), status, numbers.ReplaceAllString(reason, "N"))
	switch {
	case strings.HasSuffix(path, "/status") && strings.Contains(path, "/tasks/"):
		text += ", task " + numbers.ReplaceAllString(field(data, "exitstatus"), "N")
	case strings.HasSuffix(path, "/log") && strings.Contains(path, "/tasks/"):
		text += ", log " + numbers.ReplaceAllString(lastLine(data), "N")
	}
	return text
}

func (p *player) endCrowd() {
	p.t.Helper()
	g := p.crowd
	p.crowd = nil
	if g == nil {
		return
	}
	if g.end != nil {
		g.end()
	}
	left := map[string]int{}
	for _, text := range g.got {
		left[text]++
	}
	for i, text := range g.want {
		if left[text] > 0 {
			left[text]--
			p.count(g.records[i], alike, "")
			continue
		}
		p.count(
			g.records[i], different,
			fmt.Sprintf("no such answer among %v, want %s", slices.Sorted(maps.Keys(left)), text),
		)
	}
}

func summary(subjects []*subject) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "subject\trecords\talike\tin shape\tdifferent\tnot applicable\tour calls\tdifferent\t")
	total := subject{name: "all"}
	line := func(s *subject) {
		sum, ours := 0, 0
		for i, n := range s.counts {
			sum += n
			ours += s.ours[i]
		}
		fmt.Fprintf(
			w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.name, sum, s.counts[alike], s.counts[shaped],
			s.counts[different], s.counts[impossible], ours, s.ours[different],
		)
	}
	reasons := map[string]int{}
	for _, s := range subjects {
		line(s)
		for i := range s.counts {
			total.counts[i] += s.counts[i]
			total.ours[i] += s.ours[i]
		}
		for why, n := range s.reasons {
			reasons[why] += n
		}
	}
	line(&total)
	_ = w.Flush()
	b.WriteString("not applicable:\n")
	for _, why := range sortedKeys(reasons) {
		fmt.Fprintf(&b, "%5d %s\n", reasons[why], why)
	}
	return b.String()
}
