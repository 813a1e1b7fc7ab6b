package stateserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
)

// With age, nothing of a state, of who wrote it or of the server's key is readable in the storage.
func TestEncryptionAtRest(t *testing.T) {
	m := new(memory)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	server := func(o KeyOptions) *Server {
		t.Helper()
		keys, err := OpenKeys(t.Context(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(m, keys, Options{
			Listen: "127.0.0.1:0", TLS: SelfSigned, UsersFile: usersOf(t), MaxSize: 1 << 20, Now: time.Now,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := server(KeyOptions{})
	run(t, plain, []step{{"POST", "/state/before", stateOf(1, "l", "readable"), 200, ""}})
	before := len(m.objects)
	s := server(KeyOptions{Identities: identity.String(), Recipients: []string{other.Recipient().String()}})
	_, stop := running(t, s)
	run(t, s, []step{
		{"GET", "/state/before", "", 200, "readable"}, // what was written plain is read
		{"LOCK", "/state/a", lockOf("canary"), 200, ""},
		{"POST", "/state/a?ID=canary", stateOf(1, "canary", "canary"), 200, ""},
		{"POST", "/state/a?ID=canary", stateOf(2, "canary", "two"), 200, ""},
		{"UNLOCK", "/state/a", lockOf("canary"), 200, ""},
		{"GET", "/state/a", "", 200, "two"},
		{"GET", "/history/a?version=1", "", 200, `"mark": "canary"`},
		{"GET", "/history/a", "", 200, `"version": 1`},
		{"POST", "/history/a?version=1", "", 200, `"of": 1`},
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	sealed := 0
	for key, data := range m.objects {
		if bytes.Contains(data, []byte(" age ")) {
			sealed++
			for _, word := range []string{"canary", "alice", "lineage", "PRIVATE KEY"} {
				if bytes.Contains(data, []byte(word)) {
					t.Errorf("%s is readable in %s", word, key)
				}
			}
		}
	}
	if sealed < 8 {
		t.Errorf("%d of %d objects are encrypted", sealed, len(m.objects)-before)
	}
	run(t, server(KeyOptions{Identities: other.String()}), []step{{"GET", "/state/a", "", 200, "canary"}})
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	run(t, server(KeyOptions{Identities: stranger.String()}), []step{{"GET", "/state/a", "", 503, "the log"}})
	run(t, plain, []step{{"GET", "/state/a", "", 503, "the log"}})
}

// A passphrase opens the identity that the storage keeps, and another one does not.
func TestPassphrase(t *testing.T) {
	m := new(memory)
	keys, err := OpenKeys(t.Context(), m, KeyOptions{Passphrase: "right", work: 8})
	if err != nil || len(keys.Recipients) != 1 {
		t.Fatal(keys, err)
	}
	object, err := keys.seal([]byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenKeys(t.Context(), m, KeyOptions{Passphrase: "right", work: 8})
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := again.open(object); err != nil || string(parts[0]) != "text" {
		t.Errorf("%q (%v)", parts, err)
	}
	if _, err := OpenKeys(t.Context(), m, KeyOptions{Passphrase: "wrong"}); err == nil {
		t.Error("another passphrase is taken")
	}
	for _, data := range m.objects {
		if strings.Contains(string(data), "AGE-SECRET") {
			t.Error("the identity is readable in the storage")
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for _, o := range []KeyOptions{
		{Recipients: []string{"age1xyz"}},
		{Identities: "AGE-SECRET-KEY-1CANARY"},
		{Passphrase: "p", Identities: "x"},
		{Recipients: []string{"age1rnp8uhfswfpa7zzz8htpfhhx5g0xzl0hp3t7m0kd63mnp7gj8e7sewg5tf"}},
	} {
		if _, err := OpenKeys(t.Context(), new(memory), o); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestFrames(t *testing.T) {
	object, err := Keys{}.seal([]byte("one"), nil, []byte("three\n"))
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := (Keys{}).open(object); err != nil || fmt.Sprintf("%s", parts) != "[one  three\n]" {
		t.Errorf("%q (%v)", parts, err)
	}
	for end := range len(object) {
		if parts, err := (Keys{}).open(object[:end]); err == nil {
			t.Errorf("of %d bytes: %q", end, parts)
		}
	}
	for _, text := range []string{
		"", "\n", "hive-test-state 1 plain\n", "hive-test-state 2 plain 1\nx", "hive-test-state 1 plain -1\nx",
		"hive-test-state 1 plain 99999999999999999999\nx", "hive-test-state 1 plain x\nx", "hive-test-state 1 plain 1\nxy",
		"hive-test-state 1 age 1\nx",
	} {
		if parts, err := (Keys{}).open([]byte(text)); err == nil {
			t.Errorf("%q: %q", text, parts)
		}
		if _, _, err := (Keys{}).openFirst([]byte(text)); err == nil && !strings.HasSuffix(text, "xy") {
			t.Errorf("the start of %q is taken", text)
		}
	}
}
