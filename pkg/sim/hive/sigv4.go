package simhive

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxSkew is how far the signing time may be from this node's clock. More is SignatureDoesNotMatch, just as a wrong
// secret is.
const maxSkew = 5 * time.Minute

// authorization is a parsed SigV4 Authorization header.
type authorization struct {
	accessKey, date, region, service string
	signedHeaders                    []string
}

// verify checks a request's signature by signing it again, and returns what it claims. Only the header form is known,
// with a scope that this node's region need not match, as observed of hive.
func verify(
	r *http.Request, body []byte, secretOf func(string) (string, error), now time.Time,
) (authorization, *apiError) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return authorization{}, &apiError{http.StatusForbidden, "MissingAuthenticationToken"}
	}
	auth, ok := parseAuthorization(header)
	if !ok {
		return authorization{}, &apiError{http.StatusBadRequest, "IncompleteSignature"}
	}
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return authorization{}, &apiError{http.StatusBadRequest, "IncompleteSignature"}
	}
	secret, err := secretOf(auth.accessKey)
	if errors.Is(err, errUnknownKey) {
		return authorization{}, &apiError{http.StatusForbidden, "InvalidClientTokenId"}
	}
	if err != nil {
		return authorization{}, &apiError{http.StatusInternalServerError, "InternalError"}
	}
	if now.Sub(signed).Abs() > maxSkew || !strings.HasPrefix(r.Header.Get("X-Amz-Date"), auth.date) {
		return authorization{}, &apiError{http.StatusForbidden, "SignatureDoesNotMatch"}
	}
	again, err := signAgain(r, body, secret, auth, signed)
	if err != nil || subtle.ConstantTimeCompare([]byte(again), []byte(header)) != 1 {
		return authorization{}, &apiError{http.StatusForbidden, "SignatureDoesNotMatch"}
	}
	return auth, nil
}

func parseAuthorization(header string) (authorization, bool) {
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	parts := strings.Split(rest, ", ")
	if !ok || len(parts) != 3 {
		return authorization{}, false
	}
	credential, okCredential := strings.CutPrefix(parts[0], "Credential=")
	headers, okHeaders := strings.CutPrefix(parts[1], "SignedHeaders=")
	scope := strings.Split(credential, "/")
	if !okCredential || !okHeaders || !strings.HasPrefix(parts[2], "Signature=") || len(scope) != 5 ||
		scope[4] != "aws4_request" {
		return authorization{}, false
	}
	return authorization{
		accessKey: scope[0], date: scope[1], region: scope[2], service: scope[3],
		signedHeaders: strings.Split(headers, ";"),
	}, true
}

// signAgain signs what the client says it signed, with the key that it claims, and returns the Authorization header.
func signAgain(r *http.Request, body []byte, secretKey string, auth authorization, at time.Time) (string, error) {
	again, err := http.NewRequest(r.Method, "https://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return "", err
	}
	for _, name := range auth.signedHeaders {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if slices.Contains(auth.signedHeaders, "content-length") {
		again.ContentLength = int64(len(body))
	}
	sum := sha256.Sum256(body)
	secret := aws.Credentials{AccessKeyID: auth.accessKey, SecretAccessKey: secretKey}
	err = v4.NewSigner().SignHTTP(
		context.Background(), secret, again, hex.EncodeToString(sum[:]), auth.service, auth.region, at,
	)
	return again.Header.Get("Authorization"), err
}
