package hive

import (
	"regexp"
	"strings"

	"hive-test/pkg/progress"
)

// secretPatterns match secrets by their looks: join tokens, access keys, private keys, and values of keys that are
// called after a secret.
var secretPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`), progress.Redacted},
	{regexp.MustCompile(`spx_join_[A-Za-z0-9_-]+`), progress.Redacted},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b`), progress.Redacted},
	{
		regexp.MustCompile(
			`(?i)\b([a-z0-9_.-]*(?:secret|token|passw(?:or)?d|access[ _-]?key|master[ _-]?key)[a-z0-9_ -]*?)("?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|\S+)`,
		),
		"$1$2" + progress.Redacted,
	},
	{regexp.MustCompile(`(://)[^/\s@:]+(?::[^/\s@]*)?@`), "$1" + progress.Redacted + "@"},
}

// minSecret is the shortest value, in bytes, that is removed wherever it stands.
const minSecret = 8

// redactor removes secrets from text: these values, and what looks like one.
func redactor(values ...string) func(string) string {
	mask := progress.NewMasker(longEnough(values))
	return func(text string) string { return redacted(mask.Mask(text)) }
}

// redacted is a text without what looks like a secret.
func redacted(s string) string {
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
