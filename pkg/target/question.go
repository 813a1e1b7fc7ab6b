package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Question is what a configuration leaves open.
type Question struct {
	Text    string
	Flag    string   // that answers it, with dashes
	Choices []Choice // nil: the answer is any text
	Several bool     // of the choices, joined by commas; each may be followed by = and more
	Usual   string   // the answer where none is given; empty: there is none
	Secret  bool     // the answer must not be seen
	YesNo   bool     // the answer is yes or no
}

// Choice is a possible answer.
type Choice struct {
	Value string
	Note  string // what it is, for people
}

// Asker asks a person. Its answer is one that fits the question.
type Asker = func(ctx context.Context, q Question) (string, error)

// Check returns what is wrong with an answer.
func (q Question) Check(answer string) error {
	if answer == "" {
		return errors.New("an answer is needed")
	}
	if len(q.Choices) == 0 {
		return nil
	}
	parts := []string{answer}
	if q.Several {
		parts = strings.Split(answer, ",")
	}
	for _, part := range parts {
		if name, _, _ := strings.Cut(part, "="); !q.offers(strings.TrimSpace(name)) {
			return fmt.Errorf("%q is not one of %s", part, q.list())
		}
	}
	return nil
}

func (q Question) offers(value string) bool {
	return slices.ContainsFunc(q.Choices, func(c Choice) bool { return c.Value == value })
}

// list is what can be chosen, in one line.
func (q Question) list() string {
	var values []string
	for _, c := range q.Choices {
		values = append(values, c.Value)
	}
	return strings.Join(values, ", ")
}

// others is what could be chosen in place of value.
func (q Question) others(value string) string {
	q.Choices = slices.DeleteFunc(slices.Clone(q.Choices), func(c Choice) bool { return c.Value == value })
	return q.list()
}

// settle returns q with the usual answer: the preferred one if it is offered, else the only one.
func (q Question) settle(preferred string) Question {
	switch {
	case q.offers(preferred):
		q.Usual = preferred
	case len(q.Choices) == 1:
		q.Usual = q.Choices[0].Value
	}
	return q
}
