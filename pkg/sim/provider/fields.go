package provider

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/validation"
)

// The functions of this file are a short notation for schemas.

type (
	field  = *schema.Schema
	fields = map[string]*schema.Schema
	opt    = func(field)
)

func of(t schema.ValueType, opts []opt) field {
	f := &schema.Schema{Type: t, Optional: true}
	for _, o := range opts {
		o(f)
	}
	return f
}

func text(opts ...opt) field   { return of(schema.TypeString, opts) }
func number(opts ...opt) field { return of(schema.TypeInt, opts) }
func float(opts ...opt) field  { return of(schema.TypeFloat, opts) }
func flag(opts ...opt) field   { return of(schema.TypeBool, opts) }

// texts is a list of texts.
func texts(opts ...opt) field {
	f := of(schema.TypeList, opts)
	f.Elem = &schema.Schema{Type: schema.TypeString}
	return f
}

// blocks is a nested block that may occur max times; 0 is without limit.
func blocks(maxItems int, inner fields, opts ...opt) field {
	f := of(schema.TypeList, opts)
	f.MaxItems, f.Elem = maxItems, &schema.Resource{Schema: inner}
	return f
}

func required(f field)  { f.Optional, f.Required = false, true }
func computed(f field)  { f.Computed = true }
func readOnly(f field)  { f.Optional, f.Computed = false, true }
func forceNew(f field)  { f.ForceNew = true }
func sensitive(f field) { f.Sensitive = true }

func byDefault(v any) opt       { return func(f field) { f.Default = v } }
func deprecated(why string) opt { return func(f field) { f.Deprecated = why } }

func suppress(fn schema.SchemaDiffSuppressFunc) opt {
	return func(f field) { f.DiffSuppressFunc = fn }
}

// fromEnv is the first of the variables that is set.
func fromEnv(env Environment, names ...string) opt {
	return func(f field) {
		f.DefaultFunc = func() (any, error) {
			if v := env.variable(names...); v != "" {
				return v, nil
			}
			return nil, nil
		}
	}
}

// flagFromEnv is true if one of the variables is "true" or "1".
func flagFromEnv(env Environment, names ...string) opt {
	return func(f field) {
		f.DefaultFunc = func() (any, error) { return anyTrue(env.Getenv, names...), nil }
	}
}

func anyTrue(getenv func(string) string, names ...string) bool {
	for _, n := range names {
		if v := getenv(n); v == "true" || v == "1" {
			return true
		}
	}
	return false
}

//lint:ignore SA1019 the framework of the real provider
func check(fn schema.SchemaValidateFunc) opt {
	return func(f field) { f.ValidateDiagFunc = validation.ToDiagFunc(fn) }
}

func oneOf(values ...string) opt { return check(validation.StringInSlice(values, false)) }
func between(low, high int) opt  { return check(validation.IntBetween(low, high)) }
func matching(re, message string) opt {
	return check(validation.StringMatch(regexp.MustCompile(re), message))
}
func notEmpty(f field) { check(validation.StringIsNotEmpty)(f) }

func vmIDRange(f field) {
	check(func(v any, key string) ([]string, []error) {
		if n := v.(int); n != -1 && (n < 100 || n > 2147483647) {
			return nil, []error{fmt.Errorf("expected %s to be in the range (100 - 2147483647), got %d", key, n)}
		}
		return nil, nil
	})(f)
}

func duration(f field) {
	check(func(v any, key string) ([]string, []error) {
		if _, err := time.ParseDuration(v.(string)); err != nil {
			return nil, []error{fmt.Errorf("expected value of %s to be a duration - got: %v", key, v)}
		}
		return nil, nil
	})(f)
}

// volumeID is a file on a storage: "datastore:iso/file.img".
func volumeID(f field) {
	shape := regexp.MustCompile(`^(?i)[a-z\d\-_.]+:([a-z\d\-_]+/)?.+$`)
	check(func(v any, key string) ([]string, []error) {
		if s := v.(string); s != "" && !shape.MatchString(s) {
			return nil, []error{fmt.Errorf(
				"expected %s to be a valid file identifier (datastore-name:iso/some-file.img), got %s", key, s,
			)}
		}
		return nil, nil
	})(f)
}

func macAddress(f field) {
	shape := regexp.MustCompile(`^[A-Fa-f0-9]{2}(:[A-Fa-f0-9]{2}){5}$`)
	check(func(v any, key string) ([]string, []error) {
		if s := v.(string); s != "" && !shape.MatchString(s) {
			return nil, []error{fmt.Errorf("expected %q to be a valid MAC address (A0:B1:C2:D3:E4:F5), got %q", key, s)}
		}
		return nil, nil
	})(f)
}

func serialName(f field) {
	check(func(v any, key string) ([]string, []error) {
		if s := v.(string); s != "socket" && (len(s) < 5 || s[:5] != "/dev/") {
			return nil, []error{fmt.Errorf("expected %s to be '/dev/*' or 'socket'", key)}
		}
		return nil, nil
	})(f)
}

func dnsName(f field) {
	label := `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
	check(validation.Any(validation.StringIsEmpty,
		validation.StringMatch(regexp.MustCompile(`^`+label+`(?:\.`+label+`)*$`), "must be a valid DNS name")))(f)
}

// block is one nested block of a resource, as the SDK returns it.
type block map[string]any

func (b block) text(k string) string   { s, _ := b[k].(string); return s }
func (b block) num(k string) int       { n, _ := b[k].(int); return n }
func (b block) float(k string) float64 { f, _ := b[k].(float64); return f }
func (b block) flag(k string) bool     { v, _ := b[k].(bool); return v }
func (b block) list(k string) []any    { l, _ := b[k].([]any); return l }

// first is the single nested block under k.
func (b block) first(k string) (block, bool) { return firstBlock(b.list(k)) }

func firstBlock(list []any) (block, bool) {
	if len(list) == 0 {
		return nil, false
	}
	m, ok := list[0].(map[string]any)
	return m, ok
}

func stringList(list []any) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// data is the part of the SDK's resource data that readers of settings need.
type data struct{ *schema.ResourceData }

func (d data) text(k string) string { s, _ := d.Get(k).(string); return s }
func (d data) num(k string) int     { n, _ := d.Get(k).(int); return n }
func (d data) flag(k string) bool   { b, _ := d.Get(k).(bool); return b }
func (d data) list(k string) []any  { l, _ := d.Get(k).([]any); return l }

func (d data) first(k string) (block, bool) { return firstBlock(d.list(k)) }

// or is the block under k, or the defaults that hold where it is missing.
func (d data) or(k string, absent block) block {
	if b, ok := d.first(k); ok {
		return b
	}
	return absent
}

// setAll stores values and joins what the schema refuses.
func (d data) setAll(values map[string]any) error {
	var errs []error
	for _, k := range sortedKeys(values) {
		if err := d.Set(k, values[k]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
