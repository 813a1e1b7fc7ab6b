package api

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// number reads what PVE sends as a number, a string of digits, a boolean or null.
type number float64

// UnmarshalJSON accepts every form that was seen of PVE 8 and 9.
func (n *number) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	switch text {
	case "null", "", "false":
		*n = 0
		return nil
	case "true":
		*n = 1
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = number(f)
	return nil
}

func (n number) bytes() uint64 {
	if n < 0 || math.IsNaN(float64(n)) {
		return 0
	}
	return uint64(n)
}

func (n number) int() int   { return int(n) }
func (n number) bool() bool { return n != 0 }

// text reads a string that PVE may send as a number.
type text string

// UnmarshalJSON accepts a string, a number or null.
func (t *text) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = text(s)
		return nil
	}
	*t = text(b)
	return nil
}

// splitTags reads a tag list. PVE separates by ';' after a config change but keeps what create was given.
func splitTags(s string) []string {
	tags := strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	if len(tags) == 0 {
		return nil
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// property reads PVE's "value,key=value,..." strings. The first field without '=' is kept under "".
func property(s string) map[string]string {
	fields := map[string]string{}
	for field := range strings.SplitSeq(s, ",") {
		key, value, found := strings.Cut(field, "=")
		switch {
		case found:
			fields[key] = value
		case field != "":
			fields[""] = field
		}
	}
	return fields
}
