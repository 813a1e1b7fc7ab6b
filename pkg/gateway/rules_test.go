package gateway_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// brokenRules are endpoints that read or write otherwise than EC2 does, or forget what they were asked for. That ours does
// not, TestProbe shows, and the tests below.
func brokenRules() map[string]faulty {
	return map[string]faulty{
		// The provider sends Placement.AvailabilityZone= for a zone that is not set.
		"an empty parameter is a value": {
			front: onRequest(func(_ *http.Request, form url.Values) *wire.Error {
				for name := range form {
					if form.Get(name) == "" {
						return wire.Errorf(wire.InvalidParameterValue, "Invalid value '' for %s", name)
					}
				}
				return nil
			}),
			cells: map[string]string{"aws_vpc create": "works", "aws_instance create": "fails RunInstances"},
		},
		// The provider asks on for minutes.
		"what is detached is told of no more": {
			spoil: after("DescribeNetworkInterfaces", func(in, out wire.Object, err error) (wire.Object, error) {
				left := slices.DeleteFunc(out.Objects("NetworkInterfaces"), func(eni wire.Object) bool {
					return eni.Object("Attachment").Text("Status") == "detached"
				})
				return wire.Object{"NetworkInterfaces": wire.List(left...)}, err
			}),
			cells: map[string]string{
				"aws_network_interface_attachment read":   "works",
				"aws_network_interface_attachment delete": "stub DescribeNetworkInterfaces",
			}, stuck: true,
		},
		// The provider finds another text than the one that it asked for.
		"user data is told as text": {
			spoil: after("DescribeInstanceAttribute", func(_, out wire.Object, err error) (wire.Object, error) {
				if data := out.Object("UserData"); data.Has("Value") {
					text, _ := base64.StdEncoding.DecodeString(data.Text("Value"))
					out["UserData"] = wire.Value(string(text))
				}
				return out, err
			}),
			cells: map[string]string{"aws_instance create": "works", "aws_instance read": "stub DescribeInstanceAttribute"},
		},
		"user data is forgotten": {
			spoil: before("RunInstances", func(in wire.Object) { delete(in, "UserData") }),
			cells: map[string]string{"aws_instance read": "stub DescribeInstanceAttribute"},
		},
		"credits are forgotten": {
			spoil: before("RunInstances", func(in wire.Object) {
				in["CreditSpecification"] = wire.Object{"CpuCredits": "standard"}
			}),
			cells: map[string]string{"aws_instance read": "stub DescribeInstanceCreditSpecifications"},
		},
		"the placement group is forgotten": {
			spoil: before("RunInstances", func(in wire.Object) { delete(in, "Placement") }),
			cells: map[string]string{"aws_placement_group read": "works", "aws_instance read": "stub DescribeInstances"},
		},
		"an interface has the groups of its instance": {
			spoil: after("DescribeNetworkInterfaces", func(_, out wire.Object, err error) (wire.Object, error) {
				for _, eni := range out.Objects("NetworkInterfaces") {
					if eni.Object("Attachment").Text("DeviceIndex") == "1" {
						eni["Groups"] = append(wire.List(wire.Object{"GroupId": "sg-1"}), eni["Groups"].([]any)...)
					}
				}
				return out, err
			}),
			cells: map[string]string{
				"aws_network_interface read":            "works",
				"aws_network_interface_attachment read": "stub DescribeNetworkInterfaces",
			},
		},
		// Host is signed by both SDKs.
		"the host is another one": {
			front: onRequest(func(r *http.Request, _ url.Values) *wire.Error { r.Host = "other"; return nil }),
			cells: map[string]string{
				"provider read": "fails GetCallerIdentity", "aws_key_pair create": "fails ImportKeyPair",
				"aws_placement_group create": "fails CreatePlacementGroup",
			},
		},
		// SDK v2 signs headers of its own, v1 has none.
		"headers are taken away": {
			front: onRequest(func(r *http.Request, _ url.Values) *wire.Error { r.Header.Del("Amz-Sdk-Request"); return nil }),
			cells: map[string]string{
				"provider read": "fails GetCallerIdentity", "aws_key_pair create": "fails ImportKeyPair",
				"aws_placement_group create": "works",
			},
		},
		"a list's elements are not read": {
			spoil: before("DescribeVpcs", func(in wire.Object) { delete(in, "VpcIds") }),
			cells: map[string]string{"aws_vpc create": "works", "aws_vpc read": "stub DescribeVpcs"}, stuck: true,
		},
		// As other services of AWS answer lists.
		"a list's elements are members": {
			front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					next.ServeHTTP(answer, r)
					w.WriteHeader(answer.Code)
					_, _ = w.Write(bytes.ReplaceAll(bytes.ReplaceAll(answer.Body.Bytes(),
						[]byte("<item>"), []byte("<member>")), []byte("</item>"), []byte("</member>")))
				})
			},
			cells: map[string]string{
				"provider read": "works", "aws_key_pair create": "wrong shape ImportKeyPair",
				"aws_placement_group create": "wrong shape CreatePlacementGroup",
			},
		},
	}
}

// onRequest changes requests or refuses them, before they are read.
func onRequest(change func(r *http.Request, form url.Values) *wire.Error) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // what is cut off is not signed
			form, _ := url.ParseQuery(string(body))
			r.Body = io.NopCloser(bytes.NewReader(body))
			if failure := change(r, form); failure != nil {
				w.WriteHeader(failure.Status)
				_, _ = w.Write(failure.Document("id"))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// sendForm sends a form that is signed for a service, and returns the status and the document that are answered, with the names
// of the headers that were signed.
func sendForm(t *testing.T, e iac.Endpoint, service, form string, header http.Header) (status int, document, signed string) {
	t.Helper()
	r, err := e.Key.Post(t.Context(), e.URL, service, []byte(form), header)
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile("SignedHeaders=([^,]*)").FindStringSubmatch(r.Header.Get("Authorization")); found != nil {
		signed = found[1]
	}
	answer, err := e.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body), signed
}

// Requests with the headers that SDK v1 signs and those that v2 does are taken, and answered by the service that they are
// signed for: all have one address. (What is signed wrongly is refused: TestVerify of pkg/awsauth.)
func TestSignedHeaders(t *testing.T) {
	endpoint := newEndpoint(t, "")
	v2 := http.Header{"Amz-Sdk-Invocation-Id": {"6fb7e9a5-2f4a-4f0d-9d8f-0e8d4f1c2b3a"}, "Amz-Sdk-Request": {"attempt=1; max=3"}}
	for _, c := range []struct {
		service, action string
		header          http.Header
		signed          string
		status          int
		answer          string
	}{
		{"ec2", "DescribeVpcs", nil, "content-length;content-type;host;x-amz-date", 200, "<DescribeVpcsResponse"},
		{
			"ec2", "DescribeVpcs", v2, "amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x-amz-date",
			200, "<DescribeVpcsResponse",
		},
		{"sts", "GetCallerIdentity", nil, "content-length;content-type;host;x-amz-date", 200, "<Account>" + account},
		{
			"sts", "GetCallerIdentity", v2, "amz-sdk-invocation-id;amz-sdk-request;content-length;content-type;host;x-amz-date",
			200, "<Account>" + account,
		},
		{"ec2", "GetCallerIdentity", nil, "content-length;content-type;host;x-amz-date", 400, "<Response><Errors><Error><Code>InvalidAction<"},
		{"sts", "DescribeVpcs", nil, "content-length;content-type;host;x-amz-date", 400, "<Code>InvalidAction<"},
		{"iam", "GetUser", nil, "content-length;content-type;host;x-amz-date", 403, "<Code>SignatureDoesNotMatch<"},
	} {
		status, document, signed := sendForm(t, endpoint, c.service, "Action="+c.action, c.header)
		if signed != c.signed {
			t.Errorf("%s for %s: the headers %s are signed, not %s: it shows nothing", c.action, c.service, signed, c.signed)
		}
		if status != c.status || !strings.Contains(document, c.answer) {
			t.Errorf("%s for %s: %d %s, want %d with %s", c.action, c.service, status, document, c.status, c.answer)
		}
	}
}

// Lists are numbered parameters without a level between, in any order, and elements <item> in answers; what is empty is
// not set. (All requests of an SDK: testdata/awssdk. Lists at all places: TestWrittenIsRead of pkg/gateway/wire.)
func TestListsOnTheWire(t *testing.T) {
	endpoint := newEndpoint(t, "")
	for _, c := range []struct {
		form   string
		status int
		want   string // a pattern
	}{
		{
			"Action=CreateVpc&CidrBlock=10.0.0.0/16&TagSpecification.1.ResourceType=vpc&TagSpecification.1.Tag.2.Key=b&" +
				"TagSpecification.1.Tag.2.Value=2&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=1&Ipv4IpamPoolId=",
			200, "<tagSet><item><key>a</key><value>1</value></item><item><key>b</key><value>2</value></item></tagSet>",
		},
		{
			"Action=DescribeVpcs&Filter.1.Name=tag:a&Filter.1.Value.1=x&Filter.1.Value.2=1&VpcId.1=&NextToken=",
			200, "<vpcSet><item>.*<key>a</key>.*</item></vpcSet>",
		},
		{"Action=DescribeVpcs&Filter.1.Name=tag:a&Filter.1.Value.1=x", 200, "<vpcSet></vpcSet>|<vpcSet/>"},
		{"Action=DescribeVpcs&VpcId.member.1=vpc-1", 400, "<Code>UnknownParameter</Code>"},
	} {
		status, document, _ := sendForm(t, endpoint, "ec2", c.form, nil)
		if status != c.status || !regexp.MustCompile("(?s)"+c.want).MatchString(document) {
			t.Errorf("%s: %d %s, want %d with %s", c.form, status, document, c.status, c.want)
		}
	}
}
