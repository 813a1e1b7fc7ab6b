package stacks

import (
	"regexp"
	"strings"
	"testing"
)

func TestStacks(t *testing.T) {
	secret := regexp.MustCompile(`(?i)(access_key|secret_key|token|profile)\s*=`)
	dirs, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range All() {
		known[s.Name] = true
		all, err := s.Files()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(all["provider.tf"]), "var.mulgaos_endpoint") || len(all["main.tf"]) == 0 {
			t.Errorf("%s has %d files, without what all share or its own", s.Name, len(all))
		}
		for name, text := range all {
			if found := secret.Find(text); found != nil {
				t.Errorf("%s/%s says %s: keys come from the environment", s.Name, name, found)
			}
		}
		if needs := strings.Contains(string(all["main.tf"]), "aws_instance"); needs != s.NeedsImage {
			t.Errorf("%s starts an instance: %v, and it is said that it needs an image: %v", s.Name, needs, s.NeedsImage)
		}
	}
	for _, d := range dirs {
		if d.IsDir() && !known[d.Name()] {
			t.Errorf("the stack %s is not among all", d.Name())
		}
	}
	if _, err := (Stack{Name: "nothing"}).Files(); err == nil {
		t.Error("a stack that does not exist has files")
	}
}
