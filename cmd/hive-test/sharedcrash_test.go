package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/sim/httpstate"
)

// The crash matrix of clusters whose state is in a backend: a run of full is ended at many moments, and another machine, which has the
// same settings, destroys the cluster: no VM is left, no state and no cluster is locked, and the name can be used again.
func TestSharedCrash(t *testing.T) {
	soak(t)
	const moments = 10                    // of each way
	for i, way := range crashWays()[:2] { // KILL and INT
		t.Run(way.name, func(t *testing.T) {
			c := newSharedCrasher(t)
			random := rand.New(rand.NewPCG(crashSeed, uint64(i)))
			over := 0
			for n := range moments {
				over += c.crash(way, (float64(n)+random.Float64())/moments)
			}
			t.Logf("%d runs, %d of them over before they could be ended", moments, over)
		})
	}
}

// sharedCrasher has an arena, a server of states, and two machines that know neither each other nor the simulator.
type sharedCrasher struct {
	*testbed
	server *httpstate.Server
	url    string
	length time.Duration
}

func newSharedCrasher(t *testing.T) *sharedCrasher {
	c := &sharedCrasher{testbed: newArena(t), server: httpstate.New("ci", "a-password")}
	web := httptest.NewServer(c.server)
	t.Cleanup(web.Close)
	c.url = web.URL
	config, err := os.OpenFile(filepath.Join(c.elsewhere, "hive-test.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(config, "node_count: 2\nstate: {backend: http, address: %q}\n", c.url+"/state/{name}")
	if closeErr := config.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	start := time.Now()
	if whole := c.run(c.on("one", "full", crashed)); whole.code != 0 {
		t.Fatalf("a whole run ends with %d:\n%s", whole.code, whole.stderr)
	}
	c.length = time.Since(start)
	c.nothingLeft("a whole run")
	return c
}

// on is a command on one of the machines.
func (c *sharedCrasher) on(machine string, args ...string) *exec.Cmd {
	command := c.command(c.elsewhere, append(args,
		"--config", filepath.Join(c.elsewhere, "hive-test.yaml"), "--clusters-dir", filepath.Join(c.elsewhere, machine))...)
	command.Env = append(command.Env, "HIVE_TEST_STATE_PASSPHRASE=a passphrase of the test", "TF_HTTP_USERNAME=ci", "TF_HTTP_PASSWORD=a-password")
	return command
}

func (c *sharedCrasher) crash(way crashWay, part float64) (over int) {
	c.Helper()
	what := fmt.Sprintf("%s at %s", way.name, crashPoint{part: part})
	run := c.start(c.on("one", "full", crashed))
	if run.at(crashPoint{part: part}, c.length) {
		over = 1
	} else {
		run.end(way)
	}
	run.wait()
	down := c.run(c.on("two", "down", crashed))
	if down.code == 9 { // nothing was made, or nothing is known to have been: then there is nothing, or what reap finds
		down = c.run(c.on("two", "reap", "--yes"))
	}
	if down.code != 0 {
		c.Errorf("%s: the other machine ends with %d\n%s\nthe run:\n%s", what, down.code, down.stderr, run.log())
	}
	c.nothingLeft(what)
	if again := c.run(c.on("one", "up", crashed)); again.code != 0 {
		c.Errorf("%s: up again ends with %d\n%s", what, again.code, again.stderr)
	}
	if down := c.run(c.on("two", "down", crashed)); down.code != 0 {
		c.Errorf("%s: down of that ends with %d\n%s", what, down.code, down.stderr)
	}
	c.nothingLeft(what + ", and again")
	c.Logf("%s: tried", what)
	return over
}

// nothingLeft looks for VMs, locks and clusters.
func (c *sharedCrasher) nothingLeft(what string) {
	c.Helper()
	if leaks := c.leaks(); len(leaks) > 0 {
		c.Errorf("%s: left: %s", what, strings.Join(leaks, "; "))
		c.still = c.look() // told once
	}
	if locked := c.server.Locked(); len(locked) > 0 {
		c.Errorf("%s: still locked: %q", what, locked)
		c.server.UnlockAll()
	}
	if wrong := c.server.Violations(); len(wrong) > 0 {
		c.Errorf("%s: against the protocol: %q", what, wrong)
	}
	if listed := c.run(c.on("three", "status")); strings.Contains(listed.stdout, crashed) {
		c.Errorf("%s: still in the backend:\n%s", what, listed.stdout)
	}
}
