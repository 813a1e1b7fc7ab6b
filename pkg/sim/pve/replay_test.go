package pve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// record is one request to a real Proxmox VE 8.4.21 and what it answered. Exit is how the task ended that it started.
type record struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Query  string            `json:"query"`
	Params any               `json:"params"`
	Auth   string            `json:"auth"`
	Status int               `json:"status"`
	Reason string            `json:"reason"`
	Errors map[string]string `json:"errors"`
	Exit   string            `json:"exit"`
	Data   any               `json:"data"`
}

// lab is the cluster on which the recordings were made: three small hypervisors, three dir storages, a few files.
func lab(t *testing.T, startErr error) *client {
	t.Helper()
	_, c, f := labServer(t, Options{})
	f.startErr = startErr
	return c
}

func labServer(t *testing.T, o Options) (*Server, *client, *fakeMachines) {
	t.Helper()
	var nodes []NodeSpec
	for i := range 3 {
		nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("pve%d", i+1), Cores: 2, MemoryGB: 24, StorageGB: 250})
	}
	o.Nodes = nodes
	s, c, f := startServer(t, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	capacity := s.state.Storages["local"].Capacity
	delete(s.state.Storages, "local-lvm")
	s.state.Storages["store2"] = &storage{
		ID: "store2", Type: "dir", Path: "/var/lib/store2", Content: []string{"images", "iso"}, Capacity: capacity,
	}
	s.state.Storages["noimg"] = &storage{
		ID: "noimg", Type: "dir", Path: "/var/lib/noimg", Content: []string{"backup", "iso"}, Capacity: capacity,
	}
	s.state.Volumes = nil
	for _, n := range s.state.Nodes {
		for name, size := range map[string]int64{
			"import/cloud.qcow2": 2 * gib, "iso/cloud.img": 2 * gib, "iso/x.iso": mib,
		} {
			content, _, _ := contentOf(name)
			s.state.Volumes = append(s.state.Volumes, &volume{
				Node: n.Name, Storage: "local", Name: name, Content: content,
				Format: strings.TrimPrefix(filepath.Ext(name), "."), Size: size,
			})
		}
		s.state.Volumes = append(s.state.Volumes, &volume{
			Node: n.Name, Storage: "local", Name: "snippets/vendor.yaml", Content: "snippets",
			Data: []byte("#cloud-config\n"), Size: 14,
		})
	}
	return s, c, f
}

// TestRecordedAnswers replays recordings and compares status, reason, refused parameters, the ends of tasks and
// configurations.
func TestRecordedAnswers(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/pve/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			var startErr error
			if strings.HasPrefix(filepath.Base(file), "02") {
				startErr = errors.New("Host doesn't support requested features") // as it was when these were recorded
			}
			c := lab(t, startErr)
			for i, r := range readRecords(t, file) {
				replay(t, c, i+1, r)
			}
		})
	}
}

func readRecords(t *testing.T, file string) []record {
	t.Helper()
	var out []record
	for _, line := range readRaw(t, file) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// readRaw are the lines of a file.
func readRaw(t *testing.T, file string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(b), []byte("\n"))
}

func replay(t *testing.T, c *client, line int, r record) {
	t.Helper()
	path := r.Path
	if r.Query != "" {
		path += "?" + r.Query
	}
	a := c.send(r.Method, path, body(r.Params))
	what := fmt.Sprintf("line %d: %s %s %s", line, r.Method, path, mustJSON(r.Params))
	if r.Status == 0 { // prepares what the next records need
		if upid, ok := a.Data.(string); ok {
			c.wait(upid)
		}
		return
	}
	for _, diff := range differences(r, a) {
		t.Errorf("%s\n%s", what, diff)
	}
	if upid, ok := a.Data.(string); ok && strings.HasPrefix(upid, "UPID") {
		exit := c.wait(upid)
		if r.Exit != "" && exit != r.Exit {
			t.Errorf("%s: task\n  = %s\nwant %s", what, exit, r.Exit)
		}
	}
}

// differences compares status, reason, refused parameters and configurations.
func differences(want record, got answer) []string {
	var out []string
	if got.Status != want.Status || steady(got.Reason) != steady(want.Reason) {
		out = append(out, fmt.Sprintf("= %d %s, want %d %s", got.Status, got.Reason, want.Status, want.Reason))
	}
	if diff := cmp.Diff(want.Errors, got.Errors, cmpopts.EquateEmpty()); diff != "" {
		out = append(out, "errors (-want +got):\n"+diff)
	}
	if want.Data != nil && want.Status == 200 && strings.HasSuffix(want.Path, "/config") {
		if diff := cmp.Diff(stable(want.Data), stable(got.Data)); diff != "" {
			out = append(out, "configuration (-want +got):\n"+diff)
		}
	}
	return out
}

// temporary are names that are made up anew each time.
var temporary = regexp.MustCompile(`conf\.tmp\.\d+|pveupload-[0-9a-f]+`)

// steady is a text without them.
func steady(text string) string { return temporary.ReplaceAllString(text, "TEMPORARY") }

var macs = regexp.MustCompile(`BC:24:11(?::[0-9A-F]{2}){3}`)

// stable takes out of a configuration what is made up anew each time.
func stable(data any) map[string]any {
	m, _ := data.(map[string]any)
	out := map[string]any{}
	for k, v := range m {
		switch k {
		case "digest", "meta", "smbios1", "snaptime", "vmgenid":
			v = "…"
		case "runningcpu", "runningmachine":
			continue // Proxmox's own QEMU says that
		}
		if text, ok := v.(string); ok {
			v = macs.ReplaceAllString(text, "MAC")
		}
		out[k] = v
	}
	return out
}

// body is what was recorded of a request's parameters: a list of pairs, an object, or raw text.
func body(params any) any {
	switch p := params.(type) {
	case map[string]any:
		form := url.Values{}
		for k, v := range p {
			form.Set(k, formText(v))
		}
		return form
	case []any:
		form := url.Values{}
		for _, pair := range p {
			kv, _ := pair.([]any)
			if len(kv) == 2 {
				form.Add(formText(kv[0]), formText(kv[1]))
			}
		}
		return form
	case string:
		var object map[string]any
		if json.Unmarshal([]byte(p), &object) == nil {
			return object
		}
		return p
	}
	return nil
}

func formText(v any) string {
	if f, ok := v.(float64); ok {
		return trimFloat(f)
	}
	return fmt.Sprint(v)
}
