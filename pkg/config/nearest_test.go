package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	names := []string{"up", "cp", "configure", "status", "down", "node-count", "node-ssh-port"}
	for _, tc := range []struct {
		word string
		want []string
	}{
		{"stauts", []string{"status"}},
		{"ap", []string{"up", "cp"}},
		{"rm", nil}, // two letters that are both others are no mistake in typing
		{"conf", []string{"configure"}},
		{"node", []string{"node-count", "node-ssh-port"}},
		{"node-cuont", []string{"node-count"}},
		{"n", nil},
		{"", nil},
		{"whatever", nil},
	} {
		if diff := cmp.Diff(tc.want, Nearest(tc.word, names)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tc.word, diff)
		}
	}
}
