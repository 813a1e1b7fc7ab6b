package config

import (
	"fmt"
	"strings"
	"time"
)

// ParseTime reads a time as users write it: RFC 3339, or a date, with or without a time of day, in their own zone. A
// date alone is its first moment.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, form := range []string{
		time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05",
	} {
		if at, err := time.ParseInLocation(form, text, zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf(
		"%q is no time, like 2026-12-24, \"2026-12-24 18:00\" (local time) or 2026-12-24T18:00:00Z", text,
	)
}
