package wire

import (
	"bytes"
	"errors"
	"net/url"
	"reflect"
	"testing"
)

// Every shape that the table names is in it, and no member has the name of another.
func TestTable(t *testing.T) {
	all := known()
	for _, name := range Actions() {
		for _, shape := range []string{all.actions[name].in, all.actions[name].out} {
			if _, there := all.shapes[shape]; !there && shape != "-" {
				t.Errorf("%s: there is no shape %s", name, shape)
			}
		}
	}
	for name, list := range all.shapes {
		names, elements, parameters := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, m := range list {
			if names[m.name] || elements[m.xml] || parameters[m.query] {
				t.Errorf("%s.%s is there twice", name, m.name)
			}
			names[m.name], elements[m.xml], parameters[m.query] = true, true, true
			if _, there := all.shapes[m.kind.name]; !there && !m.kind.scalar() {
				t.Errorf("%s.%s: there is no shape %s", name, m.name, m.kind.name)
			}
		}
	}
}

// sample fills all members of a shape.
func sample(k kind, depth int) any {
	if k.list {
		return []any{sample(k.element(), depth), sample(k.element(), depth)}
	}
	switch k.name {
	case "bool":
		return true
	case "int":
		return int64(7)
	case "float":
		return 1.5
	case "string", "time", "blob":
		return "a <b> & \"c\""
	}
	o := Object{}
	for _, m := range members(k.name) {
		if depth < 6 {
			o[m.name] = sample(m.kind, depth+1)
		}
	}
	return o
}

// What is written is read as it was, of every action.
func TestWrittenIsRead(t *testing.T) {
	for _, name := range Actions() {
		a, err := actionOf(name)
		if err != nil {
			t.Fatal(err)
		}
		in, _ := sample(kind{name: a.in}, 0).(Object)
		form, err := EncodeQuery(name, in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeQuery(name, form); err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%s: the request is read as %v, %v", name, got, err)
		}
		out := Object{}
		if a.out != "-" {
			out, _ = sample(kind{name: a.out}, 0).(Object)
		}
		document, err := EncodeXML(name, "id", out)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeXML(name, 200, bytes.NewReader(document), true); err != nil || !reflect.DeepEqual(got, out) {
			t.Errorf("%s: the answer is read as %v, %v", name, got, err)
		}
	}
}

func TestMistakesInRequests(t *testing.T) {
	for text, code := range map[string]string{
		"Action=Explode": InvalidAction, "Action=CreateVpc&Colour=red": UnknownParameter,
		"Action=CreateVpc&DryRun=perhaps": InvalidParameterValue, "Action=CreateVpc&CidrBlock.1=a": UnknownParameter,
		"Action=DescribeVpcs&VpcId=a": UnknownParameter, "Action=DescribeVpcs&VpcId.one=a": UnknownParameter,
		"Action=DescribeVpcs&MaxResults=many": InvalidParameterValue, "Action=DescribeVpcs&Filter.1=a": UnknownParameter,
	} {
		form, _ := url.ParseQuery(text)
		_, err := DecodeQuery(form.Get("Action"), form)
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Code != code {
			t.Errorf("%s: %v, want %s", text, err, code)
		}
	}
	form, _ := url.ParseQuery("Action=RunInstances&Placement.AvailabilityZone=&MinCount=1")
	if in, err := DecodeQuery("RunInstances", form); err != nil || in.Has("Placement") {
		t.Errorf("an empty parameter: %v, %v", in, err)
	}
}

func TestErrorsAreRead(t *testing.T) {
	failure := Errorf("InvalidVpcID.NotFound", "no <vpc>")
	_, err := DecodeXML("DescribeVpcs", 400, bytes.NewReader(failure.Document("id")), true)
	if got, ok := errors.AsType[*Error](err); !ok || *got != *failure {
		t.Errorf("read %v", err)
	}
	const other = `<ErrorResponse><Error><Code>A</Code><Message>b</Message></Error></ErrorResponse>`
	if _, err := DecodeXML("DescribeVpcs", 400, bytes.NewReader([]byte(other)), false); err.Error() != "A: b" {
		t.Errorf("read %v", err)
	}
	_, err = DecodeXML("DescribeVpcs", 400, bytes.NewReader([]byte(other)), true)
	if _, ok := errors.AsType[*Error](err); ok || err == nil {
		t.Errorf("a client of SDK v1 reads %v", err)
	}
}

func FuzzDecodeQuery(f *testing.F) {
	f.Add("Action=RunInstances&NetworkInterface.1.PrivateIpAddresses.1.Primary=true&TagSpecification.1.Tag.1.Key=a")
	f.Add("Action=DescribeVpcs&Filter.1.Value.1=*&Filter.1.Name=a")
	f.Fuzz(func(t *testing.T, text string) {
		form, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		in, err := DecodeQuery(form.Get("Action"), form)
		if err != nil {
			return
		}
		again, err := EncodeQuery(form.Get("Action"), in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeQuery(form.Get("Action"), again); err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%v is read again as %v, %v", in, got, err)
		}
	})
}

func FuzzDecodeXML(f *testing.F) {
	f.Add(`<DescribeVpcsResponse><vpcSet><item><vpcId>a</vpcId></item></vpcSet></DescribeVpcsResponse>`, 200)
	f.Add(`<Response><Errors><Error><Code>a</Code></Error></Errors></Response>`, 400)
	f.Fuzz(func(t *testing.T, text string, status int) {
		out, err := DecodeXML("DescribeVpcs", status, bytes.NewReader([]byte(text)), true)
		if err == nil && out == nil {
			t.Error("neither a result nor an error")
		}
	})
}
