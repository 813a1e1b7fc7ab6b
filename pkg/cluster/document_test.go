package cluster

import (
	"encoding/json"
	"testing"
)

// TestDocumentsStayInPlace: what a deployer keeps is read from a record and written there again byte for byte, beside
// what every node has. Its members follow the index, wherever they were.
func TestDocumentsStayInPlace(t *testing.T) {
	const vm = `"vmid":100,"hypervisor":"pve1"`
	for text, want := range map[string]string{
		`{"name":"a-1","index":1}`:                            "",
		`{"name":"a-1","index":1,"ssh_port":22}`:              "",
		`{"name":"a-1","index":1,` + vm + `,"ssh_port":22}`:   "{" + vm + "}",
		`{"name":"a-1","index":1,"a":{"b":[1,"\u003c"]}}`:     `{"a":{"b":[1,"\u003c"]}}`,
		`{"name":"a-1","index":1,` + vm + `,"data":"::1"}`:    "{" + vm + "}",
		`{"name":"","index":0,"vmid":1000000000000000000000}`: `{"vmid":1000000000000000000000}`,
	} {
		var n Node
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(text, err)
		}
		raw, err := json.Marshal(n)
		if err != nil || string(raw) != text || string(n.Placement) != want {
			t.Errorf("%s\nplacement %s, want %s\nwritten as %s %v", text, n.Placement, want, raw, err)
		}
	}
	var n Node
	if err := json.Unmarshal([]byte(`{"vmid":7,"index":1,"NAME":"a-1","template":9}`), &n); err != nil || n.Name != "a-1" {
		t.Fatalf("%+v %v", n, err)
	}
	if raw, _ := json.Marshal(n); string(raw) != `{"name":"a-1","index":1,"vmid":7,"template":9}` {
		t.Errorf("written as %s", raw)
	}
}

// TestTargetKeepsItsPlace: as for nodes.
func TestTargetKeepsItsPlace(t *testing.T) {
	for _, text := range []string{`{}`, `{"simulated":true}`, `{"simulated":true,"endpoint":"x"}`, `{"pool":"p"}`} {
		var target Target
		if err := json.Unmarshal([]byte(text), &target); err != nil {
			t.Fatal(err)
		}
		if raw, err := json.Marshal(target); err != nil || string(raw) != text {
			t.Errorf("%s is written as %s %v", text, raw, err)
		}
	}
}

// TestDocumentWithoutContent: nothing to tell is no document.
func TestDocumentWithoutContent(t *testing.T) {
	for _, value := range []any{nil, struct{}{}, []int{}, map[string]int(nil)} {
		if d := NewDocument(value); d != "" {
			t.Errorf("%#v became %q", value, d)
		}
	}
}
