package secret

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Find is a secret that stands somewhere as it is. It does not hold it.
type Find struct {
	Line int // from 1
	What string
	Fix  string
	Key  bool // a file that holds it is a key
}

// kindOfSecret is what secrets of a kind look like: the first group is the secret itself.
type kindOfSecret struct {
	what    string
	pattern *regexp.Regexp
	fix     string
	key     bool
}

const fixReference = "put it into an encrypted file, with hive-test secrets set, and name that here: sops:FILE#key"

func kindsOfSecret() []kindOfSecret {
	return []kindOfSecret{
		{"the private key of age", regexp.MustCompile(`(AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,})`), "move it into a file of mode 0600 outside of the repository; what was encrypted for it is to be rotated: hive-test secrets rotate FILE", true},
		{"a private key", regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----)`), "move it into a file of mode 0600, and name that", true},
		{"a token of Proxmox VE", regexp.MustCompile(`[A-Za-z0-9._-]+@[A-Za-z0-9._-]+![A-Za-z0-9._-]+=([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`), fixReference, false},
		{"an AWS access key", regexp.MustCompile(`\b((?:AKIA|ASIA)[0-9A-Z]{16})\b`), fixReference, false},
		{"a password in a URL", regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^/\s:@"']*:([^/\s@"']+)@`), fixReference, false},
	}
}

// keyed is an assignment to a name that says that the value is a secret.
var keyed = regexp.MustCompile(`(?i)^\s*(?:-\s+)?(?:export\s+)?["']?[A-Za-z0-9_.-]*(?:secret|token|password|passwd|api_?key)[A-Za-z0-9_.-]*["']?\s*[:=]\s*["']?([^\s"',#]{8,})`)

// ScanOptions say what counts.
type ScanOptions struct {
	Keyed bool // also values of names that say so
}

// Scan finds secrets in a text, by line. What is encrypted, is a reference, or stands for something only is none.
func Scan(text string, o ScanOptions) []Find {
	var finds []Find
	number := 0
	for line := range strings.Lines(text) {
		number++
		if find, found := scanLine(line, o); found {
			find.Line = number
			finds = append(finds, find)
		}
	}
	return finds
}

func scanLine(line string, o ScanOptions) (Find, bool) {
	if strings.Contains(line, "ENC[AES256_GCM,") {
		return Find{}, false
	}
	for _, kind := range kindsOfSecret() {
		if match := kind.pattern.FindStringSubmatch(line); match != nil && !placeholder(match[1]) {
			return Find{What: kind.what, Fix: kind.fix, Key: kind.key}, true
		}
	}
	if match := keyed.FindStringSubmatch(line); o.Keyed && match != nil && !placeholder(match[1]) && random(match[1]) {
		return Find{What: "a value that looks secret, by its name,", Fix: fixReference}, true
	}
	return Find{}, false
}

// placeholder tells whether a value stands for one only, as in examples, or names where it is.
func placeholder(value string) bool {
	if _, reference, _ := Parse(value); reference {
		return true
	}
	if _, after, assigned := strings.Cut(value, "="); assigned && after != "" && placeholder(after) { // as user@realm!name=secret
		return true
	}
	lower := strings.ToLower(value)
	for _, sign := range []string{"$", "<", "{", "…", "...", "example", "changeme", "placeholder", "redacted", "xxxx", "***"} {
		if strings.Contains(lower, sign) {
			return true
		}
	}
	if slices.Contains([]string{"password", "secret", "pass", "token", "pw", "user"}, lower) {
		return true
	}
	letters := strings.Map(func(r rune) rune {
		if r == '-' {
			return -1
		}
		return r
	}, lower)
	return strings.Trim(letters, letters[:min(1, len(letters))]) == "" // one character again and again
}

// leastEntropy is that of a random value, in bits for each character; words and paths have less.
const leastEntropy = 3.0

// random tells whether a value looks as if nobody had thought of it.
func random(value string) bool {
	if strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "~/") || strings.Contains(value, "://") {
		return false
	}
	counts := map[rune]float64{}
	digits, letters := false, false
	for _, r := range value {
		counts[r]++
		digits = digits || r >= '0' && r <= '9'
		letters = letters || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	bits, length := 0.0, float64(len([]rune(value)))
	for _, n := range counts {
		bits -= n / length * math.Log2(n/length)
	}
	return bits >= leastEntropy && (digits && letters || len(value) >= 20 && letters)
}

// HoldsSettings tells by its name whether a file holds settings, in which names say what values are.
func HoldsSettings(path string) bool {
	name := filepath.Base(path)
	return slices.Contains([]string{".yaml", ".yml", ".json", ".env", ".tfvars", ".toml", ".ini", ".properties"}, filepath.Ext(name)) ||
		name == ".env" || strings.HasPrefix(name, ".env.")
}
