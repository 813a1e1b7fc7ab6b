package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// givenSettings are the settings that were given anywhere, without secrets and the values of suites' variables. After
// those that have keys of their own comes what each of these is, so that runs can be compared.
func givenSettings(settings config.Settings) []progress.Setting {
	return shownSettings(settings, settings.Given, func(string, string) bool { return true })
}

// EffectiveSettings are all settings in force, or those that were given anywhere, for who asks what they are. Secrets are
// hidden, and references stay as they are.
func EffectiveSettings(settings config.Settings, given bool) []progress.Setting {
	shown := shownSettings(settings, func(key string) bool { return !given || settings.Given(key) }, probablySecret)
	for i := range shown {
		shown[i].Value = withPassword.ReplaceAllString(shown[i].Value, "://***@")
	}
	return shown
}

// shownSettings are the settings that are chosen by key, and below those that have keys of their own what each of these
// is. Hidden tells which of suites' variables have no value there.
func shownSettings(
	settings config.Settings, chosen func(key string) bool, hidden func(name, value string) bool,
) []progress.Setting {
	mask := secretsOfSuites(settings).Mask
	var given []progress.Setting
	for _, v := range settings.Values() {
		if !chosen(v.Key) {
			continue
		}
		var below []config.Value
		switch v.Key {
		case "suite_env":
			v.Value = withoutValues(settings.SuiteEnv, hidden)
		case "state":
			below = stateValues(settings.State)
		case "suites":
			for _, named := range settings.NamedSuites {
				below = append(below, suiteValues(named)...)
			}
		case "quarantine":
			for _, q := range settings.Quarantine {
				below = append(below, quarantineValue(q))
			}
		}
		given = append(given, progress.Setting{Key: v.Key, Value: v.Value, From: v.Source})
		for _, b := range below {
			given = append(given, progress.Setting{Key: v.Key + "." + b.Key, Value: mask(b.Value), From: v.Source})
		}
	}
	return given
}

// withoutValues lists entries, each a name or NAME=value, without the values that are to be hidden.
func withoutValues(entries []string, hidden func(name, value string) bool) string {
	shown := slices.Clone(entries)
	for i, entry := range entries {
		if name, value, _ := strings.Cut(entry, "="); hidden(name, value) {
			shown[i] = name
		}
	}
	return strings.Join(shown, ", ")
}

// withPassword is a URL with one.
var withPassword = regexp.MustCompile(`://[^/\s]*:[^/\s]*@`)

// probablySecret reports whether a variable most likely holds a secret.
func probablySecret(name, value string) bool {
	return suite.SecretName(name) || withPassword.MatchString(value)
}

// secretsOfSuites are the secrets that suites' variables most likely hold: other settings may have them within.
func secretsOfSuites(settings config.Settings) *progress.Secrets {
	known := new(progress.Secrets)
	entries := slices.Clone(settings.SuiteEnv)
	for _, named := range settings.NamedSuites {
		entries = append(entries, named.Env...)
	}
	for _, entry := range entries {
		if name, value, given := strings.Cut(entry, "="); given && probablySecret(name, value) {
			known.Learn(value)
		}
	}
	return known
}

// stateValues are the backend's own settings, which hold no secrets unless somebody has made that mistake.
func stateValues(s config.State) []config.Value {
	var values []config.Value
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		value := fmt.Sprint(s.Config[key])
		if probablySecret(key, value) || key == "conn_str" {
			value = "***"
		}
		values = append(values, config.Value{Key: key, Value: value})
	}
	return values
}

// suiteValues are what the file says of a suite, without secrets.
func suiteValues(s config.Suite) []config.Value {
	number := func(n int) string {
		if n <= 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	yes := func(needed bool) string { return strings.TrimPrefix(fmt.Sprint(needed), "false") }
	retries := ""
	if s.Retries >= 0 {
		retries = fmt.Sprint(s.Retries)
	}
	limit := ""
	if s.Timeout > 0 {
		limit = progress.FormatLimit(s.Timeout)
	}
	var given []config.Value
	for _, v := range []config.Value{
		{Key: "command", Value: s.Command},
		{Key: "path", Value: s.Path},
		{Key: "results", Value: s.Results},
		{Key: "on", Value: s.On},
		{Key: "dir", Value: s.Dir},
		{Key: "env", Value: withoutValues(s.Env, probablySecret)},
		{Key: "timeout", Value: limit},
		{Key: "retries", Value: retries},
		{Key: "needs.nodes", Value: number(s.Needs.Nodes)},
		{Key: "needs.kvm", Value: yes(s.Needs.KVM)},
		{Key: "needs.ovn", Value: yes(s.Needs.OVN)},
	} {
		if v.Value != "" {
			given = append(given, config.Value{Key: s.Name + "." + v.Key, Value: v.Value})
		}
	}
	return given
}

// quarantineValue is why a case is in quarantine, and until when.
func quarantineValue(q config.Quarantine) config.Value {
	why := q.Reason
	if !q.Until.IsZero() { // which is the end of that day
		why += " (until " + q.Until.AddDate(0, 0, -1).Format(time.DateOnly) + ")"
	}
	return config.Value{Key: progress.CaseName(q.Suite, "", q.Case), Value: why}
}
