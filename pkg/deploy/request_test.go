package deploy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy"
)

func TestSortNodesByNumber(t *testing.T) {
	got := deploy.SortNodes([]string{"ci-10", "ci-2", "ci-1", "ci-2"})
	if diff := cmp.Diff([]string{"ci-1", "ci-2", "ci-10"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFailureNamesNodesAndRemedies(t *testing.T) {
	f := &deploy.Failure{Step: "tofu apply", Log: "/l", Problems: []deploy.Problem{
		{Nodes: []string{"ci-1", "ci-2"}, Summary: "HTTP 401", Hint: "check the token"}, {Address: "x.y", Summary: "odd", Hint: "check the token"}, {Summary: "else"},
	}}
	if got, want := f.Error(), "tofu apply failed: ci-1, ci-2: HTTP 401; x.y: odd; else"; got != want {
		t.Errorf("got %q", got)
	}
	if got := f.Hint(); got != "check the token" {
		t.Errorf("hint %q", got)
	}
	f.Problems = f.Problems[2:]
	if got := f.Hint(); got != "the whole output is in /l" {
		t.Errorf("hint %q", got)
	}
}
