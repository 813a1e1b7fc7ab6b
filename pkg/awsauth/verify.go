package awsauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Why a request is not taken. AWS's services have different codes for the same.
var (
	ErrMissing    = errors.New("the request has no signature")
	ErrIncomplete = errors.New("the signature lacks a part, or one cannot be read")
	ErrUnknownKey = errors.New("nobody has that access key")
	ErrExpired    = errors.New("the request was signed too long ago, or in the future")
	ErrMismatch   = errors.New("the signature is of another request or of another secret key")
)

// MaxSkew is how far the time of a signature may be from the clock, as AWS has it.
const MaxSkew = 5 * time.Minute

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeLayout = "20060102T150405Z"
	longest    = 7 * 24 * time.Hour // of a signature in the query
)

// Signed is who has signed a request, and for what.
type Signed struct {
	AccessKey, Region, Service string
}

// Verify returns who has signed a request with that body. Secret returns an access key's secret key. The error is one of
// this package's.
func Verify(r *http.Request, body []byte, secret func(accessKey string) (string, bool), now time.Time) (Signed, error) {
	c, err := claimOf(r)
	if err != nil {
		return Signed{}, err
	}
	key, known := secret(c.AccessKey)
	if !known {
		return c.Signed, ErrUnknownKey
	}
	if age := now.Sub(c.at); age < -MaxSkew || age > max(MaxSkew, c.valid) {
		return c.Signed, ErrExpired
	}
	again, err := c.signAgain(r, body, key)
	if err != nil || subtle.ConstantTimeCompare([]byte(again), []byte(c.signature)) != 1 {
		return c.Signed, ErrMismatch
	}
	return c.Signed, nil
}

// claim is a signature with what it says of itself.
type claim struct {
	Signed
	at        time.Time
	valid     time.Duration // of one in the query; 0: it is in the header
	headers   []string
	signature string
}

// claimOf reads the signature of a request.
func claimOf(r *http.Request) (claim, error) {
	query := r.URL.Query()
	switch {
	case r.Header.Get("Authorization") != "":
		return claimOfHeader(r)
	case query.Get("X-Amz-Signature") != "" || query.Get("X-Amz-Algorithm") != "":
		return claimOfQuery(query)
	}
	return claim{}, ErrMissing
}

func claimOfHeader(r *http.Request) (claim, error) {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !ok {
		return claim{}, ErrIncomplete
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	c := claim{headers: strings.Split(parts["SignedHeaders"], ";"), signature: parts["Signature"]}
	return c, c.read(parts["Credential"], r.Header.Get("X-Amz-Date"))
}

func claimOfQuery(query url.Values) (claim, error) {
	seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
	valid := time.Duration(seconds) * time.Second
	c := claim{
		headers: strings.Split(query.Get("X-Amz-SignedHeaders"), ";"), signature: query.Get("X-Amz-Signature"), valid: valid,
	}
	if err != nil || valid < time.Second || valid > longest || query.Get("X-Amz-Algorithm") != algorithm {
		return claim{}, ErrIncomplete
	}
	return c, c.read(query.Get("X-Amz-Credential"), query.Get("X-Amz-Date"))
}

// read reads the scope and the time of a signature.
func (c *claim) read(credential, date string) (err error) {
	scope := strings.Split(credential, "/")
	if c.at, err = time.Parse(timeLayout, date); err != nil || len(scope) != 5 || scope[4] != "aws4_request" ||
		!strings.HasPrefix(date, scope[1]) || c.signature == "" || !slices.Contains(c.headers, "host") {
		return ErrIncomplete
	}
	c.Signed = Signed{AccessKey: scope[0], Region: scope[2], Service: scope[3]}
	return nil
}

// signAgain signs what the client says that it has signed, and returns the signature.
func (c claim) signAgain(r *http.Request, body []byte, secret string) (string, error) {
	query := r.URL.Query()
	for _, name := range []string{"Signature", "Algorithm", "Credential", "Date", "SignedHeaders"} {
		if c.valid != 0 {
			query.Del("X-Amz-" + name)
		}
	}
	target := url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: query.Encode()}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, target.String(), nil)
	if err != nil {
		return "", err
	}
	for _, name := range c.headers {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if slices.Contains(c.headers, "content-length") { // Go's server takes it out of the header
		again.ContentLength = int64(len(body))
	}
	key := Key{AccessKey: c.AccessKey, SecretKey: secret, Region: c.Region}
	if c.valid == 0 {
		if err := key.Sign(again, body, c.Service, c.at); err != nil {
			return "", err
		}
		_, signature, _ := strings.Cut(again.Header.Get("Authorization"), "Signature=")
		return signature, nil
	}
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: c.AccessKey, SecretAccessKey: secret}
	signed, _, err := v4.NewSigner().PresignHTTP(
		r.Context(), keys, again, hex.EncodeToString(sum[:]), c.Service, c.Region, c.at,
	)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(signed)
	if err != nil {
		return "", err
	}
	return u.Query().Get("X-Amz-Signature"), nil
}
