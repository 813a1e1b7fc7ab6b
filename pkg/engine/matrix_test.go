package engine

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is wrong with many cells is told once, with how many these are, and which.
func TestMistakesAreToldOnce(t *testing.T) {
	for name, c := range map[string]struct {
		cells map[string][]error
		want  []string
	}{
		"one":  {map[string][]error{"a=1": {errors.New("x")}, "a=2": nil}, []string{"cell a=1: x"}},
		"only": {map[string][]error{"a=1": {nil, errors.New("x"), errors.New("y")}}, []string{"cell a=1: x", "cell a=1: y"}},
		"all": {
			map[string][]error{"a=1": {errors.New("x"), errors.New("y")}, "a=2": {errors.New("x")}},
			[]string{"all 2 cells: x", "cell a=1: y"},
		},
		"some": {
			map[string][]error{"a=1": {errors.New("x")}, "a=2": {errors.New("x")}, "a=3": nil},
			[]string{"2 of 3 cells (a=1; a=2): x"},
		},
		"many": {
			map[string][]error{
				"a=1": {errors.New("x")}, "a=2": {errors.New("x")}, "a=3": {errors.New("x")}, "a=4": {errors.New("x")},
				"a=5": {errors.New("x")}, "a=6": nil,
			},
			[]string{"5 of 6 cells (a=1; a=2; a=3; and 2 more): x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := mistakes{}
			for _, label := range []string{"a=1", "a=2", "a=3", "a=4", "a=5", "a=6"} {
				wrong.add(label, c.cells[label])
			}
			var got []string
			for _, err := range wrong.told(len(c.cells)) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
