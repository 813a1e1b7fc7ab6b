package run

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// endpoint is one that takes a key alone and answers with a document.
func endpoint(t *testing.T, key awsauth.Key, answer string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, err = awsauth.Verify(r, body, func(access string) (string, bool) {
			return key.SecretKey, access == key.AccessKey
		}, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestProxySignsAnewAndKeepsNoSecret(t *testing.T) {
	key := awsauth.Key{AccessKey: "AKIAREAL", SecretKey: "the-real-secret", Region: "ap-southeast-2"}
	answer := `<RunInstancesResponse><requestId>r</requestId><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>` +
		`<userData><value>cHJpdmF0ZQ==</value></userData><keyMaterial>PRIVATE</keyMaterial></RunInstancesResponse>`
	server := endpoint(t, key, answer)
	path := filepath.Join(t.TempDir(), CallsFile)
	record, err := newRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := startProxy(iac.Endpoint{URL: server.URL, Key: key, Client: server.Client()}, record)
	if err != nil {
		t.Fatal(err)
	}
	record.at("instance", stepApply)
	asked := wire.Object{"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1, "UserData": "cHJpdmF0ZQ=="}
	provider := iac.Endpoint{URL: proxy.url, Key: proxy.key, Client: server.Client()}
	if _, err := provider.Call(t.Context(), 2, "RunInstances", asked); err != nil {
		t.Fatal("with the provider's key: ", err)
	}
	provider.Key = key
	if _, err := provider.Call(t.Context(), 2, "RunInstances", asked); err == nil {
		t.Error("the proxy takes the endpoint's own key, which nobody but it should have")
	}
	server.Close()
	provider.Key = proxy.key
	if _, err := provider.Call(t.Context(), 2, "DescribeVpcs", wire.Object{}); err == nil {
		t.Error("an endpoint that is gone has answered")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := proxy.close(ctx); err != nil {
		t.Error(err)
	}
	if err := record.close(); err != nil {
		t.Error(err)
	}

	things := made(record.of("instance", ""))
	if len(things) != 1 || things[0].id != "i-1" || things[0].kind.name != "aws_instance" {
		t.Errorf("what was made is %v", things)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"cHJpdmF0ZQ", "PRIVATE", key.SecretKey, proxy.key.SecretKey, "Signature"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the record has %q:\n%s", secret, text)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var first, last Call
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if first.Action != "RunInstances" || first.Status != 200 || first.Step != stepApply || first.Params["ImageId"] != "ami-1" {
		t.Errorf("the first call is kept as %+v", first)
	}
	if len(lines) != 2 || last.Action != "DescribeVpcs" || !strings.Contains(last.String(), "DescribeVpcs had no answer: ") {
		t.Errorf("%d lines, the last call is kept as %+v", len(lines), last)
	}
}

func TestWhatIsKeptOfLongAnswers(t *testing.T) {
	var c Call
	c.read(200, []byte("<a><keyMaterial>"+strings.Repeat("k", maxAnswer)+"</keyMaterial></a>"))
	if strings.Contains(c.Answer, "kkk") || !strings.HasSuffix(c.Answer, "<keyMaterial>***…") {
		t.Errorf("a secret that is cut off is kept as %.60q", c.Answer)
	}
	params := paramsOf(url.Values{
		"Action": {"ModifyInstanceAttribute"}, "UserData.Value": {"x"}, "LaunchTemplateData.UserData": {"x"}, "ClientToken": {"t"},
		"X-Amz-Security-Token": {"x"}, "UserDataTruncated": {"no"},
	})
	if len(params) != 4 || params["UserData.Value"] != masked || params["LaunchTemplateData.UserData"] != masked ||
		params["ClientToken"] != "t" || params["UserDataTruncated"] != "no" {
		t.Errorf("parameters are kept as %v", params)
	}
}
