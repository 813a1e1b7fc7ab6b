package cli

import (
	"testing"

	"hive-test/pkg/engine"
)

func TestWhatIsTypedAtAQuestion(t *testing.T) {
	choices := []engine.Choice{{Value: "pve1"}, {Value: "pve2"}}
	one := engine.Question{Choices: choices}
	usual := engine.Question{Choices: choices, Usual: "pve2"}
	several := engine.Question{Choices: choices, Several: true, Usual: "pve1,pve2"}
	for _, test := range []struct {
		question    engine.Question
		typed, want string // nothing wanted: it is asked again
	}{
		{one, "1", "pve1"},
		{one, "pve2", "pve2"},
		{one, "3", ""},
		{one, "", ""},
		{usual, "", "pve2"},
		{several, "", "pve1,pve2"},
		{several, "2, pve1", "pve2,pve1"},
		{several, "pve1=10.0.0.1:22", "pve1=10.0.0.1:22"},
		{several, "1,3", ""},
		{engine.Question{}, "9", "9"},
		{engine.Question{Usual: "root"}, "", "root"},
		{engine.Question{YesNo: true}, "", "no"},
		{engine.Question{YesNo: true, Usual: "yes"}, "", "yes"},
		{engine.Question{YesNo: true}, "Y", "yes"},
		{engine.Question{YesNo: true, Usual: "yes"}, "n", "no"},
		{engine.Question{YesNo: true}, "maybe", ""},
	} {
		got, err := understood(test.question, test.typed)
		if (err == nil) != (test.want != "") || err == nil && got != test.want {
			t.Errorf("%q at %+v is %q (%v), want %q", test.typed, test.question, got, err, test.want)
		}
	}
}
