package gateway_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// ask makes a call.
func ask(endpoint iac.Endpoint, action string, in wire.Object) (wire.Object, error) {
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		return nil, err
	}
	body := []byte(form.Encode())
	r, err := http.NewRequest(http.MethodPost, endpoint.URL+"/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := endpoint.Key.Sign(r, body, "ec2", time.Now()); err != nil {
		return nil, err
	}
	answer, err := endpoint.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return wire.DecodeXML(action, answer.StatusCode, bytes.NewReader(text), true)
}

// ledger is what was answered: each VPC that was made with the tag that it has last got, until it was deleted.
type ledger struct {
	tags  map[string]string
	doubt map[string]bool // VPCs of which the last request was not answered
	gone  []string
	made  int // requests to make one that were not answered
	count int // of answers
}

// write writes until a request is not answered.
func (l *ledger) write(endpoint iac.Endpoint) {
	for n := 0; ; n++ {
		out, err := ask(endpoint, "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16"})
		if err != nil {
			l.made++
			return
		}
		id := out.Object("Vpc").Text("VpcId")
		l.tags[id] = ""
		l.count++
		for _, value := range []string{"one", "two"} {
			if _, err := ask(endpoint, "CreateTags", wire.Object{
				"Resources": wire.Strings(id), "Tags": wire.List(wire.Object{"Key": "k", "Value": value}),
			}); err != nil {
				l.doubt[id] = true
				return
			}
			l.tags[id] = value
			l.count++
		}
		if n%4 == 0 {
			continue
		}
		if _, err := ask(endpoint, "DeleteVpc", wire.Object{"VpcId": id}); err != nil {
			l.doubt[id] = true
			return
		}
		delete(l.tags, id)
		l.gone = append(l.gone, id)
		l.count++
	}
}

// check proves that a gateway has what was answered, and of what it has, all that comes with it and nothing else.
func (l *ledger) check(t *testing.T, endpoint iac.Endpoint) {
	t.Helper()
	told := map[string]string{}
	for action, list := range map[string]string{
		"DescribeVpcs": "Vpcs", "DescribeRouteTables": "RouteTables", "DescribeSecurityGroups": "SecurityGroups",
		"DescribeNetworkAcls": "NetworkAcls",
	} {
		out, err := ask(endpoint, action, wire.Object{})
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]int{}
		for _, o := range out.Objects(list) {
			of[o.Text("VpcId")]++
			if action == "DescribeVpcs" {
				told[o.Text("VpcId")] = ""
				for _, value := range o.At("Tags.Value") {
					told[o.Text("VpcId")] = value
				}
			}
		}
		for id := range l.tags {
			if of[id] != 1 && !l.doubt[id] {
				t.Errorf("%s tells %d times of VPC %s, which was made", action, of[id], id)
			}
		}
		if more := len(of) - len(l.tags); more > l.made {
			t.Errorf("%s tells of %d VPCs that nobody has asked for", action, more-l.made)
		}
	}
	for id, tag := range l.tags {
		if told[id] != tag && !l.doubt[id] {
			t.Errorf("VPC %s has the tag %q, and was answered to have %q", id, told[id], tag)
		}
	}
	for _, id := range l.gone {
		if _, there := told[id]; there {
			t.Errorf("VPC %s is there, and was answered to be deleted", id)
		}
	}
}

// A gateway that is killed while a client writes has all that it has answered when it is started again.
func TestKilledGatewayKeepsWhatItAnswered(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("takes a minute: make soak runs it")
	}
	const moments = 50
	dir := t.TempDir()
	l := &ledger{tags: map[string]string{}, doubt: map[string]bool{}}
	for range moments {
		endpoint, process := startProcess(t, dir)
		l.check(t, endpoint)
		killed := make(chan error, 1)
		time.AfterFunc(time.Duration(rand.IntN(int(500*time.Millisecond))), func() { killed <- process.Kill() })
		l.write(endpoint)
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		_, _ = process.Wait()
	}
	endpoint, _ := startProcess(t, dir)
	l.check(t, endpoint)
	t.Logf("%d answers, %d kills, %d VPCs left", l.count, moments, len(l.tags))
}
