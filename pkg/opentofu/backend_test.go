package opentofu

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/sim/httpstate"
)

// stateServer is a server that is not ours.
type stateServer struct {
	*httpstate.Server
	url string
}

func newStateServer(t *testing.T) *stateServer {
	s := httpstate.New("ci", "canary-of-the-backend")
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		if wrong := s.Violations(); len(wrong) > 0 {
			t.Errorf("against the protocol: %q", wrong)
		}
	})
	return &stateServer{s, web.URL}
}

func (s *stateServer) options(t *testing.T, program string) Options {
	return Options{
		Module: sample(), Find: FindOptions{Explicit: program}, CacheDir: t.TempDir(), OwnerID: t.Name(), NodeOf: keyOf,
		Backend: Backend{Type: "http", Config: map[string]any{"address": s.url + "/state/{name}", "retry_max": 0}, Passphrase: "a passphrase of the test"},
		Env:     []string{"TF_HTTP_USERNAME=ci", "TF_HTTP_PASSWORD=canary-of-the-backend", "OTHER=1"},
	}
}

// TestRemoteState: what was made on one machine is known on another, and a state that could not be written is not lost.
func TestRemoteState(t *testing.T) {
	for i, program := range programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			oneIsEnough(t, i)
			t.Parallel()
			server := newStateServer(t)
			options := server.options(t, program)
			options.Backend = options.Backend.Of("any")
			here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
			first := sampleVariables{map[string]string{"a": "1", "b": "1"}, "old"}
			runner := New(options)
			apply(t, runner, here, first, "create a, create b", "create a, create b")
			apply(t, runner, there, first, "", "")
			if preview, err := runner.Preview(t.Context(), filepath.Join(t.TempDir(), "new"), first); err != nil || len(preview.Changes) > 0 {
				t.Errorf("a look from a third machine: %+v, %v", preview, err)
			}
			second := sampleVariables{map[string]string{"a": "1", "b": "1", "c": "1"}, "old"}
			server.SetBroken("/state/any")
			run, err := runner.Begin(t.Context(), there)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := run.Plan(t.Context(), second)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Apply(t.Context(), plan); err == nil {
				t.Error("a state that cannot be written is no error")
			}
			run.Close()
			if made, err := ReadState(StatePath(there)); err != nil || len(made) != 3 {
				t.Errorf("the copy is not what was made last: %+v, %v", made, err)
			}
			server.SetBroken("")
			apply(t, runner, there, second, "", "")
			apply(t, runner, here, second, "", "")
			last, err := runner.Begin(t.Context(), here)
			if err != nil {
				t.Fatal(err)
			}
			defer last.Close()
			if err := last.Destroy(t.Context(), second, true); err != nil {
				t.Fatal(err)
			}
			if made, err := ReadState(StatePath(here)); err != nil || len(made) > 0 {
				t.Errorf("left: %+v, %v", made, err)
			}
			noCanary(t, here, there)
		})
	}
}

// oneIsEnough skips all programs but the first, outside of soak.
func oneIsEnough(t *testing.T, program int) {
	t.Helper()
	if program > 0 && os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("takes long: make soak runs it with the second program, too")
	}
}

// noCanary looks for the backend's password in all files.
func noCanary(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if strings.Contains(string(raw), "canary-of-the-backend") || strings.Contains(string(raw), "a passphrase of the test") {
				t.Errorf("%s holds a secret", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestDocuments: of many who write at once, each that is told so has written after what it has read.
func TestDocuments(t *testing.T) {
	for i, program := range programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			oneIsEnough(t, i)
			t.Parallel()
			server := newStateServer(t)
			options := server.options(t, program)
			one, two := NewDocuments(options, t.TempDir()), NewDocuments(options, t.TempDir())
			empty, err := one.Read(t.Context(), "a.rest")
			if err != nil || len(empty.Values) > 0 {
				t.Fatalf("%+v, %v", empty, err)
			}
			written, err := one.Write(t.Context(), "a.rest", Document{Values: map[string]string{"k": "1"}})
			if err != nil {
				t.Fatal(err)
			}
			written.Values = map[string]string{"k": "1"}
			if written, err = one.Write(t.Context(), "a.rest", written); err != nil {
				t.Fatal(err)
			}
			read, err := two.Read(t.Context(), "a.rest")
			if err != nil || read.Values["k"] != "1" || read.Version() != written.Version() {
				t.Fatalf("%+v, %v", read, err)
			}
			if other, err := two.Read(t.Context(), "b.rest"); err != nil || len(other.Values) > 0 {
				t.Errorf("another document: %+v, %v", other, err)
			}
			read.Values["k"] = "2"
			if _, err := two.Write(t.Context(), "a.rest", read); err != nil {
				t.Fatal(err)
			}
			written.Values = map[string]string{"k": "3"}
			if _, err := one.Write(t.Context(), "a.rest", written); !errors.Is(err, ErrChanged) {
				t.Errorf("a write after another's: %v", err)
			}
			if _, err := one.Write(t.Context(), "a.rest", Document{Values: map[string]string{"k": "4"}}); !errors.Is(err, ErrChanged) {
				t.Errorf("a first write where there is one: %v", err)
			}
			if last, err := one.Read(t.Context(), "a.rest"); err != nil || last.Values["k"] != "2" {
				t.Errorf("%+v, %v", last, err)
			}
		})
	}
}

// Of many who change one document at once, some of them in one directory as processes of one machine are, each change is there.
func TestDocumentsAreChangedAtOnce(t *testing.T) {
	for i, program := range programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			oneIsEnough(t, i)
			t.Parallel()
			options := newStateServer(t).options(t, program)
			dir := t.TempDir()
			var group sync.WaitGroup
			for who, where := range []string{dir, dir, dir, t.TempDir()} {
				documents := NewDocuments(options, where)
				group.Go(func() {
					err := documents.Update(t.Context(), "all.index", func(values map[string]string) bool {
						values[fmt.Sprint(who)] = "here"
						return true
					})
					if err != nil {
						t.Errorf("%d: %v", who, err)
					}
				})
			}
			group.Wait()
			if all, err := NewDocuments(options, dir).Read(t.Context(), "all.index"); err != nil || len(all.Values) != 4 {
				t.Errorf("%v, %v", all.Values, err)
			}
		})
	}
}

func TestCheckBackend(t *testing.T) {
	for name, row := range map[string]struct {
		kind   string
		config map[string]any
		want   string
	}{
		"http":            {"http", map[string]any{"address": "https://state/{name}"}, ""},
		"s3":              {"s3", map[string]any{"bucket": "b", "key": "{name}.tfstate"}, ""},
		"pg":              {"pg", map[string]any{"schema_name": "ht_{name}"}, ""},
		"an unknown one":  {"etcd", nil, "there is no backend \"etcd\""},
		"one for all":     {"s3", map[string]any{"bucket": "{name}", "key": "all.tfstate"}, "two clusters would have one state"},
		"no address":      {"gcs", nil, "prefix must hold {name}"},
		"a password":      {"http", map[string]any{"address": "https://x/{name}", "password": "p"}, "password is a secret"},
		"in the address":  {"http", map[string]any{"address": "https://u:p@x/{name}"}, "the address holds a password"},
		"in a connection": {"pg", map[string]any{"conn_str": "postgres://u:p@h/d", "schema_name": "{name}"}, "conn_str is a secret"},
		"by words":        {"pg", map[string]any{"conn_str": "host=h password=p", "schema_name": "{name}"}, "conn_str is a secret"},
		"no secret":       {"pg", map[string]any{"conn_str": "postgres://h/d", "schema_name": "{name}"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckBackend(row.kind, row.config)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

func TestBackendsLockAndHaveTheirOwn(t *testing.T) {
	of := Backend{Type: "http", Config: map[string]any{"address": "https://x/{name}"}}.Of("ci-1")
	want := map[string]any{
		"address": "https://x/ci-1", "lock_address": "https://x/ci-1", "unlock_address": "https://x/ci-1",
		"lock_method": "LOCK", "unlock_method": "UNLOCK",
	}
	if diff := cmp.Diff(want, of.Config); diff != "" {
		t.Error(diff)
	}
	s3 := Backend{Type: "s3", Config: map[string]any{"key": "{name}", "endpoints": map[string]any{"s3": "https://r2"}}}.Of("ci-1")
	if s3.Config["use_lockfile"] != true {
		t.Error(s3.Config)
	}
	env, secrets := s3.environment([]string{"AWS_SECRET_ACCESS_KEY=s", "AWS_ACCESS_KEY_ID=i", "TF_HTTP_PASSWORD=p", "HOME=/nonexistent"}, OpenTofu)
	if diff := cmp.Diff(map[string]string{
		"AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "i",
		"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
	}, env); diff != "" || fmt.Sprint(secrets) != "[s]" {
		t.Error(diff, secrets)
	}
}

// TestStatesOfKilledRuns: a lock that nobody can take back is taken away, by whoever holds the cluster.
func TestStatesOfKilledRuns(t *testing.T) {
	for i, program := range programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			oneIsEnough(t, i)
			t.Parallel()
			if filepath.Base(program) == "terraform" {
				t.Skip("Terraform tells a server of the backend http no id when it unlocks by force, and a strict one refuses that")
			}
			server := newStateServer(t)
			options := server.options(t, program)
			options.Backend = options.Backend.Of("any")
			server.Lock("/state/any", `{"ID":"11111111-2222-3333-4444-555555555555","Operation":"OperationTypeApply","Info":"","Who":"gone","Version":"1","Created":"2026-11-28T00:00:00Z","Path":""}`)
			apply(t, New(options), t.TempDir(), sampleVariables{map[string]string{"a": "1"}, "old"}, "create a", "create a")
			if locked := server.Locked(); len(locked) > 0 {
				t.Errorf("still locked: %q", locked)
			}
		})
	}
}
