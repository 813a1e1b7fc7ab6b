package iac

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	table := func(rows ...Row) Table { return Table{Schema: tableSchema, Rows: rows} }
	cell := func(v Verdict, call string) map[string]Cell { return map[string]Cell{"read": {Verdict: v, Call: call}} }
	before := table(
		Row{"a", cell(Works, "")}, Row{"b", cell(Missing, "DescribeB")}, Row{"c", cell(Fails, "DescribeC")},
		Row{"d", cell(Works, "")}, Row{"e", cell(Stub, "DescribeE")}, Row{"same", cell(Fails, "DescribeS")},
		Row{"gone", cell(Works, "")}, Row{"never", cell(Missing, "X")},
	)
	after := table(
		Row{"a", cell(Works, "")}, Row{"b", cell(Works, "")}, Row{"c", cell(Fails, "DescribeOther")},
		Row{"d", cell(Fails, "DescribeD")}, Row{"e", cell(WrongShape, "DescribeE")}, Row{"same", cell(Fails, "DescribeS")},
		Row{"new", cell(Works, "")},
	)
	var got []string
	d := Compare(before, after)
	for _, c := range d.Changes {
		got = append(got, string(c.Change)+" "+c.Resource)
	}
	want := "lost d, lost gone, changed c, changed e, changed never, gained b, gained new"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got %s\nwant %s", all, want)
	}
	if d.Count(Lost) != 2 || d.Before.Working != 3 || d.Before.Parts != 8 {
		t.Errorf("%d lost, before: %+v", d.Count(Lost), d.Before)
	}
	if d := Compare(before, before); len(d.Changes) != 0 {
		t.Errorf("a table differs from itself: %+v", d.Changes)
	}
}

// What is no table of the probe is refused, and says why.
func TestReadTable(t *testing.T) {
	const good = `{"schema":1,"rows":[{"resource":"aws_vpc","cells":{"read":{"verdict":"works"}}}]}`
	if _, err := ReadTable(strings.NewReader(good)); err != nil {
		t.Errorf("a table: %v", err)
	}
	for text, want := range map[string]string{
		"":                       "it is no table",
		"hello":                  "it is no table",
		good + good:              "something follows",
		`{"schema":1,"rows":[]}`: "no rows",
		`{"schema":1,"vms":[]}`:  "no rows",
		strings.Replace(good, `"schema":1`, `"schema":2`, 1): "schema 2",
		strings.Replace(good, `"read"`, `"dance"`, 1):        `part "dance"`,
		strings.Replace(good, `"works"`, `"perhaps"`, 1):     `verdict "perhaps"`,
		strings.Replace(good, `"aws_vpc"`, `""`, 1):          "no name of its own",
	} {
		if _, err := ReadTable(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
