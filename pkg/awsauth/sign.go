// Package awsauth is how callers of AWS-like APIs prove who they are: Signature Version 4 of requests, which it makes and
// verifies, and the profile files that hold their keys.
package awsauth

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Key is what requests are signed with.
type Key struct{ AccessKey, SecretKey, Region string }

// Sign signs a request with that body, which is for a service such as ec2, in its header.
func (k Key) Sign(r *http.Request, body []byte, service string, at time.Time) error {
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.SecretKey}
	return v4.NewSigner().SignHTTP(r.Context(), keys, r, hex.EncodeToString(sum[:]), service, k.Region, at)
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
