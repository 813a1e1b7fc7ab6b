package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/stateserver/s3store"
)

// sharedBackend is a place where two machines keep what they share of clusters.
type sharedBackend struct {
	config  map[string]any // the setting state
	environ []string       // of both machines, with what is secret
	other   []string       // of all machines but one, over those
	secrets []string       // that must be found nowhere
	locks   func() []string
	states  func() map[string]string // by name, with the lineage where that is known
}

// canarySecret is a password that must be found nowhere.
const canarySecret = "canary-password-of-a-backend"

// TestSharedBackends has two machines, each with a user, a home and a clusters directory of its own, share clusters over each
// backend, of real servers.
func TestSharedBackends(t *testing.T) {
	soak(t)
	for _, tc := range []struct {
		name string
		open func(*testing.T) sharedBackend
	}{
		{"state serve on files", func(t *testing.T) sharedBackend { return servedBackend(t, "") }},
		{"state serve on S3", func(t *testing.T) sharedBackend {
			address, parameters := bucketOfTests(t)
			return servedBackend(t, address+"/served?"+parameters)
		}},
		{"s3", s3Backend},
		{"pg", pgBackend},
	} {
		t.Run(tc.name, func(t *testing.T) { shareOver(t, tc.open(t)) })
	}
}

// bucketOfTests is an empty place on a real S3 server, and how it is reached.
func bucketOfTests(t *testing.T) (address, parameters string) {
	t.Helper()
	bucket := os.Getenv("HIVE_TEST_S3") // make test-s3 sets it
	if bucket == "" {
		t.Skip("there is no S3 server: make test-s3 starts one")
	}
	address, parameters, _ = strings.Cut(bucket, "?")
	return fmt.Sprintf("%s/shared-%d", address, time.Now().UnixNano()), parameters
}

// servedBackend is `hive-test state serve`. An empty storage is a new directory.
func servedBackend(t *testing.T, storage string) sharedBackend {
	s := newStateServers(t, storage)
	_, at := s.start(t)
	type state struct {
		Name    string
		Current struct{ Lineage string }
		Lock    *struct{ ID string }
	}
	list := func() []state {
		code, body := s.ask("GET", at+"/state/", "")
		var listed struct{ States []state }
		if err := json.Unmarshal([]byte(body), &listed); err != nil || code != 200 {
			t.Fatalf("the server lists no states: %d %.200s (%v)", code, body, err)
		}
		return listed.States
	}
	return sharedBackend{
		config:  map[string]any{"backend": "http", "address": at + "/state/{name}"},
		environ: []string{"TF_HTTP_USERNAME=me", "TF_HTTP_PASSWORD=" + canarySecret},
		other:   []string{"TF_HTTP_USERNAME=you"},
		locks: func() (locked []string) {
			for _, state := range list() {
				if state.Lock != nil {
					locked = append(locked, state.Name)
				}
			}
			return locked
		},
		states: func() map[string]string {
			lineages := map[string]string{}
			for _, state := range list() {
				lineages[state.Name] = state.Current.Lineage
			}
			return lineages
		},
	}
}

// s3Backend is OpenTofu's own, on a real server.
func s3Backend(t *testing.T) sharedBackend {
	address, parameters := bucketOfTests(t)
	store, err := s3store.Open(address+"?"+parameters, s3store.Env{Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	list := func(chosen func(string) bool) []string {
		keys, err := store.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(keys, func(key string) bool { return !chosen(key) })
	}
	values, _ := url.ParseQuery(parameters)
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
	return sharedBackend{
		config: map[string]any{
			"backend": "s3", "bucket": bucket, "key": prefix + "/{name}.tfstate", "region": "us-east-1", "use_path_style": true,
			"endpoints": map[string]any{"s3": values.Get("endpoint")}, "skip_credentials_validation": true,
			"skip_requesting_account_id": true, "skip_metadata_api_check": true, "skip_region_validation": true,
		},
		environ: []string{
			"AWS_ACCESS_KEY_ID=" + os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY=" + os.Getenv("AWS_SECRET_ACCESS_KEY"),
		},
		secrets: []string{os.Getenv("AWS_SECRET_ACCESS_KEY")},
		locks:   func() []string { return list(func(key string) bool { return strings.HasSuffix(key, ".tflock") }) },
		states: func() map[string]string {
			return named(list(func(key string) bool { return strings.HasSuffix(key, ".tfstate") }))
		},
	}
}

// pgBackend is OpenTofu's own, on a PostgreSQL that ends with the test.
func pgBackend(t *testing.T) sharedBackend {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(programs) == 0 {
		t.Skip("there is no PostgreSQL: apt-get install postgresql")
	}
	ask := startPostgres(t, programs[len(programs)-1])
	return sharedBackend{
		config:  map[string]any{"backend": "pg", "schema_name": "{name}"},
		environ: []string{"PG_CONN_STR=" + ask.address},
		locks:   func() []string { return ask.rows("SELECT objid FROM pg_locks WHERE locktype = 'advisory'") },
		states: func() map[string]string {
			return named(ask.rows("SELECT schema_name FROM information_schema.schemata WHERE schema_name !~ '^(pg_|public|information_schema)'"))
		},
	}
}

// named are states of which the names are known alone.
func named(names []string) map[string]string {
	states := map[string]string{}
	for _, name := range names {
		states[name] = ""
	}
	return states
}

// postgres is a server of PostgreSQL.
type postgres struct {
	*testing.T
	programs, address string
}

// startPostgres starts one with a directory of its own, on a loopback port. It refuses to run as root.
func startPostgres(t *testing.T, programs string) postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "hive-test-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user nobody")
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(canarySecret), 0o644); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, name), args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, as, []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + dir}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "hive", "--auth=scram-sha-256", "--pwfile="+secret, "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	server := command("postgres", "-D", data, "-k", dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		_ = server.Wait()
	})
	p := postgres{t, programs, "postgres://hive:" + canarySecret + "@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err := command("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run(); err == nil {
			return p
		} else if time.Now().After(end) {
			t.Fatalf("PostgreSQL does not answer: %v", err)
		}
	}
}

// rows asks, and returns the rows of the answer.
func (p postgres) rows(query string) []string {
	p.Helper()
	out, err := exec.Command(filepath.Join(p.programs, "psql"), "-Atq", "-c", query, p.address).CombinedOutput()
	if err != nil {
		p.Fatalf("psql: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

// sharers are machines that share clusters, and know neither each other nor the simulator.
type sharers struct {
	*testbed
	backend sharedBackend
	said    []string // by all commands
	mu      sync.Mutex
}

func newSharers(t *testing.T, backend sharedBackend) *sharers {
	s := &sharers{testbed: newArena(t), backend: backend}
	path := filepath.Join(s.elsewhere, "hive-test.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more, err := yaml.Marshal(map[string]any{"state": backend.config})
	if err == nil {
		err = os.WriteFile(path, append(before, more...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// on is a command on one of the machines.
func (s *sharers) on(machine string, args ...string) *exec.Cmd {
	home := filepath.Join(s.elsewhere, machine)
	command := s.command(home, append(args,
		"--config", filepath.Join(s.elsewhere, "hive-test.yaml"), "--clusters-dir", filepath.Join(home, "clusters"))...)
	command.Env = append(command.Env, s.backend.environ...)
	if machine != "one" {
		command.Env = append(command.Env, s.backend.other...)
	}
	command.Env = append(command.Env, "HIVE_TEST_STATE_PASSPHRASE="+canarySecret+"-of-states")
	return command
}

// does has a machine do something, which must succeed.
func (s *sharers) does(machine string, args ...string) ended {
	s.Helper()
	done := s.run(s.on(machine, args...))
	s.mu.Lock()
	s.said = append(s.said, done.stdout, done.stderr)
	s.mu.Unlock()
	if done.code != 0 {
		s.Fatalf("%s on machine %s ends with %d:\n%s%s", args[0], machine, done.code, done.stdout, done.stderr)
	}
	s.Logf("machine %s: %s in %s", machine, strings.Join(args, " "), done.took.Round(10*time.Millisecond))
	return done
}

// nothingLeft looks for VMs, locks, and names in the backend.
func (s *sharers) nothingLeft(what string) {
	s.Helper()
	if leaks := s.leaks(); len(leaks) > 0 {
		s.Errorf("%s: left: %s", what, strings.Join(leaks, "; "))
		s.still = s.look() // told once
	}
	if locks := s.backend.locks(); len(locks) > 0 {
		s.Errorf("%s: still locked: %q", what, locks)
	}
	var listed struct{ Clusters []struct{ Name string } }
	for _, machine := range []string{"one", "two", "three"} {
		if err := json.Unmarshal([]byte(s.does(machine, "status", "-o", "json").stdout), &listed); err != nil || len(listed.Clusters) > 0 {
			s.Errorf("%s: machine %s still lists %v (%v)", what, machine, listed.Clusters, err)
		}
	}
}

// noSecrets looks for passwords in all that machines have written and said.
func (s *sharers) noSecrets() {
	s.Helper()
	if exec.Command("grep", "-rqF", `"cluster":"`, s.elsewhere).Run() != nil {
		s.Errorf("the search finds nothing in %s", s.elsewhere)
	}
	for _, secret := range append(s.backend.secrets, canarySecret) {
		for i, text := range s.said {
			if strings.Contains(text, secret) {
				s.Errorf("output %d tells a secret", i)
			}
		}
		found, err := exec.Command("grep", "-rlF", secret, s.elsewhere).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
			s.Errorf("a secret is in %s (%v)", found, err)
		}
	}
}

// shareOver is what a team does.
func shareOver(t *testing.T, backend sharedBackend) {
	s := newSharers(t, backend)
	s.does("one", "full", "whole", "--node-count=1")
	s.nothingLeft("a whole run")

	s.does("one", "up", "team", "--node-count=1")
	s.does("one", "configure", "team")
	s.does("two", "attach", "team")
	s.does("two", "test", "team")
	s.does("two", "down", "team")
	s.nothingLeft("down by the other machine")

	for _, taker := range []string{"two", "one"} { // also where nothing of it is there but the killed run's own
		run := s.start(s.on("one", "full", "killed", "--node-count=2"))
		if !run.until(func() bool { return !run.phases["configure"].IsZero() }) {
			t.Fatalf("full ends before it configures:\n%s", run.log())
		}
		run.end(crashWays()[0])
		run.wait()
		s.said = append(s.said, run.log())
		s.does(taker, "down", "killed")
		s.nothingLeft("down by " + taker + " after a crash")
	}
	s.does("two", "full", "killed", "--node-count=1")
	s.nothingLeft("the same name again")
	s.noSecrets()
	t.Logf("in the backend are %q", slices.Sorted(maps.Keys(backend.states())))
}

// TestSharedCrowd has twenty clusters made and destroyed at once over one server of states. None has anything of another.
func TestSharedCrowd(t *testing.T) {
	soak(t)
	const clusters = 20
	backend := servedBackend(t, "")
	s := newSharers(t, backend)
	var wait sync.WaitGroup
	begun := time.Now()
	for i := range clusters {
		wait.Go(func() {
			name, machine := fmt.Sprintf("crowd-%d", i+1), []string{"one", "two"}[i%2]
			run := s.start(s.on(machine, "full", name, "--node-count=1", "--timeout", "15m", "--keep", "never"))
			<-run.done // twenty at once take their time, which --timeout bounds
			if code := run.wait(); code != 0 {
				t.Errorf("%s ends with %d:\n%s", name, code, run.log())
			}
			s.mu.Lock()
			s.said = append(s.said, run.log())
			s.mu.Unlock()
		})
	}
	wait.Wait()
	t.Logf("%d clusters in %s", clusters, time.Since(begun).Round(time.Second))
	s.nothingLeft("twenty at once")
	s.noSecrets()
	states, owner := backend.states(), map[string]string{}
	for i := range clusters {
		name := fmt.Sprintf("crowd-%d", i+1)
		lineage := states[name]
		if other := owner[lineage]; lineage == "" || other != "" {
			t.Errorf("the state of %s has the lineage %q, which that of %q has, too", name, lineage, other)
		}
		owner[lineage] = name
	}
}
