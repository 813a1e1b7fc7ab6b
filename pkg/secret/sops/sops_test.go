package sops

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
)

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func testKeys(t *testing.T) []age.Identity {
	t.Helper()
	keys, err := age.ParseIdentities(bytes.NewReader(testdata(t, "keys.txt")))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// made are the files that the program sops has made, and of what.
func made() map[string]string {
	return map[string]string{
		"enc.yaml": "plain.yaml", "regex.yaml": "plain.yaml", "maconly.yaml": "plain.yaml", "unregex.yaml": "plain.yaml",
		"enc.json": "plain.json", "suffix.json": "plain.json", "enc.env": "plain.env", "enc.bin": "plain.bin",
	}
}

// valuesOf are all values of a text that is not encrypted.
func valuesOf(t *testing.T, format Format, raw []byte) map[string]plain {
	t.Helper()
	if format == Binary {
		return map[string]plain{"data": {string(raw), typeString}}
	}
	document, err := format.parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	found, err := leaves(document.Content[0])
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]plain{}
	for i, l := range found {
		p, err := scalar(l.node)
		if err != nil {
			t.Fatal(err)
		}
		values[JoinPath(l.path)+"/"+string(rune('a'+i))] = p
	}
	return values
}

func TestFilesOfTheProgramAreRead(t *testing.T) {
	for name, of := range made() {
		t.Run(name, func(t *testing.T) {
			format := FormatOf(name)
			d, err := Open(format, testdata(t, name), testKeys(t))
			if err != nil {
				t.Fatal(err)
			}
			text, err := d.Plain()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(valuesOf(t, format, testdata(t, of)), valuesOf(t, format, text), cmp.AllowUnexported(plain{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, comment := range regexp.MustCompile(`(?m)#.*$`).FindAllString(string(testdata(t, of)), -1) {
				if format != Binary && format != JSON && !strings.Contains(string(text), comment) {
					t.Errorf("the comment %q is gone of\n%s", comment, text)
				}
			}
		})
	}
}

func TestGet(t *testing.T) {
	for _, c := range []struct{ file, path, want string }{
		{"enc.yaml", "proxmox.token", "root@pam!ci=11111111-2222-3333-4444-555555555555"},
		{"enc.yaml", "proxmox.port", "8006"},
		{"enc.yaml", "proxmox.ratio", "0.5"},
		{"enc.yaml", "proxmox.verify", "true"},
		{"enc.yaml", "proxmox.empty", ""},
		{"enc.yaml", `proxmox.with\.dot`, "dotted"},
		{"enc.yaml", "proxmox.note_unencrypted", "plain to see"},
		{"enc.yaml", "proxmox.lines", "first\nsecond\n"},
		{"enc.yaml", "list.1", "two"},
		{"enc.yaml", "list.2.secret", "s3"},
		{"enc.yaml", "list.3.1", "deeper"},
		{"enc.yaml", "10", "number key"},
		{"enc.json", "tofu.list.1.b", "c"},
		{"enc.json", "emoji", `🦊 <x> & "q" \ /`},
		{"enc.env", "MULTI", "one\ntwo"},
		{"enc.env", "WITH_EQUALS", "a=b=c"},
	} {
		d, err := Open(FormatOf(c.file), testdata(t, c.file), testKeys(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Get(SplitPath(c.path)); got != c.want || err != nil {
			t.Errorf("%s#%s is %q (%v), want %q", c.file, c.path, got, err, c.want)
		}
	}
	d, _ := Open(YAML, testdata(t, "enc.yaml"), testKeys(t))
	for path, want := range map[string]string{
		"proxmox":         "proxmox: it has further keys: name one of them (there are token, endpoint, port",
		"proxmox.tocken":  "proxmox.tocken: there is no such key (there are token",
		"list.9":          "list.9: there is no such key (there are 0, 1, 2, 3)",
		"proxmox.nothing": "proxmox.nothing: it has no value",
		"proxmox.token.x": "proxmox.token.x: there is no such key",
	} {
		if _, err := d.Get(SplitPath(path)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	bin, err := Open(Binary, testdata(t, "enc.bin"), testKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bin.Get(nil); got != string(testdata(t, "plain.bin")) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestChangesAreFound changes a file in every way in which somebody without its key can.
func TestChangesAreFound(t *testing.T) {
	whole := string(testdata(t, "enc.yaml"))
	enc := regexp.MustCompile(`ENC\[[^\]]*\]`).FindAllString(whole, -1)
	line := func(key string) string {
		return regexp.MustCompile(`(?m)^ *"?` + regexp.QuoteMeta(key) + `"?: .*\n`).FindString(whole)
	}
	for name, changed := range map[string]string{
		"plain value":       strings.Replace(whole, "plain to see", "plain to sea", 1),
		"value made plain":  regexp.MustCompile(`(token: )ENC.*`).ReplaceAllString(whole, "${1}mine"),
		"value removed":     strings.Replace(whole, line("token"), "", 1),
		"value added":       strings.Replace(whole, line("empty"), line("empty")+"    more_unencrypted: x\n", 1),
		"values exchanged":  strings.Replace(strings.Replace(whole, "token: ", "spam: ", 1), "    endpoint: ", "    token: ", 1),
		"key renamed":       strings.Replace(whole, "    token: ", "    tocken: ", 1),
		"list turned":       strings.Replace(strings.Replace(whole, "- "+enc[len(enc)-1], "- x", 1), `"10"`, `"11"`, 1),
		"rule changed":      strings.Replace(whole, "unencrypted_suffix: _unencrypted", "encrypted_suffix: nowhere", 1),
		"MAC of nothing":    regexp.MustCompile(`mac: ENC.*`).ReplaceAllString(whole, `mac: ""`),
		"time changed":      regexp.MustCompile(`lastmodified: .*`).ReplaceAllString(whole, `lastmodified: "2020-01-01T00:00:00Z"`),
		"type changed":      strings.Replace(whole, "type:int]", "type:bool]", 1),
		"type not known":    strings.Replace(whole, "type:int]", "type:list]", 1),
		"empty made string": strings.Replace(whole, `empty: ""`, `empty: "x"`, 1),
	} {
		if changed == whole {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, err := Open(YAML, []byte(changed), testKeys(t)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

func TestOthersKeys(t *testing.T) {
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]age.Identity{nil, {other}} {
		_, err := Open(YAML, testdata(t, "enc.yaml"), keys)
		if missing, ok := errors.AsType[*KeyError](err); !ok || len(missing.Recipients) != 1 {
			t.Errorf("%v", err)
		}
	}
	if _, err := Open(YAML, testdata(t, "plain.yaml"), testKeys(t)); !errors.Is(err, ErrPlain) {
		t.Errorf("%v", err)
	}
	if _, err := Open(INI, testdata(t, "enc.ini"), testKeys(t)); err == nil || !strings.Contains(err.Error(), "only the program sops") {
		t.Errorf("%v", err)
	}
	whole := string(testdata(t, "enc.yaml"))
	for more, want := range map[string]string{
		"kms:\n        - {arn: x, enc: y}": "",
		"encrypted_comment_regex: x":       "only the program sops",
		"shamir_threshold: 2":              "only the program sops",
		"something_new: 1":                 "something_new",
		"encrypted_regex: x":               "several rules",
		"pgp: []\n    kms: null":           "",
	} {
		d, err := Open(YAML, []byte(strings.Replace(whole, "\nsops:\n", "\nsops:\n    "+more+"\n", 1)), testKeys(t))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", more, err)
		}
		if strings.HasPrefix(more, "kms") {
			if err := d.Rotate([]Recipient{{"x", other.Recipient()}}); err == nil {
				t.Error("its other key was lost")
			}
		}
	}
}

func recipient(t *testing.T) Recipient {
	key := testKeys(t)[0].(*age.X25519Identity).Recipient()
	return Recipient{key.String(), key}
}

// reopened is a document as it is read again of what it is written as.
func reopened(t *testing.T, format Format, d *Document, keys []age.Identity) *Document {
	t.Helper()
	raw, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(format, raw, keys)
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	return again
}

func TestNewSetReplaceRotate(t *testing.T) {
	for _, name := range []string{"plain.yaml", "plain.json", "plain.env"} {
		t.Run(name, func(t *testing.T) {
			format := FormatOf(name)
			d, err := New(format, testdata(t, name), []Recipient{recipient(t)})
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := d.Bytes()
			for _, secret := range []string{"canary", "11111111", "dotted", "second line", "the token"} {
				if strings.Contains(string(raw), secret) {
					t.Errorf("%q is to be seen in\n%s", secret, raw)
				}
			}
			d = reopened(t, format, d, testKeys(t))
			text, err := d.Plain()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(valuesOf(t, format, testdata(t, name)), valuesOf(t, format, text), cmp.AllowUnexported(plain{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if err := d.Set([]string{"ADDED"}, "later\nlines"); err != nil {
				t.Fatal(err)
			}
			set, _ := d.Bytes()
			if kept := commonLines(raw, set); kept < bytes.Count(raw, []byte("\n"))-4 {
				t.Errorf("one value was set, and all but %d lines are others:\n%s\n%s", kept, raw, set)
			}
			d = reopened(t, format, d, testKeys(t))
			if got, err := d.Get([]string{"ADDED"}); got != "later\nlines" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			testReplace(t, format, d)
			testRotate(t, format, d)
		})
	}
}

func testReplace(t *testing.T, format Format, d *Document) {
	t.Helper()
	text, err := d.Plain()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := d.Bytes()
	if changed, err := d.Replace(text); changed || err != nil {
		t.Errorf("nothing was changed: %v, %v", changed, err)
	}
	edited := bytes.Replace(text, []byte("lines"), []byte("other lines"), 1)
	if changed, err := d.Replace(edited); !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	after, _ := d.Bytes()
	if kept := commonLines(before, after); kept < bytes.Count(before, []byte("\n"))-4 {
		t.Errorf("one value was changed, and all but %d lines are others", kept)
	}
	d = reopened(t, format, d, testKeys(t))
	if again, err := d.Plain(); !bytes.Equal(again, edited) || err != nil {
		t.Errorf("(-want +got)\n%s", cmp.Diff(string(edited), string(again)))
	}
}

func testRotate(t *testing.T, format Format, d *Document) {
	t.Helper()
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := d.Plain()
	before, _ := d.Bytes()
	if err := d.Rotate([]Recipient{{other.Recipient().String(), other.Recipient()}}); err != nil {
		t.Fatal(err)
	}
	raw, _ := d.Bytes()
	for _, enc := range regexp.MustCompile(`ENC\[[^\]]*\]`).FindAll(before, -1) {
		if bytes.Contains(raw, enc) {
			t.Errorf("%s stayed as it was", enc)
		}
	}
	if _, err := Open(format, raw, testKeys(t)); err == nil {
		t.Error("the old key still opens it")
	}
	if again, err := reopened(t, format, d, []age.Identity{other}).Plain(); !bytes.Equal(again, text) || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, cmp.Diff(string(text), string(again)))
	}
}

// commonLines counts the lines of a that are in b.
func commonLines(a, b []byte) (n int) {
	there := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		there[strings.TrimRight(line, ",\n")] = true
	}
	for line := range strings.Lines(string(a)) {
		if there[strings.TrimRight(line, ",\n")] {
			n++
		}
	}
	return n
}

func TestSetRefuses(t *testing.T) {
	d, err := Open(YAML, testdata(t, "enc.yaml"), testKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"proxmox", "sops.mac", "", "proxmox..x", "list.7", "proxmox.token.x"} {
		if err := d.Set(SplitPath(path), "x"); err == nil {
			t.Errorf("%s was set", path)
		}
	}
	for _, path := range []string{"list.4", "new.deep.er", "proxmox.token"} {
		if err := d.Set(SplitPath(path), "x"); err != nil {
			t.Error(err)
		}
		if got, err := reopened(t, YAML, d, testKeys(t)).Get(SplitPath(path)); got != "x" || err != nil {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
}

func TestWhatCannotBeEncrypted(t *testing.T) {
	for name, text := range map[string]string{
		"alias": "a: &x b\nc: *x\n", "anchor": "a: &x b\n", "number key": "1: a\n", "key twice": "a: 1\na: 2\n", "list": "- a\n",
		"two documents": "a: 1\n---\nb: 2\n", "encrypted": "a: ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]\n",
		"sops": "sops: x\n", "no YAML": "a: [", "merge": "a: &x {b: c}\nd:\n  <<: *x\n",
	} {
		if _, err := New(YAML, []byte(text), []Recipient{recipient(t)}); err == nil {
			t.Errorf("%s was encrypted", name)
		}
	}
	for name, text := range map[string]string{"no JSON": `{"a": }`, "more": `{} {}`, "list": "[]", "key twice": `{"a":1,"a":2}`} {
		if _, err := New(JSON, []byte(text), []Recipient{recipient(t)}); err == nil {
			t.Errorf("%s was encrypted", name)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for name := range made() {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(FormatOf(name)), raw)
	}
	keys, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		f.Fatal(err)
	}
	identities, err := age.ParseIdentities(bytes.NewReader(keys))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, format string, raw []byte) {
		d, err := Open(Format(format), raw, identities)
		if err != nil {
			return
		}
		if _, err := d.Plain(); err != nil {
			t.Skip(err)
		}
		if _, err := d.Bytes(); err != nil {
			t.Error(err)
		}
	})
}
