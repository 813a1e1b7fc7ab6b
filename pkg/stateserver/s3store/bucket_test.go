package s3store_test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/awsauth"
)

const (
	accessKey = "AKIATEST"
	secretKey = "secret-of-the-bucket"
	pageSize  = 100 // keys in an answer
)

// bucket is a strict S3 server with one bucket, states. Safe for concurrent use.
type bucket struct {
	// fault may answer in place of the server.
	fault             func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) bool
	ignoresConditions bool

	mu      sync.Mutex
	objects map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.fault == nil || !b.fault(w, r, b.serve) {
		b.serve(w, r)
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

func (b *bucket) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, err = awsauth.Verify(r, body, func(key string) (string, bool) { return secretKey, key == accessKey }, time.Now())
	if err != nil {
		fail(w, 403, "SignatureDoesNotMatch")
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if name != "states" {
		fail(w, 404, "NoSuchBucket")
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	data, there := b.objects[key]
	switch {
	case r.Method == http.MethodGet && key == "":
		b.list(w, r)
	case r.Method == http.MethodPut:
		b.put(w, r, key, body, there)
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(204)
	case r.Method == http.MethodGet && !there:
		fail(w, 404, "NoSuchKey")
	case r.Method == http.MethodGet && r.Header.Get("Range") != "":
		last := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=0-%d", &last); err != nil || len(data) == 0 {
			fail(w, 416, "InvalidRange")
			return
		}
		w.WriteHeader(206)
		_, _ = w.Write(data[:min(last+1, len(data))])
	case r.Method == http.MethodGet:
		_, _ = w.Write(data)
	default:
		fail(w, 405, "MethodNotAllowed")
	}
}

func (b *bucket) put(w http.ResponseWriter, r *http.Request, key string, body []byte, there bool) {
	sum := md5.Sum(body)
	switch {
	case r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]):
		fail(w, 400, "BadDigest")
	case there && r.Header.Get("If-None-Match") == "*" && !b.ignoresConditions:
		fail(w, 412, "PreconditionFailed")
	default:
		b.objects[key] = body
	}
}

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("list-type") != "2" || query.Get("delimiter") != "/" {
		fail(w, 400, "InvalidArgument")
		return
	}
	var keys []string
	for key := range b.objects {
		rest, below := strings.CutPrefix(key, query.Get("prefix"))
		if below && !strings.Contains(rest, "/") && key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	type content struct{ Key string }
	answer := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
	}{IsTruncated: len(keys) > pageSize}
	for _, key := range keys[:min(len(keys), pageSize)] {
		answer.Contents = append(answer.Contents, content{key})
		answer.NextContinuationToken = key
	}
	_ = xml.NewEncoder(w).Encode(answer)
}
