package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"file":           {text: "file", path: "file"},
		"./a:b":          {text: "./a:b", path: "./a:b"},
		"/x/a:b":         {text: "/x/a:b", path: "/x/a:b"},
		":":              {text: ":", remote: true},
		":/tmp/":         {text: ":/tmp/", remote: true, path: "/tmp/"},
		"2:a:b":          {text: "2:a:b", remote: true, nodes: "2", path: "a:b"},
		"ci-1-1,3:~/log": {text: "ci-1-1,3:~/log", remote: true, nodes: "ci-1-1,3", path: "~/log"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

func TestWhatIsCopiedWhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("dir", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", filepath.Join("dir", "a")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		operands string
		which    string
		want     map[int][]string
		problem  string
	}{
		{"a :/x", "", map[int][]string{1: {"/x"}, 2: {"/x"}, 3: {"/x"}}, ""},
		{"a dir :/x", "3,1", map[int][]string{1: {"/x"}, 3: {"/x"}}, ""},
		{"a ci-1-2:", "", map[int][]string{2: {""}}, ""},
		{"1:/x 2:y 1:z out", "", map[int][]string{1: {"/x", "z"}, 2: {"y"}}, ""},
		{":x 2:y .", "1,2", map[int][]string{1: {"x"}, 2: {"x", "y"}}, ""},
		{"a", "", nil, "needs what is copied and where to"},
		{"a b", "", nil, "one must be on nodes"},
		{"1:a 2:b", "", nil, "one must be on nodes"},
		{"1:a a :", "", nil, "one must be on nodes"},
		{"1: .", "", nil, `"1:" names no file`},
		{"missing :", "", nil, "missing: no such file"},
		{"a dir/a :", "", nil, "a and dir/a would be the same file"},
		{"1:a 1:/x/a out", "", nil, "two files of ci-1-1 would both be a"},
		{"4:a .", "", nil, `4:a: there is no node "4": the cluster has 3 nodes`},
		{"a host:b", "", nil, `host:b: there is no node "host"`},
		{"a :x", "4", nil, `there is no node "4"`},
		{"1:a .", "2", nil, "no :PATH is there"},
	} {
		asked, err := ParseCopy(strings.Fields(tc.operands), tc.which)
		var got map[int][]string
		if err == nil {
			got, err = asked.paths(nodes())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.operands, diff)
		}
		if tc.problem == "" && err != nil ||
			tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s: %v, want %q", tc.operands, err, tc.problem)
		}
	}
}
