package s3store_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"hive-test/pkg/stateserver"
	"hive-test/pkg/stateserver/s3store"
	"hive-test/pkg/stateserver/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment with keys.
func env(more map[string]string) s3store.Env {
	all := map[string]string{"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_REGION": "eu-test-1"}
	maps.Copy(all, more)
	return s3store.Env{Getenv: func(name string) string { return all[name] }}
}

func open(t *testing.T, address string, e s3store.Env) *s3store.Store {
	t.Helper()
	store, err := s3store.Open(address, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// served is a bucket of a server in this process.
func served(t *testing.T) (*bucket, string) {
	b := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func TestSuite(t *testing.T) {
	b, url := served(t)
	address := "s3://states/of/a/team?endpoint=" + url
	storagetest.Suite(t, open(t, address, env(nil)), open(t, address, env(nil)))
	for key := range b.objects {
		if !strings.HasPrefix(key, "of/a/team/") {
			t.Errorf("%s is outside of the prefix", key)
		}
	}
}

// A server that is asked for by HIVE_TEST_S3, as s3://BUCKET?endpoint=URL, does what is needed, too.
func TestAnyServer(t *testing.T) {
	address := os.Getenv("HIVE_TEST_S3")
	if address == "" {
		t.Skip("HIVE_TEST_S3 names no bucket of a real server")
	}
	e := s3store.Env{Getenv: os.Getenv}
	where := strings.Replace(address, "?", fmt.Sprintf("/%s?", filepath.Base(t.TempDir())+t.Name()), 1)
	storagetest.Suite(t, open(t, where, e), open(t, where, e))
}

// What fails for a moment is tried again, and an object that was written by a try whose answer was lost is ours.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) bool
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
			w.WriteHeader(500)
			return true
		}},
		{"503 slow down", func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
			w.WriteHeader(503)
			return true
		}},
		{"409 at once", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
			if r.Method == http.MethodPut {
				w.WriteHeader(409)
			}
			return r.Method == http.MethodPut
		}},
		{"cut off", func(http.ResponseWriter, *http.Request, http.HandlerFunc) bool { panic(http.ErrAbortHandler) }},
		{"done, and the answer lost", func(_ http.ResponseWriter, r *http.Request, serve http.HandlerFunc) bool {
			serve(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}},
		{"done, and said that it failed", func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) bool {
			serve(httptest.NewRecorder(), r)
			w.WriteHeader(500)
			return true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, url := served(t)
			var calls atomic.Int64
			b.fault = func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) bool {
				return calls.Add(1)%2 == 1 && c.fault(w, r, serve) // each first try
			}
			s := open(t, "s3://states?endpoint="+url, env(nil))
			if err := s.Create(t.Context(), "a", []byte("mine")); err != nil {
				t.Errorf("writing: %v", err)
			}
			calls.Store(0)
			if err := s.Create(t.Context(), "a", []byte("other")); !errors.Is(err, stateserver.ErrExists) {
				t.Errorf("writing again: %v", err)
			}
			calls.Store(0)
			if got, err := s.Read(t.Context(), "a"); err != nil || string(got) != "mine" {
				t.Errorf("reading: %q (%v)", got, err)
			}
			calls.Store(0)
			if keys, err := s.List(t.Context(), ""); err != nil || len(keys) != 1 {
				t.Errorf("listing: %q (%v)", keys, err)
			}
			calls.Store(0)
			if err := s.Delete(t.Context(), "a"); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	}
}

// A server that ignores conditions is found out before anything depends on it, and so is one that refuses the keys.
func TestServersThatWillNotDo(t *testing.T) {
	b, url := served(t)
	b.ignoresConditions = true
	err := stateserver.CheckStorage(t.Context(), open(t, "s3://states?endpoint="+url, env(nil)))
	if err == nil || !strings.Contains(err.Error(), "no conditional writes") {
		t.Errorf("a server without conditions: %v", err)
	}
	b.ignoresConditions = false
	err = stateserver.CheckStorage(t.Context(), open(t, "s3://states?endpoint="+url, env(map[string]string{"AWS_SECRET_ACCESS_KEY": "canary"})))
	if err == nil || !strings.Contains(err.Error(), "403 SignatureDoesNotMatch") || strings.Contains(err.Error(), "canary") {
		t.Errorf("wrong keys: %v", err)
	}
	err = stateserver.CheckStorage(t.Context(), open(t, "s3://other?endpoint="+url, env(nil)))
	if err == nil || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

// Keys come from the environment or a profile, which is read each time.
func TestProfiles(t *testing.T) {
	_, url := served(t)
	path := filepath.Join(t.TempDir(), "credentials")
	e := env(map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "p"})
	s := open(t, "s3://states?endpoint="+url, e)
	if _, err := s.Read(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a file: %v", err)
	}
	text := "[default]\naws_access_key_id = x\n[p]\naws_access_key_id = " + accessKey + "\naws_secret_access_key = " + secretKey + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), "a"); !errors.Is(err, stateserver.ErrNotFound) {
		t.Errorf("with the profile: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"s3://", "s3:///x", "s3://b?x=1", "s3://b?endpoint=no", "s3://b?endpoint=ftp://x", "s3://k:s@b", "s3://b#x", "gs://b",
	} {
		if _, err := s3store.Open(address, env(nil)); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
	if _, err := s3store.Open("s3://b", env(map[string]string{"AWS_REGION": ""})); err == nil {
		t.Error("no region and no endpoint are taken")
	}
}
