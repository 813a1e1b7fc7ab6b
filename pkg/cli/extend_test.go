package cli

import (
	"testing"
	"time"

	"hive-test/pkg/cluster"
)

func TestTimeLeft(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ expires, want string }{
		{"", "does not expire"},
		{"2026-11-30T13:00:00Z", "expires 2026-11-30T13:00:00Z (in 1d1h)"},
		{"2026-11-29T11:59:00Z", "expired 2026-11-29T11:59:00Z (1m ago)"},
		{"2300-01-01T00:00:00Z", "expires 2300-01-01T00:00:00Z (in 99743d12h)"},
		{"9999-12-31T00:00:00Z", "expires 9999-12-31T00:00:00Z"}, // no Duration is that long
		{"0002-01-01T00:00:00Z", "expired 0002-01-01T00:00:00Z"},
	} {
		var owner cluster.Owner
		if test.expires != "" {
			var err error
			if owner.Expires, err = time.Parse(time.RFC3339, test.expires); err != nil {
				t.Fatal(err)
			}
		}
		if got := timeLeft(owner, now); got != test.want {
			t.Errorf("%q: %q, want %q", test.expires, got, test.want)
		}
		owner.Held = true
		if got := timeLeft(owner, now); got != test.want+", held" {
			t.Errorf("%q, held: %q", test.expires, got)
		}
	}
}
