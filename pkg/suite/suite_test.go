package suite

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const accessKey, secretKey, region = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+secret", "ap-southeast-2"

// gateway is a node's gateway that checks signatures. answer, where set, replaces the answer to a well-signed action.
type gateway struct {
	answer map[string]string
	skew   time.Duration
	stall  bool          // no answer until the client gives up
	late   *atomic.Int32 // how many calls get none before the others do; nil: none
}

func (g gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.stall || g.late != nil && g.late.Add(-1) >= 0 {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the client's end noticed
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // else an empty answer is sent, and may be in time
	}
	w.Header().Set("Date", time.Now().Add(g.skew).UTC().Format(http.TimeFormat))
	body, _ := io.ReadAll(r.Body)
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(
			w,
			`<?xml version="1.0"?><Response><Errors><Error><Code>%s</Code><Message></Message></Error></Errors><RequestID>1</RequestID></Response>`,
			code,
		)
	}
	switch {
	case r.Header.Get("Authorization") == "":
		refuse(http.StatusForbidden, "MissingAuthenticationToken")
		return
	case r.Header.Get("Authorization") != expectedSignature(r, body) || g.skew.Abs() > 5*time.Minute:
		refuse(http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(string(body), "&") {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	action := values["Action"]
	if text, ok := g.answer[action]; ok {
		_, _ = io.WriteString(w, text)
		return
	}
	inner := map[string]string{
		"DescribeRegions":       "<regionInfo><item><regionName>" + region + "</regionName></item></regionInfo>",
		"DescribeInstanceTypes": "<instanceTypeSet><item><instanceType>t3.micro</instanceType></item></instanceTypeSet>",
		"DescribeInstances":     "",
	}
	text, ok := inner[action]
	if !ok {
		refuse(http.StatusBadRequest, "InvalidAction")
		return
	}
	fmt.Fprintf(w, "<%sResponse>%s</%sResponse>", action, text, action)
}

// expectedSignature signs the same request again.
func expectedSignature(r *http.Request, body []byte) string {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return "no date"
	}
	again, _ := http.NewRequest(r.Method, "https://"+r.Host+r.URL.String(), strings.NewReader(string(body)))
	again.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	sum := sha256.Sum256(body)
	_ = v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{
		AccessKeyID: accessKey, SecretAccessKey: secretKey,
	},
		again, hex.EncodeToString(sum[:]), "ec2", region, at)
	return again.Header.Get("Authorization")
}

// serve starts one gateway per handler on 127.0.0.1, 127.0.0.2, ... and one port, and returns options for them.
func serve(t *testing.T, handlers ...http.Handler) Options {
	t.Helper()
	o := Options{
		ArtifactsDir: filepath.Join(t.TempDir(), "suites"),
		Inherit: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AWS_PROFILE=mine", "AWS_ENDPOINT_URL_S3=http://x",
		},
		Grace: 300 * time.Millisecond, RequestTimeout: 5 * time.Second,
		Credentials: Credentials{AccessKey: accessKey, SecretKey: secretKey, Region: region},
	}
	for i, h := range handlers {
		address := "127.0.0." + strconv.Itoa(i+1)
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(o.GatewayPort)))
		if err != nil {
			t.Skipf("%s:%d cannot be listened on here: %v", address, o.GatewayPort, err)
		}
		o.GatewayPort = l.Addr().(*net.TCPAddr).Port
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, &o)}}
		s.Config.ErrorLog = quiet()
		s.StartTLS()
		t.Cleanup(s.Close)
		o.Nodes = append(o.Nodes, cluster.Node{
			Name: cluster.Name("ci").Node(i + 1), Index: i + 1, Management: netip.MustParseAddr(address),
		})
	}
	return o
}

func wellKnown(o Options) func(context.Context) []NodeHealth {
	return func(context.Context) []NodeHealth {
		var all []NodeHealth
		for _, n := range o.Nodes {
			all = append(all, NodeHealth{Node: n.Name})
		}
		return all
	}
}

// outcome is cases as lines: "passed name".
func outcome(s SuiteResult) []string {
	var lines []string
	for _, c := range s.Cases {
		lines = append(lines, string(c.Status)+" "+c.Name)
	}
	return lines
}

func eventCases(m *progress.Memory) map[string]bool {
	lines := map[string]bool{}
	for _, e := range m.Events() {
		if e.Kind == progress.Case {
			lines[string(e.Status)+" "+e.Name] = true
		}
	}
	return lines
}

func TestSmokePasses(t *testing.T) {
	o := serve(t, gateway{}, gateway{})
	o.Health = wellKnown(o)
	events := &progress.Memory{}
	o.Sink = events
	results, err := Run(t.Context(), o)
	if err != nil || results.Failed() || len(results.Suites) != 1 || results.Suites[0].Name != Smoke {
		t.Fatalf("got %+v, %v", results, err)
	}
	want := []string{
		"passed health/ci-1", "passed health/ci-2", "passed peers/ci-1", "passed peers/ci-2",
		"passed gateway/ci-1", "passed gateway/ci-2", "passed regions/ci-1", "passed regions/ci-2",
		"passed instance-types/ci-1", "passed instance-types/ci-2", "passed instances/ci-1", "passed instances/ci-2",
	}
	if diff := cmp.Diff(want, outcome(results.Suites[0])); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	told := eventCases(events)
	for _, line := range want {
		if !told[line] {
			t.Errorf("no event %q", line)
		}
	}
}

func TestSmokeFindsWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	type wrong struct {
		name    string
		gateway gateway
		change  func(*Options)
		want    map[string]string // case → part of its error; all others pass
	}
	for _, c := range []wrong{
		{"health", gateway{}, func(o *Options) {
			o.Health = func(context.Context) []NodeHealth {
				return []NodeHealth{{
					Node: "ci-1", Health: errors.New("status is starting"), Peers: errors.New("sees 0 of 2"),
				}}
			}
		}, map[string]string{"health/ci-1": "status is starting", "peers/ci-1": "sees 0 of 2"}},
		{"unknown node", gateway{}, func(o *Options) {
			o.Health = func(context.Context) []NodeHealth { return nil }
		}, map[string]string{"health/ci-1": "nothing is known", "peers/ci-1": "nothing is known"}},
		{"secret", gateway{}, func(o *Options) { o.Credentials.SecretKey = "wrong-secret" }, map[string]string{
			"regions/ci-1":        "DescribeRegions: the gateway answered 403 SignatureDoesNotMatch",
			"instance-types/ci-1": "SignatureDoesNotMatch", "instances/ci-1": "SignatureDoesNotMatch",
		}},
		{"clock", gateway{skew: 6*time.Minute + 30*time.Second}, nil, map[string]string{
			"regions/ci-1": "clock skew 6m", "instance-types/ci-1": "clock skew", "instances/ci-1": "clock skew",
		}},
		{"nothing listed", gateway{answer: map[string]string{
			"DescribeRegions":       "<DescribeRegionsResponse></DescribeRegionsResponse>",
			"DescribeInstanceTypes": "<DescribeInstanceTypesResponse/>",
			"DescribeInstances":     "<Wrong/>",
		}}, nil, map[string]string{
			"regions/ci-1": "lists no region", "instance-types/ci-1": "lists no instance type",
			"instances/ci-1": "not the expected XML",
		}},
		{"not XML", gateway{answer: map[string]string{"DescribeRegions": "hello\x00\x1b[31m"}}, nil, map[string]string{
			"regions/ci-1": `: "hello\x00\x1b[31m"`,
		}},
		{"CA", gateway{}, func(o *Options) { _ = certificate(t, o); o.Credentials.CAPEM = otherCA(t) }, map[string]string{
			"gateway/ci-1": "certificate", "regions/ci-1": "certificate", "instance-types/ci-1": "certificate",
			"instances/ci-1": "certificate",
		}},
		{"stalled", gateway{stall: true}, func(o *Options) { o.RequestTimeout = 500 * time.Millisecond }, map[string]string{
			"gateway/ci-1": "no answer within 500ms", "regions/ci-1": "not asked: gateway/ci-1 had no answer",
			"instance-types/ci-1": "not asked", "instances/ci-1": "not asked",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := serve(t, c.gateway)
			o.Health = wellKnown(o)
			if c.change != nil {
				c.change(&o)
			}
			results, err := Run(t.Context(), o)
			if err != nil || !results.Failed() {
				t.Fatalf("got %+v, %v", results, err)
			}
			for _, k := range results.Suites[0].Cases {
				part, wrong := c.want[k.Name]
				if k.Failed() != wrong || !strings.Contains(k.Error, part) {
					t.Errorf("%s: %s %q, want an error with %q", k.Name, k.Status, k.Error, part)
				}
			}
		})
	}
}

// A gateway that is late once is slow, and not broken.
func TestSmokeAsksAgain(t *testing.T) {
	var late atomic.Int32
	late.Store(1)
	o := serve(t, gateway{late: &late})
	o.Health, o.RequestTimeout = wellKnown(o), 2*time.Second
	results, err := Run(t.Context(), o)
	if err != nil || results.Failed() || late.Load() >= 0 {
		t.Errorf("got %+v, %v", results, err)
	}
}

// A node that is known to be unreachable is not waited for: what it is asked ends with the reason, and the others are asked
// as ever.
func TestSmokeDoesNotWaitForUnreachableNodes(t *testing.T) {
	o := serve(t, gateway{}, gateway{stall: true})
	o.RequestTimeout = time.Hour
	o.Health = func(context.Context) []NodeHealth {
		gone := errors.New("its VM is stopped")
		return []NodeHealth{{Node: "ci-1"}, {Node: "ci-2", Health: gone, Peers: gone, Unreachable: gone}}
	}
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"health/ci-2": "its VM is stopped", "peers/ci-2": "its VM is stopped",
		"gateway/ci-2": "the node is unreachable: its VM is stopped", "regions/ci-2": "not asked: gateway/ci-2 had no answer",
		"instance-types/ci-2": "not asked: gateway/ci-2 had no answer", "instances/ci-2": "not asked: gateway/ci-2 had no answer",
	}
	for _, c := range results.Suites[0].Cases {
		if c.Error != want[c.Name] || c.Failed() != (want[c.Name] != "") {
			t.Errorf("%s: %s %q, want %q", c.Name, c.Status, c.Error, want[c.Name])
		}
	}
}

func TestSmokeWithoutCredentials(t *testing.T) {
	o := serve(t, gateway{})
	for _, change := range []func(*Options){
		func(o *Options) { o.Credentials.SecretKey = "" }, func(o *Options) { o.Credentials.CAPEM = "" },
	} {
		o := o
		change(&o)
		results, err := Run(t.Context(), o)
		if err != nil || !results.Failed() ||
			!strings.Contains(results.Suites[0].Cases[0].Error, "configure it first") {
			t.Errorf("got %+v, %v", results, err)
		}
	}
}

func TestUnsignedCallThatIsAnswered(t *testing.T) {
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<x/>") }))
	results, _ := Run(t.Context(), o)
	if e := results.Suites[0].Cases[0].Error; !strings.Contains(e, "answered a call without signature") {
		t.Errorf("got %q", e)
	}
}

func TestNoCaseRunIsFailed(t *testing.T) {
	if !(Results{}).Failed() {
		t.Error("no suite passed")
	}
	if !(Results{Suites: []SuiteResult{{Cases: []Case{{Status: progress.Skipped}}}}}).Failed() {
		t.Error("a skipped case alone passed")
	}
	if (Results{Suites: []SuiteResult{{Cases: []Case{
		{Status: progress.Passed}, {Status: progress.Skipped},
	}}}}).Failed() {
		t.Error("a passed case failed")
	}
}

func TestPlans(t *testing.T) {
	got, err := withNames(commands(
		"smoke", "A=b ./tests/e2e.sh --fast", "./other/e2e.sh", "smoke", "$(x) $Y", "go test ./...",
	))
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	want := []string{"smoke", "e2e.sh", "e2e.sh-2", "smoke-2", "x", "go"}
	if diff := cmp.Diff(want, names); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	all, err := withNames([]Spec{{Command: "./e2e"}, {Name: "e2e", Command: "x"}, {Command: "./e2e"}})
	if err != nil || all[0].Name != "e2e-2" || all[1].Name != "e2e" || all[2].Name != "e2e-3" {
		t.Errorf("what the user has named has another name: %+v %v", all, err)
	}
	if _, err := withNames(commands(" ")); err == nil {
		t.Error("an empty suite was taken")
	}
}

func pemOf(cert []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func TestNamesOfSuites(t *testing.T) {
	for command, want := range map[string]string{
		"./tests/run-vpc-e2e.sh":                    "run-vpc-e2e.sh",
		"timeout 60 ./run.sh 1 2":                   "run.sh",
		"timeout -k 5 --signal=INT 1m ./run.sh":     "run.sh",
		"env -u Y X=1 Z=2 ./cmd":                    "cmd",
		"A=1 sudo -n -u root nice -n 5 ./deep --x":  "deep",
		"nice -5 ./run":                             "run",
		"bash -eu tests/script.sh a":                "script.sh",
		"bash -o pipefail script.sh":                "script.sh",
		"sh blab.sh":                                "blab.sh",
		"bash -c 'echo hi'":                         "bash",
		"bash -ec 'echo hi'":                        "bash",
		"time -p make test":                         "make",
		"cd ../hive && timeout 5m tests/e2e/run.sh": "run.sh",
		"cd x; ./y":                                 "y",
		"/usr/bin/timeout -- 60 /opt/x/run":         "run",
		"timeout":                                   "timeout",
		"sudo env":                                  "env",
		"X=1":                                       "suite",
		"exec ../../":                               "suite",
		"echo one; exit 1":                          "echo",
	} {
		if got := commandName(command); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
}
