package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Every document that a script sees is held against its schema of docs/schema: what hive-test prints, found in the
// script's log, and the files that it leaves. A new verb or file is covered by its schema alone.

// documentSchema is a schema of docs/schema, and what it is of.
type documentSchema struct {
	name     string
	Commands []string `json:"x-commands"`
	Files    []string `json:"x-files"`
	compiled *jsonschema.Schema
}

// documentSchemas are all of them, and how many documents each has been held against.
type documentSchemas struct {
	all []*documentSchema

	mu   sync.Mutex
	seen map[string]int
}

func loadSchemas(t testing.TB) *documentSchemas {
	t.Helper()
	paths, err := filepath.Glob("../../docs/schema/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	loaded := &documentSchemas{seen: map[string]int{}}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &documentSchema{name: strings.TrimSuffix(filepath.Base(path), ".json")}
		if err := json.Unmarshal(raw, s); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		closeObjects(plain)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource(path, plain); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if s.compiled, err = compiler.Compile(path); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		loaded.all = append(loaded.all, s)
	}
	return loaded
}

// closeObjects lets objects have no members but those that a schema names: it must name all.
func closeObjects(schema any) {
	switch node := schema.(type) {
	case []any:
		for _, element := range node {
			closeObjects(element)
		}
	case map[string]any:
		for _, member := range node {
			closeObjects(member)
		}
		_, named := node["properties"].(map[string]any)
		if _, open := node["additionalProperties"]; named && node["type"] == "object" && !open {
			node["additionalProperties"] = false
		}
	}
}

// ofCommand are the schemas of what a command prints: those with the most of its flags.
func (d *documentSchemas) ofCommand(words []string) []*documentSchema {
	if i := slices.Index(words, "--"); i >= 0 {
		words = words[:i]
	}
	var found []*documentSchema
	most := -1
	for _, s := range d.all {
		for _, form := range s.Commands {
			form := strings.Fields(form)
			flags := slices.DeleteFunc(form[1:], func(w string) bool { return strings.ToUpper(w) == w })
			if form[0] != words[0] || !hasAll(words, flags) || len(flags) < most {
				continue
			}
			if len(flags) > most {
				found, most = nil, len(flags)
			}
			found = append(found, s)
		}
	}
	return found
}

// hasAll reports whether words have all flags. A form is another document where it is not named.
func hasAll(words, flags []string) bool {
	for _, flag := range flags {
		if !slices.Contains(words, flag) {
			return false
		}
	}
	return slices.Contains(words, "--format") == slices.Contains(flags, "--format")
}

// check holds a value against schemas, one of which must take it.
func (d *documentSchemas) check(value any, schemas []*documentSchema) error {
	var errs []error
	for _, s := range schemas {
		err := s.compiled.Validate(value)
		if err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.seen[s.name]++
			return nil
		}
		errs = append(errs, fmt.Errorf("docs/schema/%s.json: %w", s.name, err))
	}
	return errors.Join(errs...)
}

// checkAll holds the JSON documents that a text begins with, one after another, against schemas. There must be one.
func (d *documentSchemas) checkAll(text string, schemas []*documentSchema) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for first := true; ; first = false {
		var value any
		err := decoder.Decode(&value)
		switch {
		case err != nil && first:
			return fmt.Errorf("it is no JSON: %w", err)
		case err != nil: // the end, or what follows in the log
			return nil
		}
		if err := d.check(value, schemas); err != nil {
			return err
		}
	}
}

// printing is a line of a script's log that runs hive-test, and is followed by what that has printed.
var printing = regexp.MustCompile(
	`^(?:> (?:\[[^]]*\] )*(?:[!?] )?(?:exec|exit [0-9]+) |\[background\] )hive-test ([a-z].*)$`,
)

// redirecting is a command in a line of a script's log whose output a shell puts into a file.
var redirecting = regexp.MustCompile(`\bhive-test ([a-z][^|;&<>]*?) *>([A-Za-z0-9_./-]+)`)

// checkLog holds what hive-test has printed in a script against its schemas, from the script's log.
func (d *documentSchemas) checkLog(log, workDir string) error {
	var errs []error
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		for _, command := range redirecting.FindAllStringSubmatch(line, -1) {
			schemas := d.ofCommand(strings.Fields(command[1]))
			raw, err := os.ReadFile(filepath.Join(workDir, command[2]))
			if err == nil && len(schemas) > 0 && len(raw) > 0 {
				errs = append(errs, inLine(line, d.checkAll(string(raw), schemas)))
			}
		}
		found := printing.FindStringSubmatch(line)
		if found == nil || i+1 == len(lines) || lines[i+1] != "[stdout]" {
			continue
		}
		// of what ran in the background, the log says after a colon how it ended
		if schemas := d.ofCommand(strings.Fields(strings.ReplaceAll(found[1], ": ", " "))); len(schemas) > 0 {
			errs = append(errs, inLine(line, d.checkPrinted(strings.Join(lines[i+2:], "\n"), schemas)))
		}
	}
	return errors.Join(errs...)
}

func inLine(line string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", line, err)
}

// checkPrinted holds the documents that a log goes on with against schemas.
func (d *documentSchemas) checkPrinted(rest string, schemas []*documentSchema) error {
	if schemas[0].name != "hosts" {
		return d.checkAll(rest, schemas)
	}
	text, _, _ := strings.Cut(rest, "\n> ")
	text, _, _ = strings.Cut(text, "\n[stderr]")
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return d.checkAll(string(raw), schemas)
}

// checkFiles holds the files that clusters and runs have left below a directory against their schemas. What is no JSON
// was damaged by the script, and what names no shape is of an earlier release, or of the script.
func (d *documentSchemas) checkFiles(dir string) error {
	var errs []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && slices.Contains([]string{".sim", "cache", "home"}, entry.Name()):
			return filepath.SkipDir
		case err != nil || !entry.Type().IsRegular():
			return nil
		}
		for _, s := range d.all {
			if !slices.ContainsFunc(s.Files, func(file string) bool { return filepath.Base(file) == entry.Name() }) {
				continue
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			if err := d.checkFile(raw, s); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", path, err))
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

func (d *documentSchemas) checkFile(raw []byte, s *documentSchema) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for {
		var value any
		if decoder.Decode(&value) != nil {
			return nil
		}
		object, isObject := value.(map[string]any)
		if number, found := object["schema"]; !isObject || !found || fmt.Sprint(number) != "1" {
			continue
		}
		if err := d.check(value, []*documentSchema{s}); err != nil {
			return err
		}
	}
}

// watchedScript is a script's test, whose log is held against the schemas.
type watchedScript struct {
	*testing.T
	schemas *documentSchemas
	ran     *sync.Map // names of scripts that have ended
	workDir string
}

// Run runs a script.
func (w *watchedScript) Run(name string, do func(testscript.T)) {
	w.T.Run(name, func(t *testing.T) { do(&watchedScript{T: t, schemas: w.schemas, ran: w.ran}) })
}

// Verbose says yes, so that the log has everything: Log takes out what nobody wants to read.
func (w *watchedScript) Verbose() bool { return true }

// Log takes the log of a script that has ended.
func (w *watchedScript) Log(args ...any) {
	text := strings.TrimSuffix(fmt.Sprintln(args...), "\n")
	if err := w.schemas.checkLog(text, w.workDir); err != nil {
		w.Errorf("what was printed is not as its schema says:\n%v", err)
	}
	w.ran.Store(w.Name(), true)
	if !testing.Verbose() {
		text = lastSection(text)
	}
	w.T.Log(text)
}

// lastSection is the log of a script with no more than the headings of its sections but the last, as it is without -v.
func lastSection(log string) string {
	heading := func(line string) bool { return strings.HasPrefix(line, "# ") && strings.HasSuffix(line, "s)") }
	var kept []string
	for line := range strings.SplitSeq(log, "\n") {
		if heading(line) {
			kept = slices.DeleteFunc(kept, func(l string) bool { return !heading(l) })
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// runScripts runs scripts and holds all documents that they see against their schemas. If all have run, each schema
// must have been of use.
func runScripts(t *testing.T, p testscript.Params) {
	schemas, ran := loadSchemas(t), new(sync.Map)
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		script := env.T().(*watchedScript)
		script.workDir = env.WorkDir
		env.Defer(endIn(env.WorkDir, longestScript, stackTime))
		env.Defer(func() {
			if err := schemas.checkFiles(env.WorkDir); err != nil {
				script.Errorf("what was left is not as its schema says:\n%v", err)
			}
		})
		return setup(env)
	}
	t.Cleanup(func() {
		count := 0
		ran.Range(func(any, any) bool { count++; return true })
		scripts, _ := filepath.Glob(filepath.Join(p.Dir, "*.txtar"))
		if p.Dir == "" || count < len(scripts) || t.Failed() || !soaking() {
			return
		}
		for _, s := range schemas.all {
			if schemas.seen[s.name] == 0 {
				t.Errorf("no script has seen a document of docs/schema/%s.json", s.name)
			}
		}
	})
	testscript.RunT(&watchedScript{T: t, schemas: schemas, ran: ran}, p)
}

func TestSchemaOfCommand(t *testing.T) {
	schemas := loadSchemas(t)
	for command, want := range map[string]string{
		"up x --sim -o json":                     "report",
		"up x -o json --dry-run --node-count=2":  "plan",
		"up x":                                   "",
		"iac probe -o json":                      "iac-probe",
		"iac diff x y -o json":                   "iac-diff",
		"status -o json":                         "status-list status",
		"status x --watch --interval 1s -o json": "status-watch",
		"exec x -- cat -o json":                  "",
		"exec x -o json -- cat":                  "exec",
		"inventory x":                            "inventory",
		"inventory x --format json":              "inventory",
		"inventory x --format hosts":             "hosts",
		"inventory x --format ansible":           "",
		"env x":                                  "",
		"env x --format json":                    "env",
		"doctor --log-format json":               "",
	} {
		var names []string
		for _, s := range schemas.ofCommand(strings.Fields(command)) {
			names = append(names, s.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
}

// What is not as its schema says is found in logs and in files.
func TestDocumentsThatAreWrong(t *testing.T) {
	schemas := loadSchemas(t)
	const good = `{"schema":1,"cluster":"x","nodes":[` +
		`{"name":"x-1","exit_code":0,"signal":"","stdout":"","stderr":"","seconds":1.5}]}`
	printed := func(line, text string) string { return line + "\n[stdout]\n" + text + "\n" }
	other := func(line, from, to string) string { return printed(line, strings.Replace(good, from, to, 1)) }
	const line = "> exec hive-test exec x -o json -- true"
	for name, c := range map[string]struct{ log, want string }{
		"as it should be": {printed(line, good) + "[stderr]\n{}\n> stdout x\n", ""},
		"not asked for":   {printed("> exec hive-test exec x -- true", "hello"), ""},
		"of another verb": {printed("> exec hive-test status x --watch -o json", good), "status-watch"},
		"the second":      {printed(line, good+"\n{}"), "schema"},
		"no JSON":         {printed("> exit 1 hive-test exec x -o json -- true", "error: x"), "no JSON"},
		"a field more":    {other("> ! exec hive-test exec x -o json", `"seconds"`, `"more":1,"seconds"`), "more"},
		"a field less":    {other("> [netns] exec hive-test exec x -o json", `"cluster":"x",`, ""), "cluster"},
		"another type": {
			other("[background] hive-test exec x -o json: exit status 0", `"exit_code":0`, `"exit_code":"0"`), "exit_code",
		},
		"null for a list": {printed(line, `{"schema":1,"cluster":"x","nodes":null}`), "nodes"},
		"another number":  {other(line, `"schema":1`, `"schema":2`), "schema"},
		"in a file":       {"> exec sh -c 'hive-test exec x -o json -- true >bad.json'\n", "schema"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(`{"cluster":"x","nodes":[]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		err := schemas.checkLog(c.log, dir)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	dir := t.TempDir()
	lines := `{"schema":1,"time":"2000-01-01T00:00:00Z","kind":"info"}` + "\n" +
		`{"schema":1,"time":"yesterday","kind":"info"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := schemas.checkFiles(dir); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("got %v", err)
	}
}
