package pve

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite schema.json from HIVE_TEST_RESEARCH_DIR")

// TestSchemaIsAsPublished derives the table anew from what Proxmox VE publishes and compares it with the embedded one.
func TestSchemaIsAsPublished(t *testing.T) {
	dir := os.Getenv("HIVE_TEST_RESEARCH_DIR")
	if dir == "" {
		t.Skip("HIVE_TEST_RESEARCH_DIR is unset: the published API tables are not here")
	}
	d := deriver{index: map[string]int{}, out: schemaFile{Versions: map[string]map[string]map[string]*method{}}}
	more := readPublished[map[string]publishedAPI](t, filepath.Join("testdata", "api-more.json"))
	for version, file := range map[string]string{Version84: "api-8.json", Version92: "api-9.1.json"} {
		maps.Copy(more[version], readPublished[publishedAPI](t, filepath.Join(dir, "pve", file)))
	}
	d.add(Version84, more[Version84])
	d.add(Version92, more[Version92])
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d.out); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(schemaJSON), buf.String()); diff != "" {
		t.Errorf("embedded table differs from the published one (run with -update):\n%s", diff)
	}
}

func TestEveryRouteHasASchemaAndTheOtherWayRound(t *testing.T) {
	have, described := map[string]bool{}, map[string]bool{}
	for _, r := range routes() {
		have[r.method+" "+r.path] = true
	}
	for _, version := range []string{Version84, Version92} {
		table, err := apiTable(version)
		if err != nil {
			t.Fatal(err)
		}
		for path, methods := range table {
			for m := range methods {
				described[m+" "+path] = true
				if !have[m+" "+path] {
					t.Errorf("%s: %s %s is described but not served", version, m, path)
				}
			}
		}
	}
	for call := range have {
		if !described[call] {
			t.Errorf("%s has no published description in any version", call)
		}
	}
}

// publishedAPI is what Proxmox VE publishes of its API, by path and HTTP method.
type publishedAPI map[string]map[string]map[string]any

func readPublished[T any](t *testing.T, file string) T {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var in T
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

// deriver turns the published form into the embedded one.
type deriver struct {
	out   schemaFile
	index map[string]int
}

func (d *deriver) add(version string, in publishedAPI) {
	served := map[string]bool{}
	for _, r := range routes() {
		served[r.method+" "+r.path] = true
	}
	paths := map[string]map[string]*method{}
	for _, path := range sortedKeys(in) {
		for _, verb := range sortedKeys(in[path]) {
			if !served[verb+" "+path] {
				continue
			}
			if paths[path] == nil {
				paths[path] = map[string]*method{}
			}
			paths[path][verb] = d.method(in[path][verb])
		}
	}
	d.out.Versions[version] = paths
}

func (d *deriver) method(in map[string]any) *method {
	m := &method{Params: map[string]int{}, NoToken: in["allowtoken"] == nil, Proxied: in["proxyto"] == "node"}
	if p, ok := in["permissions"].(map[string]any); ok {
		m.World = p["user"] == "world"
		if p["user"] != "all" { // who may call it, whatever is checked
			m.Check = p["check"]
		}
	}
	props, _ := in["parameters"].(map[string]any)["properties"].(map[string]any)
	for _, name := range sortedKeys(props) {
		m.Params[name] = d.shared(derive(props[name].(map[string]any)))
	}
	return m
}

func (d *deriver) shared(p *property) int {
	b, _ := json.Marshal(p)
	if i, ok := d.index[string(b)]; ok {
		return i
	}
	i := len(d.out.Properties)
	d.index[string(b)] = i
	d.out.Properties = append(d.out.Properties, p)
	return i
}

// perlGroup is how Perl prints a compiled pattern.
var perlGroup = regexp.MustCompile(`\(\?\^[a-z]*:`)

func derive(in map[string]any) *property {
	p := &property{Type: text(in["type"]), Requires: text(in["requires"]), Alias: text(in["alias"])}
	p.Optional = in["optional"] != nil && in["optional"] != 0.0
	p.DefaultKey = in["default_key"] != nil
	p.Pattern = perlGroup.ReplaceAllString(text(in["pattern"]), "(?:")
	p.Minimum, p.Maximum = number(in["minimum"]), number(in["maximum"])
	if n := number(in["minLength"]); n != nil {
		p.MinLength = int(*n)
	}
	if n := number(in["maxLength"]); n != nil {
		p.MaxLength = int(*n)
	}
	if enum, ok := in["enum"].([]any); ok {
		for _, e := range enum {
			p.Enum = append(p.Enum, text(e))
		}
	}
	switch f := in["format"].(type) {
	case string:
		p.Format = f
	case map[string]any:
		p.Keys = map[string]*property{}
		for k, v := range f {
			p.Keys[k] = derive(v.(map[string]any))
		}
	}
	return p
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) *float64 {
	switch n := v.(type) {
	case float64:
		return &n
	case string:
		if f, err := strconv.ParseFloat(n, 64); err == nil {
			return &f
		}
	}
	return nil
}
