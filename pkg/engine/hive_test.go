package engine

import (
	"testing"

	"hive-test/pkg/cluster"
)

func TestAgain(t *testing.T) {
	tree := cluster.Source{SourceDir: "/src", Build: "each"}
	repo := cluster.Source{Repo: "https://example.org/hive", Ref: "v1"}
	for name, c := range map[string]struct {
		now, before cluster.Source
		builds      bool
		want        cluster.Source
	}{
		"as before":         {now: cluster.Source{Build: "first"}, before: tree, want: tree},
		"built elsewhere":   {now: cluster.Source{Build: "local"}, before: tree, builds: true, want: cluster.Source{SourceDir: "/src", Build: "local"}},
		"another ref":       {now: cluster.Source{Ref: "v2"}, before: repo, want: cluster.Source{Repo: repo.Repo, Ref: "v2"}},
		"another place":     {now: cluster.Source{Binary: "/hive"}, before: tree, want: cluster.Source{Binary: "/hive"}},
		"a ref of no place": {now: cluster.Source{Ref: "v2"}, before: tree, want: cluster.Source{SourceDir: "/src", Ref: "v2", Build: "each"}},
	} {
		if got := again(c.now, c.before, c.builds); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestHasPassword(t *testing.T) {
	for repo, want := range map[string]bool{
		"": false, "https://example.org/hive": false, "git@example.org:hive.git": false, "ssh://git@example.org/hive": false,
		"https://token@example.org/hive": true, "https://me:token@example.org/hive": true, "ssh://me:secret@example.org/x": true,
	} {
		if got := hasPassword(repo); got != want {
			t.Errorf("%s: %v", repo, got)
		}
	}
}
