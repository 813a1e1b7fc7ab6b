package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

// api is an endpoint that does some actions, and tells nothing but errors.
type api struct {
	*httptest.Server
	does []string
	root string

	mu    sync.Mutex
	asked []string
}

func newAPI(t *testing.T, root string, does ...string) *api {
	a := &api{does: does, root: root}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action := r.FormValue("Action")
		a.mu.Lock()
		a.asked = append(a.asked, action)
		a.mu.Unlock()
		code, status := wire.InvalidAction, http.StatusBadRequest
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key/"):
			code, status = "AuthFailure", http.StatusForbidden
		case slices.Contains(a.does, action):
			code, status = "InvalidVpcID.NotFound", http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<" + root + "><Errors><Error><Code>" + code + "</Code><Message></Message></Error></Errors></" + root + ">"))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) client(more ...string) *Client {
	return &Client{
		Endpoints: append([]string{a.URL}, more...), HTTP: &http.Client{},
		Key: awsauth.Key{AccessKey: "key", SecretKey: "secret", Region: "ap-southeast-2"},
	}
}

// What a cluster implements is learned without a call that could make anything.
func TestLearn(t *testing.T) {
	a := newAPI(t, "ErrorResponse", "DescribeVpcs", "DeleteVpc", "TerminateInstances", "DescribeTags", "CreateSubnet")
	c := a.client()
	known, err := c.Learn(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	c.Use(known)
	for action, want := range map[string]bool{
		"DescribeVpcs": true, "CreateVpc": true, "RunInstances": true, "CreateTags": true, "DescribeSubnets": false,
		"CreateSubnet": false, "DeleteSubnet": false, "AllocateAddress": false,
	} {
		if c.Does(action) != want {
			t.Errorf("%s: %v, want %v", action, !want, want)
		}
	}
	if known.Root != "ErrorResponse" || known.Version != "v1" {
		t.Errorf("root %q of %q", known.Root, known.Version)
	}
	for _, action := range a.asked {
		for _, makes := range []string{"Create", "Run", "Allocate", "Import", "Copy"} {
			if strings.HasPrefix(action, makes) && action != "CreateImage" {
				t.Errorf("%s was called, which might make something", action)
			}
		}
	}
	if len(known.Actions) != len(wire.Actions()) {
		t.Errorf("%d of %d actions are known", len(known.Actions), len(wire.Actions()))
	}
}

// Keys that the cluster does not know are told as such, and not as a cluster that implements nothing.
func TestLearnWithWrongKeys(t *testing.T) {
	c := newAPI(t, "Response").client()
	c.Key.AccessKey = "other"
	_, err := c.Learn(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "AuthFailure") {
		t.Errorf("%v", err)
	}
}

// Requests that are asked for of nobody can be encoded, and name what cannot be there.
func TestOfNothing(t *testing.T) {
	for _, action := range wire.Actions() {
		form, err := wire.EncodeQuery(action, ofNothing(action))
		if err != nil {
			t.Errorf("%s: %v", action, err)
		}
		if len(form) == 2 && inferred(action) == "" && !strings.HasPrefix(action, "Describe") {
			t.Errorf("%s is asked for with nothing at all", action)
		}
	}
}

func TestCall(t *testing.T) {
	a := newAPI(t, "ErrorResponse", "DescribeVpcs")
	silent := httptest.NewServer(nil)
	silent.Close()
	c := a.client()
	c.Endpoints = []string{silent.URL, a.URL}
	_, err := c.Call(t.Context(), "DescribeVpcs", wire.Object{})
	refused, is := errors.AsType[*wire.Error](err)
	if !is || refused.Code != "InvalidVpcID.NotFound" || refused.Status != http.StatusBadRequest || refused.Message == "" {
		t.Errorf("%v", err)
	}
	c.Endpoints = []string{silent.URL}
	if _, err := c.Call(t.Context(), "DescribeVpcs", wire.Object{}); err == nil || errors.As(err, &refused) {
		t.Errorf("nobody is there: %v", err)
	}
}
