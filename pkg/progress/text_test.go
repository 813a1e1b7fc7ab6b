package progress

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	tests := map[string]string{
		"plain text\n\tand a tab":                  "plain text\n\tand a tab",
		"\x1b[1;31mred\x1b[0m":                     "red",
		"\x1b]0;title\x07shown":                    "shown",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\u009b31mred":                             "red",
		"a\x00b\x08c\x7fd\u0085":                   "abcd",
		"line\r\nline\rline":                       "line\nline\nline",
		"bad \xff utf-8":                           "bad \uFFFD utf-8",
		"not a character \uFFFE":                   "not a character \uFFFD",
		"\x1b[31":                                  "",
		"\x1b":                                     "",
		"\x1b]never ends\nnext":                    "never ends\nnext",
		"\x1b(Bascii":                              "ascii",
		"grüße 漢字 🙂":                               "grüße 漢字 🙂",
		"\u202elive\u202c\u2066x\u2069\u200f\u061c שלום": "livex שלום",
		"\x1b\u202e[31m": "[31m",
	}
	for in, want := range tests {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "\x1b[31mx\x1b[0m", "\xff\r\n", "\x1b\x1b[1m", "\u009b\x1b]x\x07", "]]>", "\x1b\u202e[1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b\r\u009b\x7f\u202e\u2066") {
			t.Errorf("Clean(%q) = %q", s, got)
		}
		if again := Clean(got); again != got {
			t.Errorf("Clean(%q) changes to %q", got, again)
		}
	})
}

func TestFormat(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0.0s", 0.44: "0.4s", 59.94: "59.9s", 59.96: "1m00s", 65: "1m05s", 3599.4: "59m59s", 3600: "1h00m",
		7325: "2h02m", -1: "0.0s",
	} {
		if got := FormatSeconds(in); got != want {
			t.Errorf("FormatSeconds(%v) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[time.Duration]string{
		5 * time.Minute: "5m", 90 * second: "1m30s", 2 * time.Hour: "2h", 10 * second: "10s", 30 * time.Minute: "30m",
		982100 * time.Microsecond: "1s", 2250 * time.Millisecond: "2.3s", 253 * time.Millisecond: "250ms",
		12 * time.Millisecond: "12ms", 2400 * time.Microsecond: "2ms",
		67500 * time.Millisecond: "1m8s", 5*time.Minute - time.Millisecond: "5m",
	} {
		if got := FormatLimit(in); got != want {
			t.Errorf("FormatLimit(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 VMs", 1: "1 VM", 2: "2 VMs"} {
		if got := Count(n, "VM"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestHints(t *testing.T) {
	a := WithHint(errors.New("a"), "mend a")
	b := fmt.Errorf("b: %w", WithHint(errors.New("b"), "mend b"))
	err := fmt.Errorf("both: %w", errors.Join(a, b, a))
	if got, want := HintOf(err), "mend a\nmend b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if WithHint(nil, "x") != nil || HintOf(nil) != "" || HintOf(errors.New("x")) != "" {
		t.Error("a hint from nothing")
	}
	if a.Error() != "a" {
		t.Errorf("the message is %q", a)
	}
}

func knownSecrets(values ...string) *Secrets {
	known := new(Secrets)
	known.Learn(values...)
	return known
}

func TestRedactMasksSecretsHoweverTheyAreWritten(t *testing.T) {
	const token = `root@pam!ci=12/34+5"6&7`
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nAAAAB3NzaC1lZDI1NTE5AAAA\n-----END OPENSSH PRIVATE KEY-----\n"
	inJSON, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"as it is":          "token " + token + " refused",
		"in a query":        "https://pve/?t=" + url.QueryEscape(token) + "&x=1",
		"in a path":         "https://pve/" + url.PathEscape(token),
		"in user info":      (&url.URL{Scheme: "https", Host: "pve", User: url.UserPassword("u", token)}).String(),
		"in JSON":           string(inJSON),
		"in base64":         base64.StdEncoding.EncodeToString([]byte(token)),
		"in basic auth":     "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+token)),
		"in base64 of more": base64.URLEncoding.EncodeToString([]byte("ab" + token + "cd")),
		"a line of a key":   "+ AAAAB3NzaC1lZDI1NTE5AAAA",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			memory := &Memory{}
			Redact(memory, knownSecrets("", "abc", token, key)).
				Emit(Event{Kind: Info, Message: text, Error: text, Hint: text, Output: text})
			e := memory.Events()[0]
			for _, got := range []string{e.Message, e.Error, e.Hint, e.Output} {
				if !strings.Contains(got, Redacted) || strings.Contains(got, "12/34") ||
					strings.Contains(got, "12%2F34") || strings.Contains(got, "TE5AAAA") {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

func TestRedactLeavesTheRest(t *testing.T) {
	memory := &Memory{}
	secrets := knownSecrets("first-secret")
	sink := Redact(memory, secrets)
	sent := Event{
		Kind: PhaseEnd, Phase: "test", Cluster: "ci", Message: "-----BEGIN CERTIFICATE----- is fine", Status: Passed,
		Seconds: 1,
	}
	sink.Emit(sent)
	if diff := cmp.Diff(sent, memory.Events()[0]); diff != "" {
		t.Error(diff)
	}
	secrets.Learn("learnt-later")
	sink.Emit(Event{Kind: Info, Message: "learnt-later, first-secret-and-more"})
	if got, want := memory.Events()[1].Message, "[redacted], [redacted]-and-more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrapTold(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		width    int
	}{
		{in: "error: one two three\n", width: 0, want: "error: one two three\n"},
		{in: "error: one two three\n", width: 12, want: "error: one\n  two three\n"},
		{in: "error: a b c\n  and d e\n", width: 8, want: "error: a\n  b c\n  and d\n    e\n"},
		{in: "hint: hive-test up a --wait 10m\n", width: 12, want: "hint: hive-test up a --wait 10m\n"},
		{in: "locked by 1, which runs `hive-test up a` now\n", width: 20, want: "locked by 1, which\n  runs\n  `hive-test up a`\n  now\n"},
		{in: "use `hive-test up a` or hive-test down a\n", width: 12, want: "use `hive-test up a` or hive-test down a\n"},
		{in: "a lone ` of two words\n", width: 12, want: "a lone ` of\n  two words\n"},
	} {
		if got := WrapTold(tt.in, tt.width); got != tt.want {
			t.Errorf("WrapTold(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		in, indent, want string
		width            int
	}{
		{in: "one two three\n", width: 0, want: "one two three\n"},
		{in: "one two three\n", width: 7, indent: "  ", want: "one two\n  three\n"},
		{in: "  - one two\n    as  it  is", width: 14, want: "  - one two\n    as  it  is"},
		{in: "  - one two three", width: 11, indent: "  ", want: "  - one two\n    three"},
		{in: "see /a/very/long/path now", width: 8, want: "see\n/a/very/long/path\nnow"},
		{in: Red.Paint("error:") + " a b", width: 9, want: Red.Paint("error:") + " a\nb"},
		{in: "put it:\n  export TOKEN='a b'\n", width: 8, want: "put it:\n  export TOKEN='a b'\n"},
		{in: "  it can export a b", width: 12, want: "  it can\n  export a b"},
		{in: "世界 世界", width: 5, want: "世界\n世界"},
	} {
		if got := Wrap(tt.in, tt.width, tt.indent); got != tt.want {
			t.Errorf("Wrap(%q, %d, %q) = %q, want %q", tt.in, tt.width, tt.indent, got, tt.want)
		}
	}
}

func TestCleanButColorsKeepsColorsAlone(t *testing.T) {
	for given, want := range map[string]string{
		"plain":                                 "plain",
		"\x1b[1;31mred\x1b[0m":                  "\x1b[1;31mred\x1b[0m",
		"\x1b]0;title\x07\x1b[2J\x1b[32mgo\r\n": "\x1b[32mgo\n",
		"\x1b[31":                               "",
	} {
		if got := CleanButColors(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
		if got := Clean(CleanButColors(given)); got != Clean(given) {
			t.Errorf("%q becomes %q without its colours", given, got)
		}
	}
}

func TestSecretsAreFoundThroughColors(t *testing.T) {
	var secrets Secrets
	secrets.Learn("hunter2hunter2")
	for given, want := range map[string]string{
		"\x1b[31mkey hunter2hunter2\x1b[0m":     "\x1b[31mkey [redacted]\x1b[0m",
		"key hunter\x1b[31m2hunter2\x1b[0m end": "key [redacted] end",
	} {
		if got := secrets.MaskEvent(Event{Output: given}).Output; got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

// A JSON document says the same, and does nothing to a terminal or the log of a job.
func TestDisarmJSON(t *testing.T) {
	for _, text := range []string{"plain é 🐝\n", "\u202ea\u009b2J\x7f\u2066", "##[error]x", "\x1b[31m"} {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		safe := DisarmJSON(raw)
		if strings.ContainsAny(string(safe), "\u202e\u009b\x7f\u2066\x1b") || strings.Contains(string(safe), "##[") {
			t.Errorf("%q is written as %q", text, safe)
		}
		var again string
		if err := json.Unmarshal(safe, &again); err != nil || again != text {
			t.Errorf("%q is read as %q: %v", text, again, err)
		}
	}
}
