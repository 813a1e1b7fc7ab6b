package awsauth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"hive-test/pkg/awsauth"
)

const (
	accessKey = "AKIAEXAMPLE"
	secretKey = "secret/key+of=example"
	body      = "Action=DescribeVpcs&Version=2016-11-15"
)

func secretOf(key string) (string, bool) { return secretKey, key == accessKey }

// signed is a request as a server gets it.
func signed(t *testing.T, at time.Time, inQuery bool) *http.Request {
	method, text := http.MethodPost, body
	target := "http://127.0.0.1:9990/"
	if inQuery {
		method, text, target = http.MethodGet, "", target+"?"+body+"&X-Amz-Expires=900"
	}
	r, err := http.NewRequest(method, target, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	key := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}
	if inQuery {
		uri, _, err := v4.NewSigner().PresignHTTP(context.Background(), key, r, hash, "ec2", "ap-southeast-2", at)
		if err != nil {
			t.Fatal(err)
		}
		return httptest.NewRequest(method, uri, nil)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := v4.NewSigner().SignHTTP(context.Background(), key, r, hash, "ec2", "ap-southeast-2", at); err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRequest(method, target, bytes.NewReader([]byte(text)))
	got.Header = r.Header.Clone()
	return got
}

func TestVerify(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, inQuery := range []bool{false, true} {
		text := body
		if inQuery {
			text = ""
		}
		lasts := awsauth.MaxSkew
		if inQuery {
			lasts = 15 * time.Minute
		}
		for name, c := range map[string]struct {
			spoil func(*http.Request)
			body  string
			at    time.Time
			want  error
		}{
			"as it was signed": {},
			"old":              {at: now.Add(-lasts - time.Second), want: awsauth.ErrExpired},
			"almost old":       {at: now.Add(-lasts)},
			"of the future":    {at: now.Add(awsauth.MaxSkew + time.Second), want: awsauth.ErrExpired},
			"another host":     {spoil: func(r *http.Request) { r.Host = "other" }, want: awsauth.ErrMismatch},
			"another path":     {spoil: func(r *http.Request) { r.URL.Path = "/x" }, want: awsauth.ErrMismatch},
			"another body":     {body: "Action=DeleteVpc", want: awsauth.ErrMismatch},
			"no signature": {spoil: func(r *http.Request) {
				r.Header.Del("Authorization")
				r.URL.RawQuery = ""
			}, want: awsauth.ErrMissing},
			"another key": {spoil: func(r *http.Request) {
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), accessKey, "AKIAOTHER", 1))
				if inQuery {
					r.Header.Del("Authorization")
				}
				r.URL.RawQuery = strings.Replace(r.URL.RawQuery, accessKey, "AKIAOTHER", 1)
			}, want: awsauth.ErrUnknownKey},
			"another signature": {spoil: func(r *http.Request) {
				if inQuery {
					r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Signature=", "X-Amz-Signature=0", 1)
					return
				}
				r.Header.Set("Authorization", r.Header.Get("Authorization")+"0")
			}, want: awsauth.ErrMismatch},
			"a part of one": {spoil: func(r *http.Request) {
				if inQuery {
					r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Credential", "X-Amz-Other", 1)
					return
				}
				r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey)
			}, want: awsauth.ErrIncomplete},
		} {
			at := c.at
			if at.IsZero() {
				at = now
			}
			r := signed(t, at, inQuery)
			if c.spoil != nil {
				c.spoil(r)
			}
			sent := c.body
			if sent == "" {
				sent = text
			}
			who, err := awsauth.Verify(r, []byte(sent), secretOf, now)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s (in the query: %v): %v, want %v", name, inQuery, err, c.want)
			}
			if c.want == nil && (who != awsauth.Signed{AccessKey: accessKey, Region: "ap-southeast-2", Service: "ec2"}) {
				t.Errorf("%s: signed by %v", name, who)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260102/r/ec2/aws4_request, SignedHeaders=host, Signature=0", "20260102T030405Z", "")
	f.Add("", "", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0&X-Amz-Expires=9&X-Amz-SignedHeaders=host&X-Amz-Date=20260102T030405Z")
	f.Fuzz(func(t *testing.T, authorization, date, query string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL.RawQuery = query
		r.Header.Set("Authorization", authorization)
		r.Header.Set("X-Amz-Date", date)
		if _, err := awsauth.Verify(r, []byte(body), secretOf, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err == nil {
			t.Errorf("%q %q %q is taken", authorization, date, query)
		}
	})
}
