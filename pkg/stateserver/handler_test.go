package stateserver

import (
	"net/http"
	"strings"
	"testing"
)

// step is a request, and what is to come of it.
type step struct {
	method, target, body string
	status               int
	has                  string // what is in the answer
}

// run asks in a row.
func run(t *testing.T, s http.Handler, steps []step) {
	t.Helper()
	for i, q := range steps {
		w := ask(s, q.method, q.target, q.body)
		if w.Code != q.status || !strings.Contains(w.Body.String(), q.has) {
			t.Fatalf("%d: %s %s: %d %q, want %d with %q", i, q.method, q.target, w.Code, w.Body, q.status, q.has)
		}
	}
}

func TestLifeOfAState(t *testing.T) {
	s, _ := serverOf(t, new(memory))
	one, two, three := stateOf(1, "l1", "a"), stateOf(2, "l1", "b"), stateOf(3, "l1", "c")
	run(t, s, []step{
		{"GET", "/state/team/dev1", "", 404, "no state team/dev1"},
		{"DELETE", "/state/team/dev1", "", 200, ""},
		{"GET", "/history/team/dev1", "", 404, "never was"},
		{"POST", "/state/team/dev1", one, 200, ""},
		{"GET", "/state/team/dev1", "", 200, one},
		{"POST", "/state/team/dev1", one, 200, ""}, // the same bytes again
		{"POST", "/state/team/dev1", stateOf(1, "l1", "else"), 409, "serial 1, as what is sent"},
		{"POST", "/state/team/dev1", three, 200, ""},
		{"POST", "/state/team/dev1", two, 409, "serial 3, and what is sent has 2: it is older"},
		{"POST", "/state/team/dev1", stateOf(9, "l2", "a"), 409, "lineage l1, and what is sent has l2"},
		{"GET", "/state/team/dev1", "", 200, three},
		{"GET", "/state/team", "", 404, ""},
		{"GET", "/history/team/dev1?version=1", "", 200, one},
		{"GET", "/history/team/dev1?version=3", "", 404, "no version 3"},
		{"POST", "/history/team/dev1?version=1", "", 200, `"serial": 4`},
		{"GET", "/state/team/dev1", "", 200, strings.Replace(one, `"serial": 1`, `"serial": 4`, 1)},
		{"DELETE", "/state/team/dev1", "", 200, ""},
		{"DELETE", "/state/team/dev1", "", 200, ""},
		{"GET", "/state/team/dev1", "", 404, ""},
		{"GET", "/history/team/dev1?version=4", "", 404, "is a deletion"},
		{"POST", "/history/team/dev1?version=4", "", 409, "is a deletion"},
		{"POST", "/state/team/dev1", stateOf(1, "l9", "new"), 200, ""},
		{"POST", "/history/team/dev1?version=2", "", 200, `"of": 2`},
		{"GET", "/state/team/dev1", "", 200, `"serial": 4, "lineage": "l1"`},
		{"GET", "/history/team/dev1?limit=2", "", 200, `"next": 5`},
		{"GET", "/history/team/dev1?before=2", "", 200, `"version": 1`},
		{"GET", "/state/", "", 200, `"name": "team/dev1"`},
	})
	page := ask(s, "GET", "/history/team/dev1", "").Body.String()
	if n := strings.Count(page, `"version":`); n != 6 || strings.Contains(page, `"next"`) || !strings.Contains(page, `"by": "alice"`) {
		t.Errorf("the history has %d versions:\n%s", n, page)
	}
}

func TestLocks(t *testing.T) {
	s, _ := serverOf(t, new(memory))
	run(t, s, []step{
		{"UNLOCK", "/state/a", lockOf("i1"), 409, "not locked"},
		{"LOCK", "/state/a", lockOf("i1"), 200, ""},
		{"LOCK", "/state/a", lockOf("i1"), 200, ""}, // the answer was lost
		{"LOCK", "/state/a", lockOf("i2"), 423, `"ID":"i1"`},
		{"POST", "/state/a", stateOf(1, "l", ""), 423, `"Who":"me@here"`},
		{"POST", "/state/a?ID=i2", stateOf(1, "l", ""), 423, `"ID":"i1"`},
		{"DELETE", "/state/a", "", 423, `"ID":"i1"`},
		{"POST", "/state/a?ID=i1", stateOf(1, "l", ""), 200, ""},
		{"POST", "/history/a?version=1", "", 423, `"ID":"i1"`},
		{"GET", "/state/a", "", 200, `"serial": 1`},
		{"GET", "/history/a", "", 200, `"id": "i1"`},
		{"UNLOCK", "/state/a", lockOf("i2"), 409, `"ID":"i1"`},
		{"UNLOCK", "/state/a", "", 400, "the ID of the lock is missing"},
		{"UNLOCK", "/state/a?ID=i2", lockOf("i1"), 400, "different locks"},
		{"UNLOCK", "/state/a?ID=i1", "", 200, ""},
		{"UNLOCK", "/state/a", lockOf("i1"), 200, ""}, // the answer was lost
		{"POST", "/state/a?ID=i1", stateOf(2, "l", ""), 409, "not locked by i1 any longer"},
		{"LOCK", "/state/a", lockOf("i3"), 200, ""},
		{"POST", "/state/a?ID=i1", stateOf(2, "l", ""), 423, `"ID":"i3"`},
		{"UNLOCK", "/state/a", lockOf("i1"), 409, `"ID":"i3"`},
		{"DELETE", "/state/a?ID=i3", "", 200, ""},
		{"GET", "/state/a", "", 404, ""},
		{"UNLOCK", "/state/a", `{"ID":"i3"}`, 200, ""},
	})
	bob := func(r *http.Request) { r.SetBasicAuth("bob", "secret-b") }
	if w := ask(s, "LOCK", "/state/bob", lockOf("i1")); w.Code != 200 {
		t.Fatal(w.Code)
	}
	if w := ask(s, "LOCK", "/state/bob", lockOf("i1"), bob); w.Code != 423 {
		t.Errorf("the lock of another user is taken with its ID: %d", w.Code)
	}
}

func TestStrictness(t *testing.T) {
	s, _ := serverOf(t, new(memory))
	good := stateOf(1, "l", "")
	for _, q := range []step{
		{"get", "/state/a", "", 405, "not one of GET"},
		{"lock", "/state/a", lockOf("i"), 405, ""},
		{"Post", "/state/a", good, 405, ""},
		{"PUT", "/state/a", good, 405, ""},
		{"HEAD", "/state/a", "", 405, ""},
		{"POST", "/state/", "", 405, ""},
		{"DELETE", "/history/a", "", 405, ""},
		{"POST", "/healthz", "", 405, ""},
		{"POST", "/metrics", "", 405, ""},
		{"POST", "/certificate", "", 405, ""},
		{"GET", "/certificate", "", 404, "plain HTTP"},
		{"GET", "/", "", 404, ""},
		{"GET", "/state", "", 400, ""},
		{"GET", "/states/a", "", 404, ""},
		{"GET", "//state/a", "", 404, ""},
		{"GET", "/state//a", "", 400, ""},
		{"GET", "/state/a/", "", 400, ""},
		{"GET", "/state/a//b", "", 400, ""},
		{"GET", "/state/../a", "", 400, ""},
		{"GET", "/state/a/../b", "", 400, ""},
		{"GET", "/state/a/..", "", 400, ""},
		{"GET", "/state/.a", "", 400, ""},
		{"GET", "/state/a/_versions", "", 400, ""},
		{"GET", "/state/A", "", 400, "lower-case"},
		{"GET", "/state/a%2fb", "", 400, ""},
		{"GET", "/state/%61", "", 400, ""},
		{"GET", "/state/a%00", "", 400, ""},
		{"GET", "/state/a~b", "", 400, ""},
		{"GET", "/state/" + strings.Repeat("a", 201), "", 400, "at most 200"},
		{"GET", "/state/a?ID=i&ID=k", "", 400, "once"},
		{"GET", "/state/a?force=true", "", 400, "force"},
		{"GET", "/state/a?ID=", "", 400, ""},
		{"GET", "/state/a?ID=%0a", "", 400, ""},
		{"GET", "/state/?x=1", "", 400, ""},
		{"GET", "/history/a?limit=0", "", 400, "no number"},
		{"GET", "/history/a?limit=x", "", 400, "no number"},
		{"POST", "/history/a", "", 400, "which ?version="},
		{"POST", "/history/a?version=1", "", 404, "no version 1"},
		{"POST", "/state/a", "", 400, "no JSON object"},
		{"POST", "/state/a", "null", 400, ""},
		{"POST", "/state/a", "[]", 400, ""},
		{"POST", "/state/a", "{}", 400, "no state"},
		{"POST", "/state/a", good + "x", 400, ""},
		{"POST", "/state/a", good[:len(good)-1], 400, ""},
		{"POST", "/state/a", `{"version":4,"serial":-1,"lineage":"l"}`, 400, "serial"},
		{"POST", "/state/a", `{"version":4,"serial":1.5,"lineage":"l"}`, 400, "serial"},
		{"POST", "/state/a", `{"version":4,"serial":"1","lineage":"l"}`, 400, "serial"},
		{"POST", "/state/a", `{"version":4,"Serial":1,"lineage":"l"}`, 400, "serial"},
		{"POST", "/state/a", `{"version":4,"serial":1}`, 400, "lineage"},
		{"POST", "/state/a", `{"version":4,"serial":1,"lineage":""}`, 400, "lineage"},
		{"POST", "/state/a", `{"version":4,"serial":1,"lineage":"` + strings.Repeat("l", 129) + `"}`, 400, "lineage"},
		{"POST", "/state/a", strings.Repeat("x", 1<<20+1), 413, "too large"},
		{"LOCK", "/state/a", "", 400, ""},
		{"LOCK", "/state/a", "[]", 400, ""},
		{"LOCK", "/state/a", `{"ID":""}`, 400, "no ID"},
		{"LOCK", "/state/a", `{"ID":7}`, 400, "no ID"},
		{"LOCK", "/state/a", `{"ID":"a\nb"}`, 400, "no ID"},
		{"LOCK", "/state/a?ID=i", lockOf("i"), 400, ""},
		{"LOCK", "/state/a", `{"ID":"i","x":"` + strings.Repeat("x", mostLock) + `"}`, 413, ""},
		{"UNLOCK", "/state/a", "{", 400, ""},
	} {
		if w := ask(s, q.method, q.target, q.body); w.Code != q.status || !strings.Contains(w.Body.String(), q.has) {
			t.Errorf("%s %.60s %.60q: %d %.200q, want %d with %q", q.method, q.target, q.body, w.Code, w.Body, q.status, q.has)
		}
	}
	if w := ask(s, "GET", "/state/", ""); strings.Contains(w.Body.String(), `"name"`) {
		t.Errorf("requests that were refused have left a state: %s", w.Body)
	}
	sum := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-MD5", text) }
	}
	zipped := func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }
	for i, c := range []struct {
		change func(*http.Request)
		status int
	}{{sum(sumHeader(good + " ")), 400}, {sum("?"), 400}, {zipped, 415}, {sum(sumHeader(good)), 200}} {
		if w := ask(s, "POST", "/state/a", good, c.change); w.Code != c.status {
			t.Errorf("%d: %d %s, want %d", i, w.Code, w.Body, c.status)
		}
	}
	if w := ask(s, "GET", "/state/a", ""); w.Header().Get("Content-MD5") != sumHeader(good) || w.Header().Get("State-Version") != "1" {
		t.Errorf("the state comes with %v", w.Header())
	}
}

// What OpenTofu encrypts has serial and lineage beside it.
func TestEncryptedStates(t *testing.T) {
	s, _ := serverOf(t, new(memory))
	sealed := func(serial, data string) string {
		return `{"serial":` + serial + `,"lineage":"l","meta":{"k":"v"},"encrypted_data":"` + data + `","encryption_version":"v0"}`
	}
	run(t, s, []step{
		{"POST", "/state/a", sealed("1", "AAAA"), 200, ""},
		{"POST", "/state/a", sealed("2", "BBBB"), 200, ""},
		{"POST", "/state/a", sealed("1", "CCCC"), 409, "older"},
		{"GET", "/state/a", "", 200, sealed("2", "BBBB")},
		{"POST", "/history/a?version=1", "", 409, "encrypted by OpenTofu"},
		{"GET", "/history/a?version=1", "", 200, "AAAA"},
		{"GET", "/history/a", "", 200, `"encrypted": true`},
		{"POST", "/state/a", stateOf(3, "l", "plain"), 200, ""},
	})
}

func TestWithSerial(t *testing.T) {
	for text, want := range map[string]string{
		`{"serial":1,"lineage":"l"}`:                                    `{"serial":7,"lineage":"l"}`,
		"{ \"a\": {\"serial\": 3},\n \"serial\" :  12 , \"b\": [1,2] }": "{ \"a\": {\"serial\": 3},\n \"serial\" :  7 , \"b\": [1,2] }",
		`{"serial":1,"serial":2}`:                                       `{"serial":7,"serial":7}`,
		`{"é":"\"serial\":1","serial":99999}`:                           `{"é":"\"serial\":1","serial":7}`,
	} {
		if got, err := withSerial([]byte(text), 7); err != nil || string(got) != want {
			t.Errorf("%s becomes %s (%v), want %s", text, got, err, want)
		}
	}
}

// A user has the states that the file says, and nobody has any without a password.
func TestWhoMayWhat(t *testing.T) {
	s, log := serverOf(t, new(memory))
	as := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, c := range []struct {
		change func(*http.Request)
		target string
		status int
	}{
		{as("alice", "secret-a"), "/state/x", 404},
		{as("alice", "secret-b"), "/state/x", 401},
		{as("alice", ""), "/state/x", 401},
		{as("carol", "secret-a"), "/state/x", 401},
		{nobody, "/state/x", 401},
		{nobody, "/state/", 401},
		{nobody, "/x", 401},
		{as("alice", "secret-a"+strings.Repeat("x", 90)), "/state/x", 401},
		{as("bob", "secret-b"), "/state/team/a", 404},
		{as("bob", "secret-b"), "/state/team/a/b", 404},
		{as("bob", "secret-b"), "/state/ci-9", 404},
		{as("bob", "secret-b"), "/state/ci-9/x", 404},
		{as("bob", "secret-b"), "/state/bob", 404},
		{as("bob", "secret-b"), "/state/bobby", 403},
		{as("bob", "secret-b"), "/state/team", 403},
		{as("bob", "secret-b"), "/state/teams/a", 403},
		{as("bob", "secret-b"), "/history/x", 403},
		{nobody, "/healthz", 200},
		{nobody, "/metrics", 200},
	} {
		if w := ask(s, "GET", c.target, "", c.change); w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.target, w.Code, w.Body, c.status)
		}
	}
	for _, name := range []string{"team/a", "other", "ci-1"} {
		ask(s, "POST", "/state/"+name, stateOf(1, "l", ""))
	}
	if got := ask(s, "GET", "/state/", "", as("bob", "secret-b")).Body.String(); strings.Contains(got, "other") ||
		!strings.Contains(got, "team/a") || !strings.Contains(got, "ci-1") {
		t.Errorf("bob sees %s", got)
	}
	for _, secret := range []string{"secret-a", "secret-b", "carol"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in the log:\n%s", secret, log)
		}
	}
	if !strings.Contains(log.String(), `"user":"bob"`) || !strings.Contains(log.String(), `"path":"/state/team/a"`) {
		t.Errorf("the log lacks who has asked for what:\n%s", log)
	}
}

// A lock's ID, which lets write, is in no line of the log, and metrics name nobody.
func TestWhatIsNotTold(t *testing.T) {
	s, log := serverOf(t, new(memory))
	run(t, s, []step{
		{"LOCK", "/state/hidden", lockOf("canary-id"), 200, ""},
		{"POST", "/state/hidden?ID=canary-id", stateOf(1, "l", "canary-mark"), 200, ""},
		{"UNLOCK", "/state/hidden?ID=canary-id", "", 200, ""},
	})
	metrics := ask(s, "GET", "/metrics", "").Body.String()
	for what, text := range map[string]string{"log": log.String(), "metrics": metrics} {
		if strings.Contains(text, "canary") {
			t.Errorf("the %s tells a canary:\n%s", what, text)
		}
	}
	for _, name := range []string{"hidden", "alice"} {
		if strings.Contains(metrics, name) {
			t.Errorf("the metrics name %s:\n%s", name, metrics)
		}
	}
	if !strings.Contains(metrics, `hive_test_state_server_requests_total{method="LOCK",status="200"} 1`) {
		t.Errorf("the metrics count no lock:\n%s", metrics)
	}
}
