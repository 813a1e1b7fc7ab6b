package config

import (
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("there", 2*60*60)
	for _, tc := range []struct{ text, want string }{
		{"2026-12-01", "2026-12-01T00:00:00+02:00"},
		{"2026-12-01 18:00", "2026-12-01T18:00:00+02:00"},
		{"2026-12-01 18:00:05", "2026-12-01T18:00:05+02:00"},
		{"2026-12-01T18:00", "2026-12-01T18:00:00+02:00"},
		{" 2026-12-01T18:00:00Z ", "2026-12-01T18:00:00Z"},
		{"2026-12-01T18:00:00-05:00", "2026-12-01T18:00:00-05:00"},
	} {
		got, err := ParseTime(tc.text, zone)
		if err != nil || got.Format(time.RFC3339) != tc.want {
			t.Errorf("%q: %s, %v, want %s", tc.text, got.Format(time.RFC3339), err, tc.want)
		}
	}
	for _, text := range []string{"", "4h", "2026-13-01", "2026-02-30", "18:00", "01.12.2026", "2026-12-01 25:00"} {
		if _, err := ParseTime(text, zone); err == nil || !strings.Contains(err.Error(), "is no time, like 2026-12-24") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
