package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A failed task whose text looks like a passing trouble is started again, as
// any refused dispatch is; what other tasks say is final.
func TestTasksAreStartedAgain(t *testing.T) {
	t.Parallel()
	busy := &httpError{code: 500, message: "got timeout"}
	taken := &httpError{code: 500, message: "unable to create VM 100: config file already exists"}
	for name, c := range map[string]struct {
		dispatch []error  // of each call; nil starts a task
		exits    []string // of each task
		calls    int
		err      string // empty: success
	}{
		"passes":       {dispatch: []error{nil}, exits: []string{"OK"}, calls: 1},
		"refused once": {dispatch: []error{busy, nil}, exits: []string{"OK"}, calls: 2},
		"task fails": {
			dispatch: []error{nil}, exits: []string{"no space"}, calls: 1, err: "exit code: no space",
		},
		"task times out once": {
			dispatch: []error{nil, nil}, exits: []string{"can't lock file - got timeout", "OK"}, calls: 2,
		},
		"task times out always": {
			dispatch: []error{nil, nil, nil}, exits: []string{"got timeout", "got timeout", "got timeout"}, calls: 3,
			err: "got timeout",
		},
		"taken at once": {dispatch: []error{taken, taken}, calls: 2},
		"taken after a task that failed": {
			dispatch: []error{nil, taken}, exits: []string{"got timeout"}, calls: 2, err: "exit code: got timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := 0
			srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data := any([]any{})
				if strings.HasSuffix(r.URL.Path, "/status") {
					data = map[string]string{"status": "stopped", "exitstatus": c.exits[tasks-1]}
				}
				if err := json.NewEncoder(w).Encode(map[string]any{"data": data}); err != nil {
					t.Error(err)
				}
			}))
			defer srv.Close()
			a := &api{endpoint: srv.URL, creds: credentials{token: testToken}, http: srv.Client()}
			policy := taskPolicy(transient)
			policy.delay = fixedDelay(time.Millisecond)
			calls := 0
			result := a.run(t.Context(), policy, contains("already exists"), func() (string, error) {
				calls++
				if err := c.dispatch[calls-1]; err != nil {
					return "", err
				}
				tasks++
				return "UPID:pve1:00001004:00E2DFEC:6B09F2E1:qmcreate:100:root@pam:", nil
			})
			if calls != c.calls {
				t.Errorf("sent %d times, want %d", calls, c.calls)
			}
			if got := errOrEmpty(result.err); (got == "") != (c.err == "") || !strings.Contains(got, c.err) {
				t.Errorf("result is %q, want %q", got, c.err)
			}
		})
	}
	if !transient(errors.New("can't lock file - got timeout")) {
		t.Error("a lock that could not be had is no passing trouble")
	}
}
