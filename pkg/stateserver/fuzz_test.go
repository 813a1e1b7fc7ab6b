package stateserver

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequests sends any request twice to a server with a state and a lock. It never panics, answers with no status that it
// does not have, serves nothing that was not written, and changes a locked state only by who names the lock's ID.
func FuzzRequests(f *testing.F) {
	for _, seed := range []struct{ method, target, body, sum string }{
		{"GET", "/state/a", "", ""},
		{"GET", "/state/", "", ""},
		{"GET", "/history/a?limit=1&before=2", "", ""},
		{"POST", "/state/a", stateOf(2, "l", "new"), ""},
		{"POST", "/state/a?ID=i", stateOf(2, "l", "new"), ""},
		{"POST", "/state/b/c", stateOf(0, "x", ""), sumHeader(stateOf(0, "x", ""))},
		{"POST", "/state/a?ID=i", `{"serial":5,"lineage":"l","encrypted_data":"x"}`, "AAAA"},
		{"LOCK", "/state/b", lockOf("k"), ""},
		{"UNLOCK", "/state/a", lockOf("i"), ""},
		{"UNLOCK", "/state/a?ID=i", "", ""},
		{"DELETE", "/state/a?ID=i", "", ""},
		{"DELETE", "/state/a", "", ""},
		{"POST", "/history/a?version=1&ID=i", "", ""},
		{"GET", "/history/a?version=1", "", ""},
		{"GET", "/state/../../etc/passwd", "", ""},
		{"GET", "/state/%2e%2e/a", "", ""},
		{"lock", "/state/a", "{}", ""},
		{"GET", "/healthz", "", ""},
		{"GET", "/metrics", "", ""},
		{"OPTIONS", "*", "", ""},
		{"POST", "/state/a?ID=i", `{"version":4,"serial":18446744073709551615,"lineage":"l"}`, ""},
	} {
		f.Add(seed.method, seed.target, seed.body, seed.sum)
	}
	statuses := []int{200, 400, 404, 405, 409, 413, 423}
	before := stateOf(1, "l", "before")
	base, _ := serverOf(f, new(memory), func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
	f.Fuzz(func(t *testing.T, method, target, body, sum string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !validMethod(method) {
			t.Skip("no client could send it")
		}
		s := over(base, new(memory))
		run(t, s, []step{
			{"POST", "/state/a", before, 200, ""},
			{"LOCK", "/state/a", lockOf("i"), 200, ""},
		})
		for range 2 {
			r := httptest.NewRequest("GET", "/", strings.NewReader(body))
			r.Method, r.URL, r.RequestURI = method, u, target
			r.SetBasicAuth("alice", "secret-a")
			if sum != "" {
				r.Header.Set("Content-MD5", sum)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if !slices.Contains(statuses, w.Code) {
				t.Fatalf("%s %q %q: %d %s", method, target, body, w.Code, w.Body)
			}
		}
		w := ask(s, "GET", "/state/a", "")
		if !strings.Contains(target, "ID=") && (w.Code != http.StatusOK || w.Body.String() != before) {
			t.Fatalf("%s %q %q has changed the state to %d %s", method, target, body, w.Code, w.Body)
		}
		if w.Code == http.StatusOK && w.Body.String() != before && w.Body.String() != body &&
			!strings.HasPrefix(u.Path, "/history/") {
			t.Fatalf("%s %q %q has made the state %s", method, target, body, w.Body)
		}
	})
}

// validMethod reports whether a method gets through the HTTP server of the standard library.
func validMethod(method string) bool {
	return method != "" && !strings.ContainsFunc(method, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// FuzzObjects opens any bytes as an object of the storage.
func FuzzObjects(f *testing.F) {
	object, err := Keys{}.seal([]byte("head"), []byte("body"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(object)
	f.Add([]byte("hive-test-state 1 age 3 4\nabcdefg"))
	f.Fuzz(func(t *testing.T, object []byte) {
		parts, err := Keys{}.open(object)
		if err != nil {
			return
		}
		again, err := Keys{}.seal(parts...)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := (Keys{}).open(again); err != nil || !slices.EqualFunc(parts, back, slices.Equal) {
			t.Errorf("%q becomes %q (%v)", parts, back, err)
		}
	})
}
