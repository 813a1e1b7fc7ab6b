package client

import (
	"context"
	"errors"
	"fmt"
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

	"hive-test/pkg/stateserver"
	"hive-test/pkg/stateserver/filestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server with so many versions of the state team/a, and returns its URL.
func serve(t *testing.T, versions int) string {
	t.Helper()
	dir := t.TempDir()
	storage, err := filestore.Open(filepath.Join(dir, "states"))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, fmt.Appendf(nil, "alice:%s:team/\n", hash), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := stateserver.New(storage, stateserver.Keys{}, stateserver.Options{
		UsersFile: users, TLS: stateserver.Auto, Listen: "127.0.0.1:0", MaxSize: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		if err := storage.Close(); err != nil {
			t.Error(err)
		}
	})
	for serial := 1; serial <= versions; serial++ {
		body := fmt.Sprintf(`{"version": 4, "serial": %d, "lineage": "l"}`, serial)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/state/team/a", strings.NewReader(body))
		request.SetBasicAuth("alice", "secret")
		answer, err := web.Client().Do(request)
		if err != nil || answer.StatusCode >= 300 {
			t.Fatal(answer, err)
		}
		_ = answer.Body.Close()
	}
	return web.URL
}

func clientOf(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestVersions(t *testing.T) {
	c := clientOf(t, Options{Address: serve(t, 5) + "/state/team/a", User: "alice", Password: "secret"})
	for limit, want := range map[int][]int64{100: {5, 4, 3, 2, 1}, 2: {5, 4}, 5: {5, 4, 3, 2, 1}} {
		history, err := c.History(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, v := range history.Versions {
			got = append(got, v.Number)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
	if text, err := c.Version(t.Context(), 2); err != nil || !strings.Contains(string(text), `"serial": 2`) {
		t.Errorf("%s, %v", text, err)
	}
	var status *StatusError
	if _, err := c.Version(t.Context(), 9); !errors.As(err, &status) || status.Code != http.StatusNotFound || !strings.Contains(status.Text, "no version 9") {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	url := serve(t, 1)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for name, test := range map[string]struct {
		options Options
		code    int
		text    string
	}{
		"a wrong password":      {Options{Address: url + "/state/team/a", User: "alice", Password: "other"}, 401, "wrong user or password"},
		"no password":           {Options{Address: url + "/state/team/a"}, 401, "user"},
		"another's state":       {Options{Address: url + "/state/b", User: "alice", Password: "secret"}, 403, "may not have state b"},
		"one that never was":    {Options{Address: url + "/state/team/b", User: "alice", Password: "secret"}, 404, "there never was a state"},
		"another server":        {Options{Address: other.URL + "/state/team/a"}, 0, "keeps no versions"},
		"an unknown certficate": {Options{Address: secure.URL + "/state/team/a"}, 0, "x509"},
		"not verified":          {Options{Address: secure.URL + "/state/team/a", Insecure: true}, 0, "keeps no versions"},
	} {
		_, err := clientOf(t, test.options).History(t.Context(), 10)
		status := &StatusError{}
		errors.As(err, &status)
		if err == nil || status.Code != test.code || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{Address: "http://x.example/other/a"}, {Address: "http://x.example/state/a", CA: "none"}, {Address: "://"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clientOf(t, Options{Address: url + "/state/team/a"}).History(gone, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
