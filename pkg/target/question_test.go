package target

import (
	"testing"
)

func TestWhatIsTakenForNoAnswer(t *testing.T) {
	for _, test := range []struct {
		choices []string
		usual   string
	}{
		{nil, ""},
		{[]string{"a"}, "a"},
		{[]string{"a", "b"}, ""},
		{[]string{"a", "local", "b"}, "local"},
	} {
		q := Question{}
		for _, value := range test.choices {
			q.Choices = append(q.Choices, Choice{Value: value})
		}
		if got := q.settle("local").Usual; got != test.usual {
			t.Errorf("of %q %q is taken, want %q", test.choices, got, test.usual)
		}
	}
}

func TestAnswersFitTheQuestion(t *testing.T) {
	one := Question{Choices: []Choice{{Value: "a"}, {Value: "b"}}}
	several := Question{Choices: one.Choices, Several: true}
	for _, test := range []struct {
		question Question
		answer   string
		fits     bool
	}{
		{Question{}, "anything", true},
		{Question{}, "", false},
		{one, "a", true},
		{one, "a,b", false},
		{one, "c", false},
		{several, "a,b", true},
		{several, "b=10.0.0.1:22,a", true},
		{several, "a, b", true},
		{several, "a,c", false},
		{several, "a,", false},
	} {
		if err := test.question.Check(test.answer); (err == nil) != test.fits {
			t.Errorf("%q: %v", test.answer, err)
		}
	}
}
