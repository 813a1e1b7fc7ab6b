package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// external are options for suites that need no gateway.
// commands are suites that are such command lines.
func commands(lines ...string) []Spec {
	specs := make([]Spec, len(lines))
	for i, line := range lines {
		specs[i].Command = line
	}
	return specs
}

func external(t *testing.T, lines ...string) (Options, *progress.Memory) {
	t.Helper()
	events := &progress.Memory{}
	return Options{
		Suites: commands(lines...), ArtifactsDir: filepath.Join(t.TempDir(), "suites"), Dir: t.TempDir(), Sink: events,
		Inherit: []string{
			"PATH=" + os.Getenv("PATH"), "AWS_PROFILE=mine", "AWS_ENDPOINT_URL_IAM=http://x", "LC_ALL=C",
			"PROXMOX_VE_API_TOKEN=u@pve!t=s3cr3t", "MINE=yes",
		},
		Grace: time.Second,
		Nodes: cluster.Nodes{
			{Name: "ci-1", Index: 1, Management: netip.MustParseAddr("192.0.2.1")},
			{Name: "ci-2", Index: 2, Management: netip.MustParseAddr("192.0.2.2")},
		},
		Credentials: Credentials{
			AccessKey: accessKey, SecretKey: secretKey, Region: region, CAPEM: otherCA(t), Profile: "spinifex",
		},
		PrivateDir: filepath.Join(t.TempDir(), "private"),
	}, events
}

func output(m *progress.Memory) []string {
	var lines []string
	for _, e := range m.Events() {
		if e.Kind == progress.Output {
			lines = append(lines, e.Message)
		}
	}
	return lines
}

func warnings(m *progress.Memory) []string {
	var lines []string
	for _, e := range m.Events() {
		if e.Kind == progress.Warning {
			lines = append(lines, e.Message)
		}
	}
	return lines
}

func TestExternalOutcome(t *testing.T) {
	for _, c := range []struct {
		name, command string
		code          int
		signal        string
		cases         []string
		message       string
	}{
		{"passes", "true", 0, "", []string{"passed true"}, ""},
		{"fails", "echo one; echo why >&2; exit 3", 3, "", []string{"failed echo"}, "exited with 3: one | why"},
		{"is killed", "echo begun; kill -KILL $$", 137, "KILL", []string{"failed echo"}, "ended by signal KILL: begun"},
		{"does not exist", "./missing", 127, "", []string{"failed missing"}, "exited with 127"},
		{"JUnit", `cat > $ARTIFACTS/r.xml <<'X'
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="s"><testcase classname="a" name="ok" time="1,000.5"/>
<testsuite><testcase name="bad"><failure message="boom">at line 3</failure></testcase></testsuite>
<testcase name="worse"><error>crash</error></testcase><testcase name="not"><skipped/></testcase></testsuite></testsuites>
X
exit 1`, 1, "", []string{"passed a.ok", "failed bad", "failed worse", "skipped not"}, "boom\nat line 3"},
		{
			"JUnit passes, command fails",
			`mkdir $ARTIFACTS/x; echo '<testsuite><testcase name="ok"/></testsuite>' > $ARTIFACTS/x/r.xml; exit 1`,
			1, "",
			[]string{"passed ok", "failed mkdir"},
			"exited with 1",
		},
		{
			"JUnit fails, command passes",
			`echo '<testsuite><testcase name="bad"><failure/></testcase></testsuite>' > $ARTIFACTS/r.xml`,
			0, "",
			[]string{"failed bad"},
			"failed",
		},
		{"no cases in JUnit", `echo '<testsuites/>' > $ARTIFACTS/r.xml`, 0, "", []string{"failed echo"}, "no test ran"},
		{"other XML", `echo '<project><testcase name="x"/></project>' > $ARTIFACTS/pom.xml`, 0, "", []string{"passed echo"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, events := external(t, c.command)
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			s := results.Suites[0]
			if diff := cmp.Diff(c.cases, outcome(s)); diff != "" {
				t.Errorf("cases (-want +got):\n%s", diff)
			}
			if s.ExitCode != c.code || s.Signal != c.signal || results.Failed() != (c.message != "") {
				t.Errorf("got %+v, failed %v", s, results.Failed())
			}
			var messages []string
			for _, k := range s.Cases {
				messages = append(messages, k.Error)
			}
			if all := strings.Join(messages, "\n"); !strings.Contains(all, c.message) {
				t.Errorf("the errors %q do not say %q", all, c.message)
			}
			if w := warnings(events); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestCasesThatFailKeepWhatTheyPrinted(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		want    map[string]string
	}{
		"a command": {
			"echo a loud suite; exit 1", map[string]string{"echo": "a loud suite"},
		},
		"a command that passes": {"echo a loud suite", map[string]string{"echo": ""}},
		"the end of much": {
			"yes 'line 1' | head -n 2000; echo last; exit 1",
			map[string]string{"yes": strings.Repeat("line 1\n", (caseOutput-len("last\n"))/len("line 1\n")) + "last"},
		},
		"JUnit": {
			`echo '<testsuite><testcase name="ok"><system-out>fine</system-out></testcase><testcase name="bad"><failure/>` +
				`<system-out>asked</system-out><system-err>refused</system-err></testcase></testsuite>' >$ARTIFACTS/r.xml`,
			map[string]string{"ok": "", "bad": "asked\nrefused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, events := external(t, c.command)
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			kept, told := map[string]string{}, map[string]string{}
			for _, c := range results.Suites[0].Cases {
				kept[c.Name] = c.Output
			}
			for _, e := range events.Events() {
				if e.Kind == progress.Case {
					told[e.Name] = e.Output
				}
			}
			if diff := cmp.Diff(c.want, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJUnitSeconds(t *testing.T) {
	told, err := decodeJUnit([]byte(
		`<testsuite><testcase name="a" time="1,000.5"/><testcase name="b" time="NaN"/><testcase/></testsuite>`,
	))
	want := []Case{
		{Name: "a", Status: progress.Passed, Seconds: 1000.5},
		{Name: "b", Status: progress.Passed},
		{Name: "unnamed", Status: progress.Passed},
	}
	if diff := cmp.Diff(want, told.cases, shown()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A file that counts more tests than it holds may be cut short by whoever wrote it, and may count assertions: it is told
// of, once.
func TestCountersAboveTheCasesOfJUnit(t *testing.T) {
	for xml, want := range map[string][]string{
		`<testsuites tests="3"><testsuite name="s" tests="3"><testcase name="a"/><testcase name="b"/></testsuite></testsuites>`: {
			`suite "s" says tests="3", and it holds 2 cases`,
		},
		`<testsuites tests="2"><testsuite tests="1"><testcase name="a"/></testsuite></testsuites>`: {
			`suite "" says tests="2", and it holds 1 case`,
		},
		`<testsuite tests="1"><testcase name="a"/><testcase name="b"/></testsuite>`: nil,
		`<testsuite tests="many"><testcase name="a"/></testsuite>`:                  nil,
	} {
		told, err := decodeJUnit([]byte(xml))
		if diff := cmp.Diff(want, told.doubts); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", xml, err, diff)
		}
	}
}

// Whatever writes JUnit has its own way to say that something failed, or was not run.
func TestWhatMeansFailureInJUnit(t *testing.T) {
	for name, c := range map[string]struct {
		xml  string
		want []string
	}{
		"error of a suite": {
			`<testsuites><testsuite name="s"><error message="no database"/></testsuite></testsuites>`,
			[]string{"failed suite s: no database"},
		},
		"failure of all suites": {
			`<testsuites><failure>x</failure><testsuite><testcase name="a"/></testsuite></testsuites>`,
			[]string{"failed suite: x", "passed a"},
		},
		"failures above the cases": {
			`<testsuites failures="1"><testsuite name="s" failures="1"><testcase name="a"/></testsuite></testsuites>`,
			[]string{"passed a", `failed suite s: it says failures="1", and none of its cases shows it`},
		},
		"errors above all": {
			`<testsuites errors=" 2 "><testsuite><testcase name="a"/></testsuite></testsuites>`,
			[]string{"passed a", `failed suite: it says errors=" 2 ", and none of its cases shows it`},
		},
		"errors of another suite": {
			`<testsuites><testsuite><testcase name="a"><failure/></testcase></testsuite><testsuite errors="1" name="t"/></testsuites>`,
			[]string{"failed a: failed", `failed suite t: it says errors="1", and none of its cases shows it`},
		},
		"failures that cases show": {
			`<testsuites failures="1" errors="1"><testsuite failures="1"><testcase name="a"><failure>x</failure></testcase></testsuite></testsuites>`,
			[]string{"failed a: x"},
		},
		"no failures": {
			`<testsuites failures="0" errors=""><testsuite errors="0" failures="none"><testcase name="a"/></testsuite></testsuites>`,
			[]string{"passed a"},
		},
		"status of a suite": {
			`<testsuite name="s" status="FAILED"><testcase name="a"/></testsuite>`,
			[]string{"passed a", `failed suite s: it says status="FAILED", and none of its cases shows it`},
		},
		"status": {
			`<testsuite><testcase name="a" status="failed"/><testcase name="b" status="Error"/><testcase name="c" status="run"/></testsuite>`,
			[]string{"failed a: its status is failed", "failed b: its status is Error", "passed c"},
		},
		"result": {
			`<testsuite><testcase name="a" status="run" result="failed"/><testcase name="b" status="run" result="completed"/></testsuite>`,
			[]string{"failed a: its status is run failed", "passed b"},
		},
		"run again in vain": {
			`<testsuite><testcase name="a"><rerunFailure message="late">x</rerunFailure></testcase><testcase name="b"><rerunError/></testcase></testsuite>`,
			[]string{"failed a: late\nx", "failed b: failed"},
		},
		"run again and passed": {
			`<testsuite flakes="1"><testcase name="a"><flakyFailure message="late"/></testcase></testsuite>`,
			[]string{"flaky a: late"},
		},
		"GoogleTest's skips": {
			`<testsuites><testsuite><testcase name="a" status="notrun" result="suppressed"/><testcase name="b" status="run" result="skipped"/></testsuite></testsuites>`,
			[]string{"skipped a", "skipped b"},
		},
		"a skip that failed": {
			`<testsuite><testcase name="a" status="notrun"><skipped/><error>x</error></testcase></testsuite>`,
			[]string{"failed a: x"},
		},
		"two failures of one case": {
			`<testsuite><testcase name="a"><failure>one</failure><failure>two</failure></testcase></testsuite>`,
			[]string{"failed a: one"},
		},
		"Latin-1 that says so": {
			`<?xml version="1.0" encoding="ISO-8859-1"?><testsuite><testcase name="caf` + "\xe9" + `"><failure/></testcase></testsuite>`,
			[]string{"failed café: failed"},
		},
		"Cyrillic": {
			`<?xml version='1.0' encoding = 'windows-1251'?><testsuite><testcase name="` + "\xf2\xe5\xf1\xf2" + `"/></testsuite>`,
			[]string{"passed тест"},
		},
		"UTF-16 that says so": {
			utf16Text(
				`<?xml version="1.0" encoding="UTF-16"?><testsuite><testcase name="é"><failure/></testcase></testsuite>`,
				binary.LittleEndian, true,
			),
			[]string{"failed é: failed"},
		},
		"UTF-16 without a mark": {
			utf16Text(
				`<?xml version="1.0" encoding="utf-16"?><testsuite><testcase name="é"/></testsuite>`, binary.BigEndian,
				false,
			),
			[]string{"passed é"},
		},
		"UTF-8 by the name of UTF-16": {
			`<?xml version="1.0" encoding="utf-16"?><testsuite><testcase name="é"/></testsuite>`, []string{"passed é"},
		},
		"UTF-8 with a mark": {
			"\ufeff" + `<?xml version="1.0" encoding="utf8"?><testsuite><testcase name="é"/></testsuite>`,
			[]string{"passed é"},
		},
		"text within": {
			"<testsuite>\nout <properties>p</properties><testcase name=\"a\"><system-out>x</system-out></testcase> " +
				"more</testsuite>\n<!-- end -->\n",
			[]string{"passed a"},
		},
		"two documents in one": {
			`<testsuite><testcase name="a"/></testsuite>` + "\n<?xml version=\"1.0\"?>\n" + `<testsuite><testcase name="b"><error/></testcase></testsuite>`,
			[]string{"passed a", "failed b: failed"},
		},
		"another kind of XML": {
			`<project failures="1"><testcase name="a"><failure/></testcase></project>`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			told, err := decodeJUnit([]byte(c.xml))
			var got []string
			for _, c := range told.cases {
				got = append(got, strings.TrimSuffix(string(c.Status)+" "+c.Name+": "+c.Error, ": "))
			}
			if diff := cmp.Diff(c.want, got, shown()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func utf16Text(text string, order binary.AppendByteOrder, mark bool) string {
	units := utf16.Encode([]rune(text))
	if mark {
		units = append([]uint16{0xfeff}, units...)
	}
	var raw []byte
	for _, unit := range units {
		raw = order.AppendUint16(raw, unit)
	}
	return string(raw)
}

func TestUnreadableJUnitFails(t *testing.T) {
	const head = "<testsuite>\n<testcase name=\"ok\"/>\n"
	for name, c := range map[string]struct{ text, want string }{
		"cut off":           {head + `<testcase name="cut`, "line 3, byte 54: unexpected EOF"},
		"cut off in a case": {head + `<testcase name="a"><failure>`, "line 3, byte 63: unexpected EOF"},
		"empty":             {``, "line 1, byte 1: there is no element in it"},
		"a declaration":     {`<?xml version="1.0"?>` + "\n", "line 2, byte 23: there is no element in it"},
		"not XML":           {`hello`, "line 1, byte 1: there is text outside of the results"},
		"text after": {
			head + "</testsuite>\n\n  panic: lost\n", "line 5, byte 51: there is text outside of the results",
		},
		"text before": {
			"\nwarning: old\n" + head + "</testsuite>", "line 2, byte 2: there is text outside of the results",
		},
		"text in between": {
			head + "</testsuite>\n0\n<testsuite/>", "line 4, byte 48: there is text outside of the results",
		},
		"text as CDATA": {
			head + "</testsuite><![CDATA[x]]>", "line 3, byte 47: there is text outside of the results",
		},
		"a page after": {
			head + "</testsuite><html>502</html>", "line 3, byte 47: there is an element <html> outside of the results",
		},
		"a zero": {head + "\x00</testsuite>", "line 3, byte 35: the character U+0000 is not allowed"},
		"a raw ESC": {
			head + "<testcase name=\"a\"><failure>\x1b[31mlost</failure></testcase></testsuite>",
			"line 3, byte 63: the character U+001B is not allowed",
		},
		"Latin-1": {
			head + "<testcase name=\"caf\xe9\"/></testsuite>",
			"line 3, byte 54: the byte 0xe9 is not UTF-8, and no other encoding is declared",
		},
		"Latin-1 as UTF-8": {
			`<?xml version="1.0" encoding="utf8"?><testsuite name="` + "\xe9" + `"/>`,
			"line 1, byte 55: the byte 0xe9 is not UTF-8",
		},
		"UTF-16": {
			utf16Text(head+"</testsuite>", binary.LittleEndian, true),
			"line 1, byte 1: it is UTF-16, and does not declare",
		},
		"UTF-16, no mark": {
			utf16Text(head+"</testsuite>", binary.BigEndian, false),
			"line 1, byte 1: it is UTF-16, and does not declare",
		},
		"UTF-16 as UTF-8": {
			utf16Text(`<?xml version="1.0" encoding="UTF-8"?><testsuite/>`, binary.LittleEndian, true),
			`it is UTF-16, and declares the encoding "UTF-8"`,
		},
		"cut off Latin-1": {
			"<?xml version=\"1.0\" encoding=\"latin1\"?>\n<testsuite name=\"\xe9\xe9\">",
			"line 2, byte 64 (in UTF-8): unexpected EOF",
		},
		"no such encoding": {
			`<?xml version="1.0" encoding="x-none"?><testsuite/>`, `the encoding "x-none", which is not known`,
		},
		"XML 1.1":   {`<?xml version="1.1"?><testsuite/>`, `unsupported version "1.1"`},
		"an entity": {head + "<testcase name=\"a&nbsp;b\"/></testsuite>", "line 3, byte 58: invalid character entity &nbsp;"},
		"a bare ampersand": {
			head + "<testcase name=\"a & b\"/></testsuite>", "line 3, byte 54: invalid character entity & ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, events := external(t, `mkdir $ARTIFACTS/deep; cp "$FILE" $ARTIFACTS/deep/r.xml`)
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Environment = map[string]string{"FILE": file}
			results, err := Run(t.Context(), o)
			if err != nil || !results.Failed() {
				t.Errorf("got %+v, %v", results, err)
			}
			last := results.Suites[0].Cases[len(results.Suites[0].Cases)-1]
			if want := "the results in deep/r.xml cannot be read: "; last.Status != progress.Failed ||
				!strings.Contains(last.Error, want) || !strings.Contains(last.Error, c.want) {
				t.Errorf("got %q, want %q and %q", last.Error, want, c.want)
			}
			if w := warnings(events); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

// What a file of results is, and where it is, is the suite's own affair.
func TestWhereJUnitIs(t *testing.T) {
	o, _ := external(t, `echo '<testsuite><testcase name="bad"><failure/></testcase></testsuite>' >results; ln -s "$PWD/results" $ARTIFACTS/r.XML
		ln -s /nowhere $ARTIFACTS/lost.xml; mkdir $ARTIFACTS/dir.xml`)
	results, err := Run(t.Context(), o)
	if diff := cmp.Diff([]string{"failed bad", "failed lost.xml"}, outcome(results.Suites[0])); err != nil ||
		diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestEnvironmentOfExternalSuites(t *testing.T) {
	o, events := external(
		t,
		`test -d "$ARTIFACTS" && grep -q CERTIFICATE "$AWS_CA_BUNDLE" "$SSL_CERT_FILE" && cd "$ARTIFACTS" && env; pwd`,
	)
	o.Environment = map[string]string{"HIVE_SSH_USER": "tf-user", "HIVE_ENDPOINT": "", "HIVE_SSH_KEY": "/k"}
	if results, err := Run(t.Context(), o); err != nil || results.Failed() {
		t.Fatalf("%+v, %v", results, err)
	}
	lines := map[string]bool{}
	for _, line := range output(events) {
		lines[line] = true
	}
	for _, want := range []string{
		"HIVE_ENDPOINT=https://192.0.2.1:9999", "HIVE_NODES=192.0.2.1,192.0.2.2", "HIVE_NODE_NAMES=ci-1,ci-2",
		"HIVE_SSH_USER=tf-user", "HIVE_SSH_KEY=/k", "LC_ALL=C", "ARTIFACTS=" + filepath.Join(o.ArtifactsDir, "test"),
		"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + progress.Redacted,
		"AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region, "AWS_ENDPOINT_URL=https://192.0.2.1:9999",
		"AWS_CA_BUNDLE=" + filepath.Join(o.PrivateDir, "ca.pem"), "AWS_PROFILE=spinifex",
		"AWS_ENDPOINT_URL_S3=https://192.0.2.1:8443", "AWS_CONFIG_FILE=" + filepath.Join(o.PrivateDir, "aws-config"),
		"ENDPOINT=https://192.0.2.1:9999", "DDIL_NODES=192.0.2.1,192.0.2.2", "DDIL_SSH_USER=tf-user", "DDIL_SSH_KEY=/k",
		"SPINIFEX_MODE=multinode", "SPINIFEX_NODE_IPS=192.0.2.1,192.0.2.2",
		"SPINIFEX_AWS_SECRET_ACCESS_KEY=" + progress.Redacted, "SPINIFEX_AWS_REGION=" + region,
	} {
		if !lines[want] {
			t.Errorf("no line %q in %q", want, output(events))
		}
	}
	for line := range lines {
		if line == "AWS_PROFILE=mine" || strings.HasPrefix(line, "AWS_ENDPOINT_URL_IAM") {
			t.Errorf("the caller's %s is passed on", line)
		}
		if strings.HasPrefix(line, "PROXMOX_") || strings.HasPrefix(line, "MINE=") {
			t.Errorf("the caller's %s is passed on", line)
		}
		if strings.HasPrefix(line, "SPINIFEX_NODES=") {
			t.Errorf("spx would take %s for its nodes", line)
		}
	}
}

func TestWhatOfTheCallersEnvironmentIsPassed(t *testing.T) {
	for _, name := range strings.Fields(`PATH HOME USER TMPDIR TERM LANG LC_MESSAGES TZ XDG_RUNTIME_DIR http_proxy HTTPS_PROXY No_Proxy SSH_AUTH_SOCK
		CI GITHUB_RUN_ID GITHUB_STEP_SUMMARY RUNNER_TEMP CI_COMMIT_SHA BUILD_NUMBER JOB_NAME CIRCLECI BUILDKITE_BRANCH GOCACHE GOFLAGS GOPROXY CGO_ENABLED
		AWS_PAGER AWS_MAX_ATTEMPTS HIVE_DEBUG HIVE_SSH_KEY HIVE_TEST_CLUSTERS_DIR SPINIFEX_X DDIL_KEY PYTHONPATH VIRTUAL_ENV NODE_OPTIONS npm_config_cache
		GIT_SSH_COMMAND SSL_CERT_DIR NO_COLOR KUBECONFIG BASH_FUNC_say%%`) {
		if !passed(name) {
			t.Errorf("%s is not passed", name)
		}
	}
	for _, name := range strings.Fields(`PROXMOX_VE_API_TOKEN PROXMOX_VE_PASSWORD PROXMOX_VE_ENDPOINT HIVE_TEST_PROXMOX_TOKEN HIVE_TEST_PROXMOX_TOKEN_FILE
		TF_VAR_proxmox_endpoint TF_VAR_proxmox_api_token PM_API_TOKEN_SECRET PVE_TOKEN TOKEN GITHUB_TOKEN CI_JOB_TOKEN CI_REGISTRY_PASSWORD ACTIONS_RUNTIME_TOKEN
		AWS_CONTAINER_AUTHORIZATION_TOKEN NPM_TOKEN GOOGLE_APPLICATION_CREDENTIALS GOPHER VAULT_TOKEN SECRET XPATH MY_PATH`) {
		if passed(name) {
			t.Errorf("%s is passed", name)
		}
	}
}

func TestVariablesThatAreAdded(t *testing.T) {
	o, events := external(
		t, `echo "$MINE, $OWN, ${NONE-none}, $AWS_PROFILE, $PROXMOX_VE_API_TOKEN"`, `echo "${MINE:-} $LC_ALL $$ $PWD"`,
	)
	o.SuiteEnv = []string{"MINE", "OWN=a=b c", "NONE", "AWS_PROFILE=other", "PROXMOX_VE_API_TOKEN"}
	if results, err := Run(t.Context(), o); err != nil || results.Failed() {
		t.Fatalf("%+v, %v", results, err)
	}
	if diff := cmp.Diff("yes, a=b c, none, other, "+progress.Redacted, output(events)[0]); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if w := warnings(events); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
	o.SuiteEnv, o.Sink = nil, &progress.Memory{}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := []string{"$MINE is set here, and suites do not get it: --suite-env MINE passes it"}
	want = append(want, strings.ReplaceAll(want[0], "MINE", "PROXMOX_VE_API_TOKEN"), want[0])
	if diff := cmp.Diff(want, warnings(o.Sink.(*progress.Memory))); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Suites of hive's name a profile themselves, and add others; the next suite finds the files as they were.
func TestProfilesOfExternalSuites(t *testing.T) {
	look := `set -e; stat -c %a "$AWS_CONFIG_FILE" "$AWS_SHARED_CREDENTIALS_FILE"; cat "$AWS_CONFIG_FILE"
		grep -c '^aws_secret_access_key = ` + secretKey + `$' "$AWS_SHARED_CREDENTIALS_FILE"; echo '[other]' | tee -a "$AWS_CONFIG_FILE" >>"$AWS_SHARED_CREDENTIALS_FILE"`
	o, events := external(t, look, look)
	if results, err := Run(t.Context(), o); err != nil || results.Failed() {
		t.Fatalf("%+v, %v: %q", results, err, output(events))
	}
	for _, dir := range []string{"set", "set-2"} { // nothing is there but what the suite has said
		left, err := os.ReadDir(filepath.Join(o.ArtifactsDir, dir))
		if err != nil || len(left) != 1 || left[0].Name() != "output.log" {
			t.Errorf("in the results: %v, %v", left, err)
		}
	}
	config := func() (lines []string) {
		for _, section := range []string{"[profile hive]", "[profile spinifex]", "[default]"} {
			lines = append(lines, section, "region = "+region, "output = json", "ca_bundle = "+filepath.Join(o.PrivateDir, "ca.pem"),
				"endpoint_url = https://192.0.2.1:9999", "services = hive", "")
		}
		return append(lines, "[services hive]", "s3 =", "  endpoint_url = https://192.0.2.1:8443")
	}
	var want []string
	for range 2 {
		want = append(want, "600", "600")
		want = append(want, config()...)
		want = append(want, "3")
	}
	if diff := cmp.Diff(want, output(events)); diff != "" {
		t.Errorf("what the suites see (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(o.PrivateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the profiles stay: %v", err)
	}
}

func TestOutputIsMaskedAndFitForATerminal(t *testing.T) {
	o, events := external(
		t,
		`printf 'key %s\n\033[31mred\033[0m\n10%%\r50%%\r100%%\r\na\0b\n\377\n' "$AWS_SECRET_ACCESS_KEY"; echo "token t0ken-value" >&2; printf 'last'`,
	)
	o.Secrets = []string{"t0ken-value"}
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"key " + progress.Redacted, "red", "100%", "ab", "\uFFFD", "token " + progress.Redacted, "last"}
	if diff := cmp.Diff(want, output(events)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	log := filepath.Join(o.ArtifactsDir, results.Suites[0].Name, "output.log")
	text, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(text), secretKey) || strings.Contains(string(text), "t0ken") {
		t.Errorf("the log holds %q, %v", text, err)
	}
	if !strings.Contains(string(text), "\x1b[31mred") || !strings.Contains(string(text), "a\x00b") {
		t.Errorf("the log does not hold what was printed: %q", text)
	}
	if info, _ := os.Stat(log); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func TestSecretsInResultsAreMasked(t *testing.T) {
	o, _ := external(t, `echo "$AWS_SECRET_ACCESS_KEY"; echo "<testsuite><testcase name='$AWS_SECRET_ACCESS_KEY'><failure>$AWS_SECRET_ACCESS_KEY</failure></testcase></testsuite>" > $ARTIFACTS/r.xml`,
		`echo "$AWS_SECRET_ACCESS_KEY"; false`)
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range results.Suites {
		for _, c := range s.Cases {
			if strings.Contains(c.Name+c.Error, secretKey) {
				t.Errorf("the case %+v shows the secret", c)
			}
		}
	}
}

func TestStaleArtifactsDoNotCount(t *testing.T) {
	o, _ := external(t, "true")
	stale := filepath.Join(o.ArtifactsDir, "true", "old.xml")
	if err := os.MkdirAll(filepath.Dir(stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, []byte(`<testsuite><testcase name="old"/></testsuite>`), 0o600); err != nil {
		t.Fatal(err)
	}
	results, err := Run(t.Context(), o)
	if diff := cmp.Diff([]string{"passed true"}, outcome(results.Suites[0])); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil { // a zombie is no process any more
		_, after, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(after, "Z")
	}
	return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
}

func pidFrom(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestLeftoversAreKilled(t *testing.T) {
	o, _ := external(t, "sleep 60 & echo $! > pid")
	start := time.Now()
	results, err := Run(t.Context(), o)
	if err != nil || results.Failed() {
		t.Errorf("got %+v, %v", results, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	pid := pidFrom(t, filepath.Join(o.Dir, "pid"))
	for deadline := time.Now().Add(2 * time.Second); alive(pid) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if alive(pid) {
		t.Error("what the suite has left still runs")
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// What has left the suite's group is found by its environment, by the suite's output that it holds, or by what has
// started it.
func TestWhatHasLeftTheGroupIsNamedAndEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, command := range map[string]string{
		"a session of its own":  `setsid sh -c 'echo $$ >pid; exec sleep 60' >/dev/null 2>&1 &`,
		"started by a daemon":   `(setsid sh -c 'sh -c "echo \$\$ >pid; exec sleep 60" & exit 0' >/dev/null 2>&1 &);`,
		"without environment":   `env -i setsid /bin/sh -c 'echo $$ >pid; exec sleep 60' &`,
		"a child of such a one": `setsid sh -c 'env -i /bin/sh -c "echo \$\$ >pid; exec sleep 60" & wait' >/dev/null 2>&1 &`,
		"deaf":                  `setsid sh -c 'trap "" TERM; echo $$ >pid; sleep 60; sleep 60' >/dev/null 2>&1 &`,
	} {
		t.Run(name, func(t *testing.T) {
			o, events := external(t, command+` until [ -s pid ]; do sleep 0.01; done`, `true`)
			results, err := Run(t.Context(), o)
			pid := pidFrom(t, filepath.Join(o.Dir, "pid"))
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			if err != nil || results.Failed() || !alive(pid) {
				t.Errorf("got %+v, %v, alive: %v", results, err, alive(pid))
			}
			w := warnings(events)
			if len(w) != 1 || !strings.HasPrefix(w[0], "it has left running: ") ||
				!strings.Contains(w[0], strconv.Itoa(pid)+" (") ||
				!strings.HasSuffix(w[0], "; --kill-leftovers ends such processes") {
				t.Errorf("warnings %q, want one of %d", w, pid)
			}
			if err := os.Remove(filepath.Join(o.Dir, "pid")); err != nil {
				t.Fatal(err)
			}
			events = &progress.Memory{}
			o.KillLeftovers, o.Sink = true, events
			if results, err = Run(t.Context(), o); err != nil || results.Failed() {
				t.Errorf("got %+v, %v", results, err)
			}
			second := pidFrom(t, filepath.Join(o.Dir, "pid"))
			defer func() { _ = syscall.Kill(second, syscall.SIGKILL) }()
			if w := warnings(events); alive(second) || len(w) != 1 ||
				!strings.HasPrefix(w[0], "it had left running, and that was ended: ") {
				t.Errorf("%d is alive: %v; warnings %q", second, alive(second), w)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name, command string
		signal        string
		line          string
	}{
		{"obeys INT", "echo begun; exec sleep 60", "INT", ""},
		{"cleans up on INT", "trap 'echo cleaned; exit 4' INT; echo begun; sleep 60 & wait", "", "cleaned"},
		{"ignores INT", "trap '' INT; echo begun; sleep 60; sleep 60", "KILL", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, events := external(t, c.command, "echo never")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o.Sink = progress.Multi(events, progress.SinkFunc(func(e progress.Event) {
				if e.Message == "begun" {
					cancel()
				}
			}))
			start := time.Now()
			results, err := Run(ctx, o)
			if !errors.Is(err, context.Canceled) || len(results.Suites) != 1 {
				t.Fatalf("got %+v, %v", results, err)
			}
			s := results.Suites[0]
			if s.Signal != c.signal || !results.Failed() || s.Cases[0].Status != progress.Interrupted {
				t.Errorf("got %+v", s)
			}
			if c.line != "" && !strings.Contains(strings.Join(output(events), "\n"), c.line) {
				t.Errorf("the output %q lacks %q", output(events), c.line)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestCannotRun(t *testing.T) {
	o, _ := external(t, "true", "false")
	o.Dir = "/does/not/exist"
	results, err := Run(t.Context(), o)
	if err != nil || !results.Failed() || len(results.Suites) != 2 ||
		!strings.Contains(results.Suites[0].Cases[0].Error, "/does/not/exist") {
		t.Errorf("got %+v, %v", results, err)
	}
	o, _ = external(t, "true")
	if err := os.WriteFile(o.ArtifactsDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("a file in the place of the directory: no error")
	}
	o.Nodes = nil
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("no nodes: no error")
	}
}

func TestMuchOutputIsToldInFewEvents(t *testing.T) {
	o, events := external(t, `seq -f '%.0f t0ken-value' 300000; seq -f '%.0f' 300001 600000; printf '\nlast'; exit 1`)
	o.Secrets = []string{"t0ken-value"}
	told, hasher := 0, sha256.New()
	o.Sink = progress.Multi(events, progress.SinkFunc(func(e progress.Event) {
		if e.Kind == progress.Output {
			told++
			fmt.Fprintln(hasher, e.Message)
		}
	}))
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := 1; i <= 300_000; i++ {
		fmt.Fprintln(&want, i, progress.Redacted)
	}
	for i := 300_001; i <= 600_000; i++ {
		fmt.Fprintln(&want, i)
	}
	want.WriteString("\nlast")
	s := results.Suites[0]
	text, err := os.ReadFile(filepath.Join(o.ArtifactsDir, s.Name, "output.log"))
	if err != nil || string(text) != want.String() {
		t.Errorf("the log holds %d bytes that are not the %d of the output, %v", len(text), want.Len(), err)
	}
	if sum := sha256.Sum256([]byte(want.String() + "\n")); !bytes.Equal(hasher.Sum(nil), sum[:]) {
		t.Error("what was told is not what was printed, line by line")
	}
	if told > 150_000 { // the first MiB is told line by line
		t.Errorf("%d events tell 600000 lines", told)
	}
	if want := "exited with 1: 599999 | 600000 | last"; s.Cases[0].Error != want {
		t.Errorf("the error is %q, want %q", s.Cases[0].Error, want)
	}
}

func TestSuitesRunUnderBash(t *testing.T) {
	o, events := external(
		t, `IPS=(${HIVE_NODES//,/ }); echo "${IPS[1]} of ${#IPS[@]}"`, `false | true`,
		`yes | head -n 1 >/dev/null || exit 3`,
	)
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"192.0.2.2 of 2"}, output(events)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if codes := []int{
		results.Suites[0].ExitCode, results.Suites[1].ExitCode, results.Suites[2].ExitCode,
	}; codes[0] != 0 ||
		codes[1] != 1 || codes[2] != 3 {
		t.Errorf("exit codes %v: a pipe must fail when one of its commands does", codes)
	}
	if w := warnings(events); len(w) > 0 {
		t.Errorf("warnings %q", w)
	}
}

func TestWithoutBashSuitesRunUnderSh(t *testing.T) {
	o, events := external(t, "echo here")
	o.Inherit = []string{"PATH=" + t.TempDir()}
	results, err := Run(t.Context(), o)
	if err != nil || results.Failed() || len(output(events)) != 1 {
		t.Errorf("%+v, %v, %q", results, err, output(events))
	}
	if w := warnings(events); len(w) != 1 || !strings.Contains(w[0], "no bash") {
		t.Errorf("warnings %q", w)
	}
}

func TestTheLastWordsOfASuiteAreKept(t *testing.T) {
	long := strings.Repeat("x", wordsLimit-10)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"a", "b"}, "a | b"},
		{[]string{long, "the", "cause"}, "… | the | cause"},
		{[]string{"the", "cause", long}, "… | cause | " + long},
	} {
		if got := lastWords(c.lines); got != c.want {
			t.Errorf("%q: got %q", c.lines, got)
		}
	}
}
