package ec2

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"hive-test/pkg/gateway/wire"
)

// A pattern of a filter matches what the regular expression that means the same does.
func FuzzMatches(f *testing.F) {
	for _, seed := range []struct{ pattern, value string }{
		{"", ""},
		{"*", ""},
		{"a*b?c", "axxbyc"},
		{`\*`, "*"},
		{`a\`, `a\`},
		{`\\*`, `\x`},
		{"**a", "ba"},
		{"?*?", "é"},
		{"ubuntu-*-24.04", "ubuntu-noble-24.04"},
	} {
		f.Add(seed.pattern, seed.value)
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(value) || len(pattern) > 64 || len(value) > 256 {
			return
		}
		if got, want := matches(pattern, value), expression(pattern).MatchString(value); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, value, got, want)
		}
		in := wire.Object{"Filters": wire.List(wire.Object{"Name": "tag:" + pattern, "Values": wire.Strings(pattern)})}
		match, err := filter(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		match(wire.Object{"Tags": wire.List(wire.Object{"Key": value, "Value": value})})
	})
}

// expression is the regular expression that means the same as a pattern.
func expression(pattern string) *regexp.Regexp {
	var text strings.Builder
	text.WriteString(`(?s)\A`)
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch {
		case runes[i] == '*':
			text.WriteString(".*")
		case runes[i] == '?':
			text.WriteString(".")
		case runes[i] == '\\' && i+1 < len(runes):
			i++
			text.WriteString(regexp.QuoteMeta(string(runes[i])))
		default:
			text.WriteString(regexp.QuoteMeta(string(runes[i])))
		}
	}
	return regexp.MustCompile(text.String() + `\z`)
}
