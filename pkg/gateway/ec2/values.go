package ec2

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
)

// stamp is a time as AWS writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// pick returns an object with those of its members.
func pick(o wire.Object, names ...string) wire.Object {
	if o == nil {
		return nil
	}
	picked := wire.Object{}
	for _, name := range names {
		if o.Has(name) {
			picked[name] = o[name]
		}
	}
	return picked
}

// orText is a member's text, or another where it is not set.
func orText(o wire.Object, name, otherwise string) string {
	if text := o.Text(name); text != "" {
		return text
	}
	return otherwise
}

// orInt is a member's number, or another where it is not set.
func orInt(o wire.Object, name string, otherwise int64) int64 {
	if o.Has(name) {
		return o.Int(name)
	}
	return otherwise
}

// orBool is a member, or another value where it is not set.
func orBool(o wire.Object, name string, otherwise bool) bool {
	if o.Has(name) {
		return o.Bool(name)
	}
	return otherwise
}

// oneOf is an error where a member is set to what is none of the values.
func oneOf(o wire.Object, name string, values ...string) error {
	if text := o.Text(name); text != "" && !slices.Contains(values, text) {
		return invalid("Value (%s) for parameter %s is invalid. Valid values are: %s", text, name, strings.Join(values, ", "))
	}
	return nil
}

// macOf is the hardware address of a network interface, which is the same each time.
func macOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

// privateName is the name that AWS gives to a private address.
func (s *Service) privateName(address string) string {
	domain := s.Region + ".compute.internal"
	if s.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// publicName is the name that AWS gives to a public address.
func (s *Service) publicName(address string) string {
	domain := s.Region + ".compute.amazonaws.com"
	if s.Region == "us-east-1" {
		domain = "compute-1.amazonaws.com"
	}
	return "ec2-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// clientError is an error as one of AWS's; nil where it is none.
func clientError(err error) *wire.Error {
	failure, _ := errors.AsType[*wire.Error](err)
	return failure
}
