package stateserver

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseUsers(t *testing.T) {
	hash := hashOf(t, "x")
	for _, text := range []string{
		"", "# nobody\n", "alice\n", "alice:\n", ":" + hash, "alice:plain\n", "alice:" + hash + ":\n", "alice:" + hash + ":a:b\n",
		"al ice:" + hash, "alice:" + hash + "\nalice:" + hash, "alice:" + hash + ":*", "alice:" + hash + ":/", "alice:" + hash + ":a/*",
		"alice:" + hash + ":a,", "alice:" + hash + ":A", "alice:" + hash + ":../x", "alice:" + hash + "x",
		"alice:" + strings.Replace(hash, "$04$", "$20$", 1),
	} {
		if users, err := parseUsers(text); err == nil {
			t.Errorf("%q gives %v", text, users)
		} else if strings.Contains(err.Error(), hash[20:]) || strings.Contains(err.Error(), "plain") {
			t.Errorf("%q is shown: %v", text, err)
		}
	}
	users, err := parseUsers("\n # c\nalice:" + hash + "\r\nbob@example:" + hash + ": team/ ,ci-*,a/b.c-*\n")
	if err != nil || len(users) != 2 || !users["bob@example"].may("ci-1") || !users["bob@example"].may("a/b.c-d/e") {
		t.Errorf("%v (%v)", users, err)
	}
}

// The file of users is read again when it changes; one that cannot be read changes nothing.
func TestUsersAreReadAgain(t *testing.T) {
	s, log := serverOf(t, new(memory))
	path := s.UsersFile
	status := func(name, password string) int {
		return ask(s, "GET", "/state/", "", func(r *http.Request) { r.SetBasicAuth(name, password) }).Code
	}
	if got := status("alice", "secret-a"); got != 200 {
		t.Fatal(got)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("alice:" + hashOf(t, "changed") + "\ncarol:" + hashOf(t, "secret-c") + "\n")
	for _, c := range []struct {
		name, password string
		want           int
	}{{"alice", "secret-a", 401}, {"alice", "changed", 200}, {"bob", "secret-b", 401}, {"carol", "secret-c", 200}} {
		if got := status(c.name, c.password); got != c.want {
			t.Errorf("%s with %s: %d, want %d", c.name, c.password, got, c.want)
		}
	}
	write("carol:nonsense\n")
	if got := status("carol", "secret-c"); got != 200 || !strings.Contains(log.String(), "line 1: user carol has no bcrypt hash") {
		t.Errorf("%d, and the log:\n%s", got, log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := status("carol", "secret-c"); got != 200 {
		t.Error(got)
	}
	write("carol:" + hashOf(t, "secret-c") + "\n")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := openUsers(path, nil); err == nil {
		t.Error("a file that anybody may write is taken")
	}
}

// Ten thousand (a thousand, where not all is tried) wrong passwords cost little, lock out nobody whose password was right before, and nobody else for long.
func TestWrongPasswords(t *testing.T) {
	attempts := 1000
	if os.Getenv("HIVE_TEST_SOAK") != "" {
		attempts = 10000
	}
	s, _ := serverOf(t, new(memory))
	as := func(name, password, client string) int {
		return ask(s, "GET", "/state/", "", func(r *http.Request) {
			r.SetBasicAuth(name, password)
			r.RemoteAddr = client + ":1234"
		}).Code
	}
	if got := as("alice", "secret-a", "10.0.0.1"); got != 200 {
		t.Fatal(got)
	}
	begun := time.Now()
	answers := map[int]int{}
	for i := range attempts {
		answers[as([]string{"alice", "bob", "nobody", fmt.Sprint("n", i)}[i%4], fmt.Sprint("wrong", i), "10.0.0.1")]++
		if i%100 == 0 {
			if got := as("alice", "secret-a", "10.0.0.1"); got != 200 {
				t.Fatalf("after %d wrong ones, the right password is answered %d", i, got)
			}
		}
	}
	t.Logf("%d wrong passwords took %v: %v", attempts, time.Since(begun), answers)
	if answers[200] > 0 || answers[401] < triesOfClient || answers[429] < attempts*4/5 {
		t.Errorf("%d wrong passwords were answered %v", attempts, answers)
	}
	if got := as("bob", "secret-b", "10.0.0.2"); got != 200 {
		t.Errorf("from elsewhere, the right password is answered %d", got)
	}
	for end := time.Now().Add(10 * time.Second); as("bob", "secret-b", "10.0.0.1") != 200; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the right password of a user who had not used it is refused for more than 10 seconds")
		}
	}
}

// That there is no such user takes as long to find out as that the password is wrong.
func TestUnknownUsersTakeAsLong(t *testing.T) {
	path := usersOf(t)
	f, err := openUsers(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := f.begin("nobody", "x"), f.begin("alice", "x")
	if a.known || !b.known || len(a.hash) != len(b.hash) || string(a.hash[:7]) != string(b.hash[:7]) {
		t.Errorf("an unknown user is checked against %q, a known one against %q", a.hash, b.hash)
	}
	if f.check(a, "x") {
		t.Error("nobody is let in")
	}
}

func TestBrake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrake(3, 1, time.Now)
		taken := func(key string) (n int) {
			for range 10 {
				if b.take(key) {
					n++
				}
			}
			return n
		}
		if n := taken("a"); n != 3 {
			t.Errorf("%d attempts at once", n)
		}
		if n := taken("b"); n != 3 {
			t.Errorf("%d attempts of another", n)
		}
		time.Sleep(2500 * time.Millisecond)
		if n := taken("a"); n != 2 {
			t.Errorf("%d attempts after two and a half seconds", n)
		}
		b.giveBack("a")
		if n := taken("a"); n != 1 {
			t.Errorf("%d attempts after one was given back", n)
		}
		for i := range mostBraked + 100 {
			b.take(fmt.Sprint(i))
		}
		if len(b.left) > mostBraked {
			t.Errorf("%d are remembered", len(b.left))
		}
	})
}
