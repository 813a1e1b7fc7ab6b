package opentofu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// stub writes an executable that answers `version` with the given shell text.
func stub(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func says(line string) string { return "echo '" + line + "'" }

func TestFindOrder(t *testing.T) {
	const good, goodTerraform = "echo 'OpenTofu v1.10.6'", "echo 'Terraform v1.6.0'"
	tests := []struct {
		name   string
		stubs  map[string]string // path below the root: script
		source string            // where the chosen one is from
		path   string
		tried  []string // reasons, each a part of the reason told
	}{
		{
			name: "tofu on PATH is first",
			stubs: map[string]string{
				"a/terraform": goodTerraform, "b/tofu": good, "cache/bin/tofu": good, "beside/tofu": good,
			},
			source: SourceTofu, path: "b/tofu", tried: []string{"chosen: OpenTofu 1.10.6"},
		},
		{
			name:   "a broken tofu does not hide a good one",
			stubs:  map[string]string{"a/tofu": "echo no such thing >&2; exit 3", "b/tofu": good},
			source: SourceTofu, path: "b/tofu",
			tried: []string{"cannot be run: exit status 3: no such thing", "chosen"},
		},
		{
			name: "old ones are passed over",
			stubs: map[string]string{
				"a/tofu": says("OpenTofu v1.7.9"), "a/terraform": says("Terraform v1.5.7"),
				"b/terraform": goodTerraform,
			},
			source: SourceTerraform, path: "b/terraform",
			tried: []string{
				"OpenTofu 1.7.9 is too old: 1.8.0", "Terraform 1.5.7 is too old: 1.6.0", "chosen: Terraform 1.6.0",
			},
		},
		{
			name:   "a pre-release counts as its release",
			stubs:  map[string]string{"a/tofu": says("OpenTofu v1.8.0-rc1")},
			source: SourceTofu, path: "a/tofu", tried: []string{"chosen: OpenTofu 1.8.0-rc1"},
		},
		{
			name:   "a silent one is given up",
			stubs:  map[string]string{"a/tofu": "exec /bin/sleep 30", "cache/bin/terraform": goodTerraform},
			source: SourceDownloaded, path: "cache/bin/terraform",
			tried: []string{"said no version within", "not there", "not there", "chosen"},
		},
		{
			name:   "what make tofu built comes after a download",
			stubs:  map[string]string{"a/tofu": says("hello"), "beside/tofu": good},
			source: SourceBuilt, path: "beside/tofu",
			tried: []string{"neither OpenTofu nor Terraform: hello", "not there", "not there", "not there", "chosen"},
		},
		{
			name: "what make tofu built for another checkout is the last, the newest version of it first",
			stubs: map[string]string{
				"cache/tofu/v1.9.1/tofu":  says("OpenTofu v1.9.1"),
				"cache/tofu/v1.10.6/tofu": good, "cache/tofu/v1.11.0/tofu": "exit 1",
			},
			source: SourceBuilt, path: "cache/tofu/v1.10.6/tofu",
			tried: []string{"not there", "not there", "not there", "not there", "not there", "cannot be run", "chosen"},
		},
		{
			name:  "nothing at all",
			tried: []string{"not there", "not there", "not there", "not there", "not there", "not allowed here"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for path, script := range test.stubs {
				stub(t, filepath.Join(root, path), script)
			}
			env := "PATH=relative:" + filepath.Join(root, "a") + ":" + filepath.Join(root, "b") + ":" +
				filepath.Join(root, "none")
			b, err := Find(t.Context(), FindOptions{
				Env:      []string{env + ":/usr/bin-not", "PATH=" + strings.TrimPrefix(env, "PATH=")},
				CacheDir: filepath.Join(root, "cache"),
				Beside:   filepath.Join(root, "beside"), ProbeTimeout: 2 * time.Second,
			})
			tried := b.Tried
			if missing, ok := errors.AsType[*NotFoundError](err); ok {
				tried = missing.Tried
			} else if err != nil {
				t.Fatal(err)
			}
			if b.Source != test.source || test.path != "" && b.Path != filepath.Join(root, test.path) {
				t.Errorf("chose %q from %q", b.Path, b.Source)
			}
			if len(tried) != len(test.tried) {
				t.Fatalf("tried %v", tried)
			}
			for i, want := range test.tried {
				if !strings.Contains(tried[i].Reason, want) {
					t.Errorf("attempt %d: %s, want %q", i, tried[i], want)
				}
			}
		})
	}
}

func TestFindTheNamedOneOrNothing(t *testing.T) {
	root := t.TempDir()
	stub(t, filepath.Join(root, "a/tofu"), says("OpenTofu v1.10.6"))
	options := FindOptions{Explicit: filepath.Join(root, "missing"), Env: []string{"PATH=" + filepath.Join(root, "a")}}
	_, err := Find(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "--tofu-bin: "+options.Explicit+": not there") {
		t.Errorf("got %v", err)
	}
	options.Explicit = filepath.Join(root, "a/tofu")
	if b, err := Find(t.Context(), options); err != nil || b.Source != SourceExplicit {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestFindRemembersVersionsOfPrograms(t *testing.T) {
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link(t, self, filepath.Join(root, "a/tofu"))
	options := FindOptions{Env: []string{"PATH=" + filepath.Join(root, "a")}, CacheDir: filepath.Join(root, "cache")}
	first, err := Find(t.Context(), options)
	if err != nil || first.Version != "1.99.0" {
		t.Fatalf("%+v %v", first, err)
	}
	// A timeout that no program can keep shows that none was asked.
	options.ProbeTimeout = time.Nanosecond
	if again, err := Find(t.Context(), options); err != nil || again.Version != first.Version {
		t.Errorf("asked again: %+v %v", again, err)
	}
	// A script may start another program tomorrow: it is asked each time.
	stub(t, filepath.Join(root, "b/tofu"), says("OpenTofu v1.10.6"))
	options.Env, options.ProbeTimeout = []string{"PATH=" + filepath.Join(root, "b")}, 0
	if b, err := Find(t.Context(), options); err != nil || b.Version != "1.10.6" {
		t.Fatalf("%+v %v", b, err)
	}
	options.ProbeTimeout = time.Nanosecond
	if _, err := Find(t.Context(), options); err == nil {
		t.Error("the version of a script was remembered")
	}
}

func TestFindSurvivesADamagedCache(t *testing.T) {
	root := t.TempDir()
	stub(t, filepath.Join(root, "a/tofu"), says("OpenTofu v1.10.6"))
	if err := os.WriteFile(filepath.Join(root, "versions.json"), []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), FindOptions{
		Env: []string{"PATH=" + filepath.Join(root, "a")}, CacheDir: root,
	}); err != nil {
		t.Error(err)
	}
}

func TestFindDownloadsLast(t *testing.T) {
	events := &progress.Memory{}
	options := FindOptions{CacheDir: t.TempDir(), Sink: events, Downloaders: []Downloader{
		{Name: OpenTofu, File: "tofu", Fetch: func(context.Context, string) (string, error) { return "", errors.New("dial: no route") }},
		{Name: Terraform, File: "terraform", Fetch: func(_ context.Context, dir string) (string, error) {
			path := filepath.Join(dir, "unpacked")
			return path, os.WriteFile(path, []byte("#!/bin/sh\necho Terraform v1.11.4\n"), 0o600)
		}},
	}}
	b, err := Find(t.Context(), options)
	if err != nil || b.Source != SourceDownload || b.Path != filepath.Join(options.CacheDir, "bin", "terraform") {
		t.Fatalf("%+v %v", b, err)
	}
	var told []string
	for _, e := range events.Events() {
		told = append(told, e.Message)
	}
	if len(told) != 2 {
		t.Errorf("told: %q", told)
	}
	options.Downloaders = nil
	if b, err = Find(t.Context(), options); err != nil || b.Source != SourceDownloaded {
		t.Errorf("the next run: %+v %v", b, err)
	}
	entries, err := filepath.Glob(filepath.Join(options.CacheDir, "bin", ".download-*"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestNotFoundNamesEverythingTried(t *testing.T) {
	err := &NotFoundError{Tried: []Attempt{{SourceTofu, "/x/tofu", "cannot be run"}, {
		SourceTerraform, "", "not there",
	}}}
	const want = "no OpenTofu (1.8.0 or newer) or Terraform (1.6.0 or newer) found: tofu on PATH: /x/tofu: cannot be run; terraform on PATH: not there"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}
