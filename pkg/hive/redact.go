package hive

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// secretPatterns match secrets by their looks: join tokens, access keys, private keys, and values of keys that are
// called after a secret.
var secretPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`), redacted},
	{regexp.MustCompile(`spx_join_[A-Za-z0-9_-]+`), redacted},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b`), redacted},
	{
		regexp.MustCompile(
			`(?i)\b([a-z0-9_.-]*(?:secret|token|passw(?:or)?d|access[ _-]?key|master[ _-]?key)[a-z0-9_ -]*?)("?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|\S+)`,
		),
		"$1$2" + redacted,
	},
	{regexp.MustCompile(`(://)[^/\s@:]+(?::[^/\s@]*)?@`), "$1" + redacted + "@"},
}

// redactor removes secrets from text: those it knows by value, and those that look like one.
type redactor struct{ values []string }

// minSecret is the shortest value that is removed wherever it stands.
const minSecret = 8

func newRedactor(values ...string) redactor {
	var kept []string
	for _, value := range values {
		if value = strings.TrimSpace(value); len(value) >= minSecret {
			kept = append(kept, value)
		}
	}
	// Longer ones first, in case one is a part of another.
	slices.SortFunc(kept, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return redactor{slices.Compact(kept)}
}

func (r redactor) text(s string) string {
	for _, value := range r.values {
		s = strings.ReplaceAll(s, value, redacted)
	}
	for _, secret := range secretPatterns {
		s = secret.pattern.ReplaceAllString(s, secret.with)
	}
	return s
}

var quotedSecret = regexp.MustCompile(`(?im)(?:^|[{,])\s*["']?[a-z0-9_.-]*(?:secret|token|passw(?:or)?d|key)[a-z0-9_.-]*["']?\s*[=:]\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^"'\s{][^"'\n,}]*?)[ \t]*(?:$|[,}]))`)

// secretValues finds the values of settings (TOML, JSON, ini or NATS's own form) that are called after a secret.
func secretValues(text string) []string {
	var values []string
	for _, match := range quotedSecret.FindAllStringSubmatch(text, -1) {
		value := match[1] + match[2] + match[3]
		if !strings.HasPrefix(value, "/") && !strings.HasSuffix(value, ".key") { // a path to a key is none
			values = append(values, value)
		}
	}
	return values
}
