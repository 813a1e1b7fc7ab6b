package pve

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The words of refused parameters, as observed on Proxmox VE 8.4.
const (
	msgUnknownParam = "property is not defined in schema and the schema does not allow additional properties"
	msgMissingParam = "property is missing and it is not optional"
	msgPattern      = "value does not match the regex pattern"
	msgParams       = "Parameter verification failed."
)

// value is one parameter as it arrived: text from a form, or a JSON value. Lists come from a JSON list or from a key
// that is repeated in a form.
type value struct {
	text   string
	list   []string
	isJSON bool
	isList bool // a JSON list, or several values in a form
	isObj  bool // a JSON object
}

// validateParams checks parameters against a method's description and returns what is wrong with each, in PVE's words.
func validateParams(props map[string]*property, in map[string]value) map[string]string {
	errs := map[string]string{}
	for name, v := range in {
		p, ok := props[name]
		if !ok {
			errs[name] = msgUnknownParam
			continue
		}
		if p.Requires != "" {
			if _, ok := in[p.Requires]; !ok {
				errs[name] = "missing property - '" + p.Requires + "'"
				continue
			}
		}
		if msg := checkValue(p, v, name); msg != "" {
			errs[name] = msg
		}
	}
	for name, p := range props {
		if _, ok := in[name]; !ok && !p.Optional && p.Alias == "" {
			errs[name] = msgMissingParam
		}
	}
	return errs
}

func checkValue(p *property, v value, path string) string {
	if p.Type == "array" {
		return ""
	}
	if v.isObj {
		return fmt.Sprintf("type check ('%s') failed - got HASH", p.Type)
	}
	if v.isList && v.isJSON {
		return fmt.Sprintf("type check ('%s') failed - got ARRAY", p.Type)
	}
	return checkText(p, v.text, path)
}

// checkText follows the order in which PVE checks: type, format, pattern, length, bounds, enumeration.
func checkText(p *property, s, path string) string {
	if !typeFits(p.Type, s) {
		return fmt.Sprintf("type check ('%s') failed - got '%s'", p.Type, s)
	}
	if msg := checkFormat(p, s, path); msg != "" {
		return "invalid format - " + msg
	}
	if p.re != nil && !p.re.MatchString(s) {
		return msgPattern
	}
	n := utf8.RuneCountInString(s)
	if p.MaxLength > 0 && n > p.MaxLength {
		return fmt.Sprintf("value may only be %d characters long", p.MaxLength)
	}
	if n < p.MinLength {
		return fmt.Sprintf("value must be at least %d characters long", p.MinLength)
	}
	if msg := checkBounds(p, s); msg != "" {
		return msg
	}
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, s) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", s, strings.Join(p.Enum, ", "))
	}
	return ""
}

func typeFits(kind, s string) bool {
	switch kind {
	case "integer":
		return integerPattern.MatchString(s)
	case "number":
		return numberPattern.MatchString(s)
	case "boolean":
		return s == "0" || s == "1"
	}
	return true
}

func checkBounds(p *property, s string) string {
	if p.Minimum == nil && p.Maximum == nil {
		return ""
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return ""
	}
	if p.Maximum != nil && f > *p.Maximum {
		return "value must have a maximum value of " + trimFloat(*p.Maximum)
	}
	if p.Minimum != nil && f < *p.Minimum {
		return "value must have a minimum value of " + trimFloat(*p.Minimum)
	}
	return ""
}

func trimFloat(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func checkFormat(p *property, s, path string) string {
	if p.Keys != nil {
		_, msg := parseProps(p.Keys, s, path)
		return msg
	}
	if keys := namedPropertyStrings()[p.Format]; keys != nil {
		_, msg := parseProps(keys, s, path)
		return msg
	}
	return formatError(p.Format, s)
}

// parseProps reads a property string ("local:0,size=4G") into keys and values, aliases resolved. The second result
// says what is wrong with it, in PVE's words, or is empty.
func parseProps(keys map[string]*property, s, path string) (map[string]string, string) {
	out := map[string]string{}
	errs := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		k, v, hasKey := strings.Cut(part, "=")
		if !hasKey || v == "" {
			k, v = defaultKey(keys), part
			if k == "" {
				return nil, "value without key, but schema does not define a default key\n"
			}
		}
		if p := keys[k]; p != nil && p.Alias != "" {
			if keys["model"] != nil && p.Alias == "macaddr" {
				out["model"] = k
			}
			k = p.Alias
		}
		if _, twice := out[k]; twice && k != "model" {
			return nil, "duplicate key in comma-separated list property: " + k + "\n"
		}
		p := keys[k]
		if p == nil {
			errs[k] = msgUnknownParam
			continue
		}
		if p.Type == "boolean" {
			v = asBool(v)
		}
		if msg := checkText(p, v, path+"."+k); msg != "" {
			errs[k] = msg
			continue
		}
		out[k] = v
	}
	for k, p := range keys {
		if _, ok := out[k]; !ok && !p.Optional && p.Alias == "" && errs[k] == "" {
			errs[k] = msgMissingParam
		}
	}
	if len(errs) == 0 {
		return out, ""
	}
	msg := "format error\n"
	for _, k := range sortedKeys(errs) {
		msg += path + "." + k + ": " + errs[k] + "\n"
	}
	return nil, msg
}

// asBool maps the spellings that PVE accepts inside property strings (not in plain parameters) to 0 and 1.
func asBool(s string) string {
	switch strings.ToLower(s) {
	case "1", "on", "yes", "true":
		return "1"
	case "0", "off", "no", "false":
		return "0"
	}
	return s
}

func defaultKey(keys map[string]*property) string {
	for k, p := range keys {
		if p.DefaultKey {
			return k
		}
	}
	return ""
}

// compile prepares a property's pattern, and those of its keys. A published pattern that Go cannot read accepts
// everything.
func (p *property) compile() {
	if p.Pattern != "" {
		p.re, _ = regexp.Compile("^(?:" + p.Pattern + ")$")
	}
	for _, k := range p.Keys {
		k.compile()
	}
}
