package stateserver

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hashOf is a hash that is quick to check.
func hashOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// usersOf writes a file of users: alice has all states, bob those below team/, ci-… and the one of his name.
func usersOf(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	text := "# users\n\nalice:" + hashOf(t, "secret-a") + "\nbob:" + hashOf(t, "secret-b") + ":team/,ci-*,bob\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serverOf is a server of a storage, and what it logs.
func serverOf(t testing.TB, storage Storage, change ...func(*Options)) (*Server, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	o := Options{
		UsersFile: usersOf(t), TLS: Auto, Listen: "127.0.0.1:0", MaxSize: 1 << 20, Now: time.Now,
		Log: slog.New(slog.NewJSONHandler(log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	s, err := New(storage, Keys{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// over is a server of another storage, without the time that it takes to hash passwords.
func over(base *Server, storage Storage) *Server {
	return &Server{
		Options: base.Options, storage: storage, log: base.log, auth: base.auth, metrics: base.metrics,
		health: &health{storage: storage}, bodies: base.bodies,
	}
}

// ask has a server answer a request, as alice where it says nothing else.
func ask(s http.Handler, method, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, reader)
	r.SetBasicAuth("alice", "secret-a")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// stateOf is a state as Terraform writes it.
func stateOf(serial int, lineage, mark string) string {
	return fmt.Sprintf(`{"version": 4, "terraform_version": "1.11.4", "serial": %d, "lineage": %q, "outputs": {"mark": %q}}`,
		serial, lineage, mark)
}

func lockOf(id string) string {
	return fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypeApply","Who":"me@here","Version":"1.11.4","Path":""}`, id)
}

func sumHeader(body string) string {
	sum := md5.Sum([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}
