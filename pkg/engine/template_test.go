package engine

import "testing"

// What a description shows has neither user nor password, wherever an @ stands.
func TestRepositoriesAreToldWithoutPasswords(t *testing.T) {
	for repo, want := range map[string]string{
		"https://host/a/hive":             "https://host/a/hive",
		"https://token@host/a/hive":       "https://host/a/hive",
		"https://me:p@ss@host:444/a/hive": "https://host:444/a/hive",
		"git@host:a/hive":                 "git@host:a/hive",
		"ssh://git@host/a/hive":           "ssh://git@host/a/hive",
	} {
		if got := hiddenPassword(repo); got != want {
			t.Errorf("%s is told as %q, want %q", repo, got, want)
		}
	}
}
