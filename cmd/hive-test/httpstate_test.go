package main_test

import (
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"hive-test/pkg/sim/httpstate"
)

// httpStates are the servers of scripts that run.
var httpStates sync.Map

// cmdHTTPState serves the backend http for a script, as a server that is not ours: `httpstate start` sets STATE_URL and the variables that
// OpenTofu is told by; `httpstate break NAME` makes writes of that state fail until `httpstate mend`; `httpstate check` fails where a client has done what the
// protocol does not allow, or has left a lock; `httpstate holds TEXT` where no state holds it, `! httpstate holds TEXT` where one does.
func cmdHTTPState(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: httpstate start|break NAME|mend|check|holds TEXT")
	}
	if args[0] == "start" {
		server := httpstate.New("ci", "canary-backend-password")
		web := httptest.NewServer(server)
		ts.Defer(web.Close)
		ts.Setenv("STATE_URL", web.URL)
		ts.Setenv("TF_HTTP_USERNAME", "ci")
		ts.Setenv("TF_HTTP_PASSWORD", "canary-backend-password")
		httpStates.Store(ts, server)
		return
	}
	found, _ := httpStates.Load(ts)
	server, ok := found.(*httpstate.Server)
	if !ok {
		ts.Fatalf("httpstate start comes first")
	}
	switch args[0] {
	case "break":
		server.SetBroken("/state/" + args[1])
	case "mend":
		server.SetBroken("")
	case "check":
		if wrong := server.Violations(); len(wrong) > 0 {
			ts.Fatalf("against the protocol: %q", wrong)
		}
		if locked := server.Locked(); len(locked) > 0 {
			ts.Fatalf("still locked: %q", locked)
		}
	case "holds":
		held := false
		for _, text := range server.States() {
			held = held || strings.Contains(text, args[1])
		}
		if held == neg {
			ts.Fatalf("states hold %q: %v", args[1], held)
		}
	default:
		ts.Fatalf("httpstate: unknown %q", args[0])
	}
}
