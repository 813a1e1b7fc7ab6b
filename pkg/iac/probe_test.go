package iac

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

// fake answers actions by name; those that it does not have are missing. It keeps what it was asked.
type fake struct {
	mu      sync.Mutex
	asked   []string
	answers map[string]func(form func(string) string) (status int, body string)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action := r.FormValue("Action")
	f.mu.Lock()
	f.asked = append(f.asked, action)
	answer, known := f.answers[action]
	f.mu.Unlock()
	status, body := http.StatusBadRequest, string(wire.Errorf(wire.InvalidAction, "none").Document("id"))
	if known {
		status, body = answer(r.FormValue)
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

func (f *fake) count(action string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.asked {
		if asked == action {
			n++
		}
	}
	return n
}

func (f *fake) probe(ctx context.Context, t *testing.T, only ...string) Table {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	endpoint := Endpoint{
		URL: server.URL, Key: awsauth.Key{AccessKey: "a", SecretKey: "b", Region: "r"}, Client: &http.Client{},
	}
	return Probe(ctx, endpoint, Options{Patience: 300 * time.Millisecond, Only: only})
}

type answer = func(func(string) string) (int, string)

// good answers with a document that holds so much inside.
func good(action, inside string) answer {
	return func(func(string) string) (int, string) {
		return http.StatusOK, "<" + action + "Response>" + inside + "</" + action + "Response>"
	}
}

// bad answers with an error.
func bad(code string) answer {
	return func(func(string) string) (int, string) {
		return http.StatusBadRequest, string(wire.Errorf(code, "no").Document("id"))
	}
}

// Of each verdict there is an endpoint that gets it.
func TestVerdicts(t *testing.T) {
	const imported = `<keyPairId>key-1</keyPairId>`
	const told = `<keySet><item><keyPairId>key-1</keyPairId><keyName>%s</keyName><keyFingerprint>f</keyFingerprint>` +
		`<keyType>rsa</keyType><tagSet><item><key>Name</key><value>%[1]s</value></item></tagSet></item></keySet>`
	describe := func(form func(string) string) (int, string) {
		return good("DescribeKeyPairs", fmt.Sprintf(told, form("KeyName.1")))(form)
	}
	for name, c := range map[string]struct {
		create, describe answer
		part, want       string
	}{
		"works":        {good("ImportKeyPair", imported), describe, "read", "works"},
		"works before": {good("ImportKeyPair", imported), describe, "create", "works"},
		"stub": {
			good("ImportKeyPair", imported), good("DescribeKeyPairs", "<keySet/>"),
			"read", "stub: DescribeKeyPairs: nothing is found of what was made",
		},
		"stub of a name": {
			good("ImportKeyPair", imported), good("DescribeKeyPairs", fmt.Sprintf(told, "other")),
			"read", `stub: DescribeKeyPairs: KeyName is "other", and should be "hive-test-probe-`,
		},
		"wrong shape": {
			good("ImportKeyPair", "<keyName>x</keyName>"), describe,
			"create", "wrong shape: ImportKeyPair: the answer has no KeyPairId",
		},
		"another document": {
			good("Import", imported), describe, "create", "wrong shape: ImportKeyPair: ",
		},
		"no XML": {
			func(func(string) string) (int, string) { return 200, "hello" }, describe,
			"create", "wrong shape: ImportKeyPair: ",
		},
		"missing":       {nil, describe, "create", "missing: ImportKeyPair: InvalidAction"},
		"fails":         {bad("InvalidKey.Format"), describe, "create", "fails: ImportKeyPair: 400 InvalidKey.Format: no"},
		"blocked":       {nil, describe, "read", "blocked"},
		"fails to tell": {good("ImportKeyPair", imported), bad("Unavailable"), "read", "fails: DescribeKeyPairs: 400 Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{answers: map[string]answer{"DescribeKeyPairs": c.describe}}
			if c.create != nil {
				f.answers["ImportKeyPair"] = c.create
			}
			table := f.probe(t.Context(), t, "aws_key_pair")
			cell := table.cell("aws_key_pair", c.part)
			if cell == nil || !strings.HasPrefix(cell.String(), c.want) {
				t.Errorf("%s is %v, want %s", c.part, cell, c.want)
			}
			if table.Works() {
				t.Error("what does not all work is told to")
			}
		})
	}
}

// A probe that is interrupted deletes what it has made.
func TestInterruptedProbeDeletes(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := &fake{answers: map[string]answer{}}
	f.answers["ImportKeyPair"] = func(form func(string) string) (int, string) {
		return good("ImportKeyPair", "<keyPairId>key-1</keyPairId>")(form)
	}
	f.answers["DescribeKeyPairs"] = func(form func(string) string) (int, string) {
		interrupt()
		return bad("InvalidKeyPair.NotFound")(form)
	}
	f.answers["DeleteKeyPair"] = good("DeleteKeyPair", "<return>true</return>")
	table := f.probe(ctx, t, "aws_key_pair", "aws_vpc")
	if f.count("DeleteKeyPair") != 1 {
		t.Errorf("what was made is not deleted: %v", f.asked)
	}
	if cell := table.cell("aws_key_pair", "delete"); cell == nil || cell.Verdict != Works {
		t.Errorf("delete: %v", cell)
	}
	if f.count("CreateVpc") > 0 && table.cell("aws_vpc", "create").Verdict == Works {
		t.Error("more is made after the interrupt")
	}
}

// What an endpoint tells in odd ways ends no probe.
func TestOddAnswers(t *testing.T) {
	f := &fake{answers: map[string]answer{
		"DescribeImages":        good("DescribeImages", "<imagesSet><item><imageId/><name/><creationDate/><imageState/><rootDeviceName/></item></imagesSet>"),
		"DescribeInstanceTypes": good("DescribeInstanceTypes", "<instanceTypeSet><item><instanceType/></item></instanceTypeSet>"),
		"ImportKeyPair":         func(func(string) string) (int, string) { return 503, "<html>busy</html>" },
	}}
	table := f.probe(t.Context(), t)
	if table.Works() || len(table.Rows) != len(resources()) {
		t.Errorf("%d rows", len(table.Rows))
	}
}

func TestEndpointOf(t *testing.T) {
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
	with := func(pairs ...string) map[string]string {
		env := map[string]string{}
		for name, v := range keys {
			env[name] = v
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
		}
		return env
	}
	for name, c := range map[string]struct {
		address string
		env     map[string]string
		want    string // URL, region, key; or the error
	}{
		"an address":          {"http://127.0.0.1:1", with(), "http://127.0.0.1:1 ap-southeast-2 id"},
		"of the environment":  {"", with("AWS_ENDPOINT_URL", "https://a:1"), "https://a:1 ap-southeast-2 id"},
		"EC2's goes before":   {"", with("AWS_ENDPOINT_URL", "https://a", "AWS_ENDPOINT_URL_EC2", "https://b"), "https://b ap-southeast-2 id"},
		"the address is more": {"http://c", with("AWS_ENDPOINT_URL", "https://a"), "http://c ap-southeast-2 id"},
		"a region":            {"http://c", with("AWS_REGION", "eu-west-1", "AWS_DEFAULT_REGION", "x"), "http://c eu-west-1 id"},
		"a default region":    {"http://c", with("AWS_DEFAULT_REGION", "us-east-1"), "http://c us-east-1 id"},
		"none":                {"", with(), "no endpoint is named"},
		"no URL":              {"10.0.0.1:9999", with(), "is no address of an endpoint"},
		"another scheme":      {"ftp://a", with(), "is no address of an endpoint"},
		"no keys":             {"http://c", map[string]string{}, "there are no keys"},
		"half a key":          {"http://c", map[string]string{"AWS_ACCESS_KEY_ID": "id"}, "there are no keys"},
		"a file of keys that is not there": {
			"http://c", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "/nowhere/x"}, "no such file",
		},
		"a CA that is not there": {"https://c", with("AWS_CA_BUNDLE", "/nowhere/ca"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := EndpointOf(c.address, func(name string) string { return c.env[name] })
			got := e.URL + " " + e.Key.Region + " " + e.Key.AccessKey
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("an error tells the secret: %v", err)
			}
		})
	}
}
