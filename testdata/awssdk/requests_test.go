package awssdk_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hive-test/pkg/gateway/wire"
)

// snapshots returns the requests that aws-sdk-go-v2 makes with every field set, by action.
func snapshots(t *testing.T) map[string]string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/ec2").Output()
	if err != nil {
		t.Fatalf("the module of aws-sdk-go-v2 is not there: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "request_snapshot")
	requests := map[string]string{}
	for _, action := range wire.Actions() {
		data, err := os.ReadFile(filepath.Join(dir, action+".request.snap"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, body, _ := strings.Cut(string(data), "x-www-form-urlencoded\n\n")
		requests[action] = body
	}
	return requests
}

func TestRequestsOfTheSDK(t *testing.T) {
	for action, body := range snapshots(t) {
		form, err := url.ParseQuery(body)
		if err != nil {
			t.Fatal(err)
		}
		in, err := wire.DecodeQuery(action, form)
		if err != nil {
			t.Errorf("%s: %v", action, err)
			continue
		}
		again, err := wire.EncodeQuery(action, in)
		if err != nil {
			t.Errorf("%s: %v", action, err)
			continue
		}
		if !reflect.DeepEqual(form, again) {
			for k := range form {
				if form.Get(k) != again.Get(k) {
					t.Errorf("%s: %s is %q, and %q when it is written again", action, k, form.Get(k), again.Get(k))
				}
			}
		}
	}
}
