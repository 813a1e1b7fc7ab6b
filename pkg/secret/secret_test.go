package secret

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/secret/sops"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Reference{
		"env:PVE":             {Kind: Env, Name: "PVE"},
		"file:/run/secrets/a": {Kind: File, Path: "/run/secrets/a"},
		"sops:a.yaml#b.c":     {Kind: SOPS, Path: "a.yaml", Keys: "b.c"},
		"sops:blob":           {Kind: SOPS, Path: "blob"},
		"age:token.age":       {Kind: Age, Path: "token.age"},
		"https://pve1:8006":   {},
		"environment:x":       {},
		"env":                 {},
		"a:env:B":             {},
		"root@pam!x=env:PVE":  {},
		"":                    {},
	} {
		got, found, err := Parse(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || found != (want.Kind != "") {
			t.Errorf("%q: found %v, %v\n%s", text, found, err, diff)
		}
		if found && got.String() != text {
			t.Errorf("%q shows itself as %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"env:": "name of a variable", "env:A-B": "name of a variable", "file:": "takes a file", "age:": "takes a file",
		"sops:#a": "takes a file", "sops:a.yaml": "many values", "sops:a.yaml#": "no value after", "command:pass x": "is a list",
	} {
		if _, found, err := Parse(text); !found || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, found, err)
		}
	}
}

func TestAReferenceIsRelativeToItsFile(t *testing.T) {
	for text, want := range map[string]string{
		"file:a": "/etc/x/a", "file:/a": "/a", "sops:~/a.yaml#b": "/home/u/a.yaml", "age:../a": "/etc/a",
	} {
		r, _, err := Parse(text)
		if got := r.In("/etc/x", "/home/u").Path; got != want || err != nil {
			t.Errorf("%s is %s (%v), want %s", text, got, err, want)
		}
	}
	for program, want := range map[string]string{"pass": "pass", "./get": "/etc/x/get", "~/bin/get": "/home/u/bin/get"} {
		r, _ := NewCommand([]string{program, "topsecret"})
		in := r.In("/etc/x", "/home/u")
		if in.Argv[0] != want || in.Dir != "/etc/x" || strings.Contains(in.String(), "topsecret") {
			t.Errorf("%s is %v, shown as %s", program, in, in)
		}
		if here := r.In("", "/home/u"); program[0] == '.' && here.Argv[0] != program {
			t.Errorf("%s became %s, which is looked for elsewhere", program, here.Argv[0])
		}
	}
}

// home has an age key as SOPS looks for it, and returns its variables.
func home(t *testing.T) (getenv func(string) string, dir string, recipient sops.Recipient) {
	t.Helper()
	dir = t.TempDir()
	text, public, err := NewKey("now")
	if err != nil {
		t.Fatal(err)
	}
	getenv = func(name string) string {
		return map[string]string{"HOME": dir, "PATH": os.Getenv("PATH"), "PVE": "from-env"}[name]
	}
	put(t, UserKeys(getenv), text)
	if recipient, err = ParseRecipient(public); err != nil {
		t.Fatal(err)
	}
	return getenv, dir, recipient
}

func put(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func sealed(t *testing.T, armored bool, to sops.Recipient, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	if armored {
		w := armor.NewWriter(&out)
		inner, encErr := age.Encrypt(w, to.Key)
		if encErr != nil {
			t.Fatal(encErr)
		}
		_, err = inner.Write([]byte(content))
		err = errors.Join(err, inner.Close(), w.Close())
	} else {
		inner, encErr := age.Encrypt(&out, to.Key)
		if encErr != nil {
			t.Fatal(encErr)
		}
		_, err = inner.Write([]byte(content))
		err = errors.Join(err, inner.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sopsFile(t *testing.T, format sops.Format, to sops.Recipient, text string) []byte {
	t.Helper()
	d, err := sops.New(format, []byte(text), []sops.Recipient{to})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRead(t *testing.T) {
	getenv, dir, key := home(t)
	put(t, dir+"/plain", []byte("from-file\r\n\n"))
	put(t, dir+"/s.yaml", sopsFile(t, sops.YAML, key, "a: {b: from-sops}\nn: 42\n"))
	put(t, dir+"/s.env", sopsFile(t, sops.Dotenv, key, "A=from-dotenv\n"))
	put(t, dir+"/s.age", sealed(t, false, key, "from-age\n"))
	put(t, dir+"/armored.age", sealed(t, true, key, "from-armored\n"))
	r := NewResolver(Options{Getenv: getenv})
	for text, want := range map[string]string{
		"env:PVE": "from-env", "file:plain": "from-file", "sops:s.yaml#a.b": "from-sops", "sops:s.yaml#n": "42",
		"sops:s.env#A": "from-dotenv", "age:s.age": "from-age", "age:armored.age": "from-armored",
	} {
		ref, _, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read(t.Context(), ref.In(dir, dir)); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	if got := r.Values(); len(got) != 7 || !slices.Contains(got, "from-armored") {
		t.Errorf("it has read %q", got)
	}
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	getenv, dir, key := home(t)
	_, other, _ := NewKey("")
	otherKey, _ := ParseRecipient(other)
	put(t, dir+"/empty", []byte("\n"))
	put(t, dir+"/nul", []byte("a\x00b"))
	put(t, dir+"/plain.yaml", []byte("a: topsecret\n"))
	put(t, dir+"/other.yaml", sopsFile(t, sops.YAML, otherKey, "a: topsecret\n"))
	put(t, dir+"/s.yaml", sopsFile(t, sops.YAML, key, "a: topsecret\n"))
	broken := sopsFile(t, sops.YAML, key, "a: topsecret\n")
	put(t, dir+"/broken.yaml", bytes.Replace(broken, []byte("a: ENC"), []byte("b: ENC"), 1))
	put(t, dir+"/none.age", []byte("topsecret"))
	put(t, dir+"/other.age", sealed(t, false, otherKey, "topsecret"))
	cut := sealed(t, false, key, strings.Repeat("topsecret", 100))
	put(t, dir+"/cut.age", cut[:len(cut)-10])
	r := NewResolver(Options{Getenv: getenv, Environ: []string{"PATH=/nowhere"}})
	for text, want := range map[string][2]string{
		"env:NONE":           {"env:NONE: the variable is not set", "export NONE="},
		"file:none":          {"there is no such file", "put it there"},
		"file:empty":         {"it is empty", "put the value there"},
		"file:nul":           {"NUL byte", ""},
		"file:.":             {"is a directory", ""},
		"sops:plain.yaml#a":  {"not encrypted by SOPS", "encrypt it"},
		"sops:other.yaml#a":  {"no age key that is here opens it; it is encrypted for " + other, "keys.txt"},
		"sops:s.yaml#b":      {"b: there is no such key (there are a)", "hive-test secrets set"},
		"sops:broken.yaml#b": {"b: it was changed or moved", ""},
		"sops:x.ini#a":       {"there is no such file", ""},
		"age:none.age":       {"was not encrypted by age", ""},
		"age:other.age":      {"no age key that is here opens it", "SOPS_AGE_KEY_FILE"},
		"age:cut.age":        {"it is damaged", ""},
	} {
		ref, _, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Read(t.Context(), ref.In(dir, dir))
		if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(progress.HintOf(err), want[1]) {
			t.Errorf("%s: %v (%s)", text, err, progress.HintOf(err))
		} else if strings.Contains(err.Error()+progress.HintOf(err), "topsecret") {
			t.Errorf("%s shows the secret: %v", text, err)
		}
	}
}

func TestKeysAreFoundWhereSOPSFindsThem(t *testing.T) {
	_, _, key := home(t)
	text, public, _ := NewKey("")
	to, _ := ParseRecipient(public)
	_ = key
	dir := t.TempDir()
	file := put(t, dir+"/k", text)
	line := strings.Split(strings.TrimSpace(string(text)), "\n")
	raw := sealed(t, false, to, "opened")
	for name, c := range map[string]struct {
		file string
		vars map[string]string
	}{
		"setting":            {file: file},
		"SOPS_AGE_KEY":       {vars: map[string]string{"SOPS_AGE_KEY": line[len(line)-1]}},
		"SOPS_AGE_KEY_FILE":  {vars: map[string]string{"SOPS_AGE_KEY_FILE": file}},
		"XDG_CONFIG_HOME":    {vars: map[string]string{"XDG_CONFIG_HOME": filepath.Dir(filepath.Dir(filepath.Dir(put(t, dir+"/xdg/sops/age/keys.txt", text))))}},
		"beside damaged one": {file: put(t, dir+"/two", append([]byte("AGE-SECRET-KEY-1NONE\n"), text...))},
	} {
		k := FindKeys(c.file, func(name string) string { return c.vars[name] })
		got, err := k.Decrypt(bytes.NewReader(raw))
		if string(got) != "opened" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if strings.Contains(k.Hint(), "AGE-SECRET") {
			t.Errorf("%s: the hint shows a key: %s", name, k.Hint())
		}
	}
	k := FindKeys(dir+"/nowhere", func(string) string { return "" })
	if _, err := k.Decrypt(bytes.NewReader(raw)); err == nil || !strings.Contains(progress.HintOf(err), "nowhere (age_key_file): there is no such file") {
		t.Errorf("%v (%s)", err, progress.HintOf(err))
	}
}

func command(t *testing.T, r *Resolver, script string) (string, error) {
	t.Helper()
	ref, err := NewCommand([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	return r.Read(t.Context(), ref)
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	r := NewResolver(Options{Environ: []string{"PATH=" + os.Getenv("PATH"), "ROLE=ci"}, Limit: 500 * time.Millisecond})
	if got, err := command(t, r, "echo warned >&2; printf 'to-%s\n' $ROLE"); got != "to-ci" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	count := dir + "/count"
	for range 3 {
		if got, err := command(t, r, "echo x >>"+count+"; echo once"); got != "once" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if raw, _ := os.ReadFile(count); string(raw) != "x\n" {
		t.Errorf("it ran %d times", len(raw)/2)
	}
	for script, want := range map[string]string{
		"echo topsecret; echo 'no permission for topsecret' >&2; exit 3": "exit status 3: no permission for [redacted]",
		"true":                    "it is empty",
		"echo topsecret; kill $$": "signal: terminated",
		"sleep 60":                "it took longer than 500ms",
	} {
		_, err := command(t, r, script)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", script, err)
		}
	}
	ref, _ := NewCommand([]string{"/no/such/program"})
	if _, err := r.Read(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("%v", err)
	}
}

// TestACommandEndsWithItsRun starts a program with a child of its own, and ends the run.
func TestACommandEndsWithItsRun(t *testing.T) {
	file := t.TempDir() + "/pid"
	ctx, cancel := context.WithCancel(t.Context())
	ref, _ := NewCommand([]string{"sh", "-c", "sleep 60 & echo $! >" + file + "; wait"})
	done := make(chan error, 1)
	go func() {
		_, err := NewResolver(Options{}).Read(ctx, ref)
		done <- err
	}()
	var pid int
	for end := time.Now().Add(10 * time.Second); pid == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		raw, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if stat, there := process.ReadStat(pid); pid == 0 || there && !stat.Dead() {
		t.Errorf("what it had started (%d) lives on", pid)
	}
}

// TestTheProgramSOPS has what only the program can read read by it: a stand-in that tells what it was asked.
func TestTheProgramSOPS(t *testing.T) {
	getenv, dir, _ := home(t)
	program := put(t, dir+"/bin/sops", []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/x.ini", []byte("[a]\nb=c\n"))
	path := dir + "/bin:" + os.Getenv("PATH")
	with := func(name string) string {
		if name == "PATH" {
			return path
		}
		return getenv(name)
	}
	ref, _, _ := Parse(`sops:x.ini#a."q.0`)
	r := NewResolver(Options{Getenv: with, Environ: []string{"PATH=" + path}})
	got, err := r.Read(t.Context(), ref.In(dir, ""))
	if want := `-d|--extract|["a"]["\"q"][0]|` + dir + "/x.ini|"; got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	without := NewResolver(Options{Getenv: func(string) string { return "" }, Environ: []string{"PATH=/nowhere"}})
	if _, err := without.Read(t.Context(), ref.In(dir, "")); err == nil || !strings.Contains(progress.HintOf(err), "install the program sops") {
		t.Errorf("%v (%s)", err, progress.HintOf(err))
	}
}

func TestParseRecipient(t *testing.T) {
	_, public, _ := NewKey("")
	if r, err := ParseRecipient(" " + public + "\n"); r.Text != public || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	text, _, _ := NewKey("")
	for _, wrong := range []string{"", "age1x", "ssh-ed25519 AAAA", string(text), public + "\n" + public} {
		if r, err := ParseRecipient(wrong); err == nil {
			t.Errorf("%q was taken: %v", wrong, r)
		} else if strings.Contains(err.Error(), "AGE-SECRET-KEY-1") {
			t.Errorf("a key is shown: %v", err)
		}
	}
}
