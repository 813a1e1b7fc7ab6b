package run

import (
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/opentofu"
)

// explain says for each thing that went wrong which resource it is about and which call decided it. Calls are those of
// the step that failed, in order.
func explain(problems []opentofu.Diagnostic, calls []Call) string {
	var texts []string
	for _, d := range problems {
		if text := explainOne(d, calls); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func explainOne(d opentofu.Diagnostic, calls []Call) string {
	said := oneLine(d.Summary + ": " + d.Detail)
	prefix := ""
	if d.Address != "" {
		prefix = d.Address + ": "
	}
	if c, found := deciding(said, calls); found {
		text := prefix + c.String()
		if unreadable(said) {
			text = strings.TrimSuffix(text, ".") + ", which the provider cannot read"
			if c.Root != "" && c.Root != "Response" {
				text += " (its root is <" + c.Root + ">)"
			}
		}
		return text
	}
	text := prefix + strings.TrimSuffix(said, ":")
	if last := lastOf(calls, typeOf(d.Address)); last != nil {
		text += " (last call: " + last.String() + ")"
	}
	return text
}

// deciding returns the call that an error of the provider is about: the one whose id or code it names, or which nobody
// answered, or whose answer it could not read.
func deciding(said string, calls []Call) (Call, bool) {
	for _, is := range []func(Call) bool{
		func(c Call) bool { return c.RequestID != "" && strings.Contains(said, c.RequestID) },
		func(c Call) bool {
			return c.failed() && c.Code != "" && hasWord(said, c.Code) && strings.Contains(said, c.Action)
		},
		func(c Call) bool { return c.failed() && c.Code != "" && hasWord(said, c.Code) },
		func(c Call) bool { return c.failed() && unreadable(said) && (c.Root != "Response" || c.Code == "") },
		func(c Call) bool { return c.Status == 0 && hasWord(said, "ServiceUnavailable") },
	} {
		for _, c := range slices.Backward(calls) {
			if is(c) {
				return c, true
			}
		}
	}
	return Call{}, false
}

// unreadable reports whether an error says that an answer could not be read.
func unreadable(said string) bool {
	return slices.ContainsFunc([]string{
		"SerializationError", "deserialization failed", "failed to decode", "expected element type", "api error UnknownError",
	}, func(sign string) bool { return strings.Contains(said, sign) })
}

// hasWord reports whether a text has a word of its own.
func hasWord(text, word string) bool {
	found, err := regexp.MatchString(`(^|[^A-Za-z0-9.])`+regexp.QuoteMeta(word)+`($|[^A-Za-z0-9.]|\.($|\s))`, text)
	return err == nil && found
}

// lastOf returns the last call that failed, or else the last whose action is about a type of resource; nil: there is none.
func lastOf(calls []Call, noun string) *Call {
	for _, is := range []func(Call) bool{
		Call.failed,
		func(c Call) bool { return noun != "" && strings.Contains(strings.ToLower(c.Action), noun) },
	} {
		for i, c := range slices.Backward(calls) {
			if is(c) {
				return &calls[i]
			}
		}
	}
	return nil
}

// typeOf is the resource's type as actions name it: securitygroup of aws_security_group.this.
func typeOf(address string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(address, "data."), ".")
	return strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(name, "aws_"), "ebs_"), "_", "")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
