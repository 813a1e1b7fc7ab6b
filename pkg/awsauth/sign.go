// Package awsauth is how callers of AWS-like APIs prove who they are: Signature Version 4 of requests, which it makes and
// verifies, and the profile files that hold their keys.
package awsauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Key is what requests are signed with.
type Key struct {
	AccessKey, SecretKey, Region string
	SessionToken                 string // of keys that are lent for a time; empty: they are the user's own
}

// Sign signs a request with that body, which is for a service such as ec2, in its header.
func (k Key) Sign(r *http.Request, body []byte, service string, at time.Time) error {
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.SecretKey, SessionToken: k.SessionToken}
	return v4.NewSigner().SignHTTP(r.Context(), keys, r, hex.EncodeToString(sum[:]), service, k.Region, at)
}

// Post returns a signed request that posts a form to a service at an endpoint. Header is what its header has beside the
// usual content type, or in its place; nil: nothing.
func (k Key) Post(ctx context.Context, endpoint, service string, form []byte, header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(endpoint, "/")+"/", bytes.NewReader(form))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	maps.Copy(r.Header, header)
	if err := k.Sign(r, form, service, time.Now()); err != nil {
		return nil, fmt.Errorf("signing the call: %w", err)
	}
	return r, nil
}

// ParseProfiles reads a file of profiles, such as ~/.aws/credentials: the names and values below each [SECTION].
func ParseProfiles(text string) map[string]map[string]string {
	sections := map[string]map[string]string{}
	section := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = map[string]string{}
			sections[strings.TrimSpace(line[1:len(line)-1])] = section
			continue
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			section[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return sections
}
