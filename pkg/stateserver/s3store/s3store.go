// Package s3store keeps objects in a bucket of S3, or of what speaks its protocol. It needs what PutObject does with
// If-None-Match: *, which S3, R2, MinIO and others have; stateserver.CheckStorage finds out.
package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/stateserver"
	"hive-test/pkg/wait"
)

// Store keeps objects in a bucket. Safe for concurrent use.
type Store struct {
	client *http.Client
	base   string // URL of the bucket, without a slash at the end
	prefix string // of all keys; empty, or with a slash at the end
	keys   func(context.Context) (awsauth.Key, error)
}

var _ stateserver.Storage = (*Store)(nil)

const (
	callTime   = 20 * time.Second // of one call
	tries      = 5
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	mostAnswer = 2 << 30 // bytes
)

// Open returns the storage of s3://BUCKET/PREFIX, with ?endpoint=URL where it is not AWS's, and ?region=NAME where Env does not
// say it. Keys are those of Env, as AWS's clients have them. It asks nobody anything.
func Open(address string, env Env) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("it is not of the form s3://BUCKET/PREFIX")
	}
	query := u.Query()
	for key := range query {
		if key != "endpoint" && key != "region" {
			return nil, fmt.Errorf("parameter %q is neither endpoint nor region", key)
		}
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	endpoint := query.Get("endpoint")
	region := firstOf(query.Get("region"), env.Getenv("AWS_REGION"), env.Getenv("AWS_DEFAULT_REGION"))
	if endpoint == "" {
		endpoint = firstOf(env.Getenv("AWS_ENDPOINT_URL_S3"), env.Getenv("AWS_ENDPOINT_URL"))
	}
	switch {
	case endpoint == "" && region == "":
		return nil, errors.New("neither a region nor an endpoint is given")
	case endpoint == "":
		endpoint = "https://s3." + region + ".amazonaws.com"
	case region == "":
		region = "us-east-1" // what others than AWS call theirs, if anything
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" {
		return nil, fmt.Errorf("endpoint %q is no URL", endpoint)
	}
	return &Store{
		client: &http.Client{Transport: transport()}, base: strings.TrimSuffix(endpoint, "/") + "/" + u.Host, prefix: prefix,
		keys: func(context.Context) (awsauth.Key, error) { return env.key(region) },
	}, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64 // all go to one host
	return t
}

// Close ends connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// failure is an answer that is an error.
type failure struct {
	status int
	code   string
	what   string
}

// Error tells what the storage said.
func (f failure) Error() string { return fmt.Sprintf("%s: %d %s", f.what, f.status, f.code) }

// passing reports whether the same call may succeed a little later.
func passing(err error) bool {
	f, answered := errors.AsType[failure](err)
	if !answered {
		return !errors.Is(err, errNoKeys)
	}
	return f.status >= 500 || f.code == "RequestTimeout" || f.status == http.StatusTooManyRequests || f.status == http.StatusRequestTimeout ||
		f.status == http.StatusConflict // of two conditional writes at once: one of them will be told that it came second
}

// call asks until there is an answer that stays, for a request that build makes anew each time. Unsure is told of each error
// after which the call may have been done.
func (s *Store) call(
	ctx context.Context, build func(context.Context) (*http.Request, []byte, error), unsure func(),
) (data []byte, err error) {
	for try := range (wait.Backoff{First: firstPause, Max: lastPause, Jitter: 0.5}).Tries(ctx) {
		data, err = s.once(ctx, build)
		if err == nil || !passing(err) || ctx.Err() != nil {
			return data, err
		}
		unsure()
		if try == tries {
			break
		}
	}
	return nil, err
}

func (s *Store) once(ctx context.Context, build func(context.Context) (*http.Request, []byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, body, err := build(ctx)
	if err != nil {
		return nil, err
	}
	key, err := s.keys(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if err := key.Sign(r, body, "s3", time.Now()); err != nil {
		return nil, fmt.Errorf("signing the call: %w", err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		var told struct{ Code string }
		_ = xml.Unmarshal(data, &told) // else the status says it
		return nil, failure{status: answer.StatusCode, code: told.Code, what: r.Method}
	}
	return data, nil
}

func (s *Store) request(ctx context.Context, method, key string, body []byte) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, s.base+"/"+s.prefix+key, bytes.NewReader(body))
}

// Create writes an object if there is none. Where an earlier try may have written it, the object itself tells.
func (s *Store) Create(ctx context.Context, key string, data []byte) error {
	sum := md5.Sum(data)
	perhaps := false
	_, err := s.call(ctx, func(ctx context.Context) (*http.Request, []byte, error) {
		r, err := s.request(ctx, http.MethodPut, key, data)
		if err == nil {
			r.Header.Set("If-None-Match", "*")
			r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
		}
		return r, data, err
	}, func() { perhaps = true })
	f, answered := errors.AsType[failure](err)
	if !answered || f.status != http.StatusPreconditionFailed {
		return err
	}
	if perhaps {
		if there, err := s.Read(ctx, key); err == nil && bytes.Equal(there, data) {
			return nil
		}
	}
	return stateserver.ErrExists
}

// Read returns an object.
func (s *Store) Read(ctx context.Context, key string) ([]byte, error) { return s.get(ctx, key, "") }

// ReadStart returns the start of an object.
func (s *Store) ReadStart(ctx context.Context, key string, n int) ([]byte, error) {
	data, err := s.get(ctx, key, "bytes=0-"+strconv.Itoa(n-1))
	if f, answered := errors.AsType[failure](err); answered && f.status == http.StatusRequestedRangeNotSatisfiable {
		return nil, nil // it is empty
	}
	return data[:min(n, len(data))], err
}

func (s *Store) get(ctx context.Context, key, part string) ([]byte, error) {
	data, err := s.call(ctx, func(ctx context.Context) (*http.Request, []byte, error) {
		r, err := s.request(ctx, http.MethodGet, key, nil)
		if err == nil && part != "" {
			r.Header.Set("Range", part)
		}
		return r, nil, err
	}, func() {})
	if f, answered := errors.AsType[failure](err); answered && f.status == http.StatusNotFound && f.code != "NoSuchBucket" {
		return nil, stateserver.ErrNotFound
	}
	return data, err
}

// page is an answer to ListObjectsV2.
type page struct {
	Contents []struct{ Key string }

	IsTruncated           bool
	NextContinuationToken string
}

// List returns keys, however many there are.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for token := ""; ; {
		query := url.Values{"list-type": {"2"}, "prefix": {s.prefix + prefix}, "delimiter": {"/"}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		data, err := s.call(ctx, func(ctx context.Context) (*http.Request, []byte, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"?"+query.Encode(), nil)
			return r, nil, err
		}, func() {})
		if err != nil {
			return nil, err
		}
		var p page
		if err := xml.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("reading the list of objects: %w", err)
		}
		for _, found := range p.Contents {
			keys = append(keys, strings.TrimPrefix(found.Key, s.prefix))
		}
		if !p.IsTruncated || p.NextContinuationToken == "" {
			return keys, nil
		}
		token = p.NextContinuationToken
	}
}

// Delete deletes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.call(ctx, func(ctx context.Context) (*http.Request, []byte, error) {
		r, err := s.request(ctx, http.MethodDelete, key, nil)
		return r, nil, err
	}, func() {})
	if f, answered := errors.AsType[failure](err); answered && f.status == http.StatusNotFound && f.code != "NoSuchBucket" {
		return nil
	}
	return err
}
