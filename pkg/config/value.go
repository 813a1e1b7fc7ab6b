package config

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hive-test/pkg/progress"
)

// parse reads a value that is written as text, as environment variables are.
func (s Setting) parse(text string) (any, error) {
	switch s.Kind {
	case Bool:
		return parseBool(text)
	case Int:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not %s", text, s.wholeNumber())
		}
		return n, nil
	case Duration:
		return ParseDuration(text)
	case List:
		// A suite is a command line, which may hold commas, so several are one a line.
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines, nil
	case Hypervisors:
		return parseHypervisors(text)
	case Suites, QuarantineList, Layers, StateBackend, Credentials, EnvironmentList:
		return s.parseStructured(text)
	case Date:
		return parseDate(text)
	}
	return text, nil
}

// wholeNumber says what values of an Int are.
func (s Setting) wholeNumber() string {
	if s.Unit == "" {
		return "a whole number"
	}
	return fmt.Sprintf("a whole number of %s, like %v", s.Unit, s.Default)
}

// CheckNumber returns what is wrong with the value of a flag for whole numbers, of a setting or not; nil where it is
// one.
func CheckNumber(flag, text string) error {
	rows := Table()
	s := Setting{Kind: Int}
	if i := slices.IndexFunc(rows, func(row Setting) bool { return row.Flag == flag }); i >= 0 {
		s = rows[i]
	}
	_, err := s.parse(text)
	return err
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "t", "true", "yes", "on":
		return true, nil
	case "0", "f", "false", "no", "off":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var (
	weeksPattern = regexp.MustCompile(`^([0-9]+)w`)
	daysPattern  = regexp.MustCompile(`^([0-9]+)d`)
)

// ParseDuration reads a duration as users write it: what time.ParseDuration reads, and before it weeks, and days of 24
// hours, as in 1w, 2d or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	total, rest := time.Duration(0), text
	for _, unit := range []struct {
		pattern *regexp.Regexp
		length  time.Duration
	}{{weeksPattern, week}, {daysPattern, day}} {
		found := unit.pattern.FindStringSubmatch(rest)
		if found == nil {
			continue
		}
		n, err := strconv.Atoi(found[1])
		if err != nil || n > int((math.MaxInt64-total)/unit.length)-1 {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total, rest = total+time.Duration(n)*unit.length, cmp.Or(rest[len(found[0]):], "0s")
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration, like 90s, 1h30m, 2d or 1w", text)
	}
	return total + d, nil
}

// durationValue is a flag's duration.
type durationValue time.Duration

func (v *durationValue) Set(text string) error {
	d, err := ParseDuration(text)
	*v = durationValue(d)
	return err
}

// String is the value as a user would write it.
func (v *durationValue) String() string {
	if *v == 0 {
		return "0"
	}
	return progress.FormatLimit(time.Duration(*v))
}

func (v *durationValue) Type() string { return "duration" }

// DurationFlag adds a flag that is no setting and takes a duration, days included; 0 by default.
func DurationFlag(flags *pflag.FlagSet, name, help string) *time.Duration {
	value := new(time.Duration)
	flags.Var((*durationValue)(value), name, help)
	return value
}

// poolPattern is how Proxmox VE names pools: up to three names, one in the other.
var poolPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`)

var idRangePattern = regexp.MustCompile(`^[1-9][0-9]{2,8}-[1-9][0-9]{2,8}$`)

var variablePattern = regexp.MustCompile(`(?s)^[A-Za-z_][A-Za-z0-9_]*(=.*)?$`)

// check looks at a value of the setting's own Go type.
func (s Setting) check(value any) error {
	switch v := value.(type) {
	case string:
		if len(s.OneOf) > 0 && !slices.Contains(s.OneOf, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(s.OneOf, ", "))
		}
		// a variable that is not set, most likely
		if usual, _ := s.Default.(string); usual != "" && strings.TrimSpace(v) == "" {
			return fmt.Errorf("it is empty: leave it out for %s", usual)
		}
		if (s.Key == "proxmox.vmid_range" || s.Key == "proxmox.template_range") && !idRangePattern.MatchString(v) {
			return fmt.Errorf("%q is not of the form FIRST-LAST, like 20000-29999", v)
		}
		if s.Key == "proxmox.pool" && v != "" && !poolPattern.MatchString(v) {
			return fmt.Errorf("%q is no name of a pool: letters, digits, dots, hyphens and underscores", v)
		}
		if s.entry != nil && v != "" {
			return s.entry(v)
		}
	case []string:
		for _, entry := range v {
			if s.entry == nil {
				break
			}
			if err := s.entry(entry); err != nil {
				return err
			}
		}
	case int:
		if s.Max != 0 && (v < s.Min || v > s.Max) {
			return fmt.Errorf("%d is not between %d and %d", v, s.Min, s.Max)
		}
		if v < 0 {
			return fmt.Errorf("%d is negative", v)
		}
	case time.Duration:
		if v < 0 {
			return fmt.Errorf("%s is negative", v)
		}
	}
	return nil
}

// Expand returns a path whose ~/ is the home directory.
func Expand(path, home string) string { return resolve(path, "", home) }

// resolve makes a path usable from anywhere: ~/ is home, and what a file names is relative to that file.
func resolve(path, base, home string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found && home != "" {
		return filepath.Join(home, rest)
	}
	if path == "" || base == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(base, path)
}
