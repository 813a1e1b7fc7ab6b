package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

const (
	// maxRequest and maxAnswerRead are more than any request and answer have, in bytes.
	maxRequest    = 1 << 20
	maxAnswerRead = 16 << 20
	// readTime bounds how long a client may take to send a request.
	readTime = 30 * time.Second
)

// proxy stands between the provider and the endpoint and keeps what is asked and answered. The provider signs with a key
// that is good for this proxy alone: the endpoint's own key, with which each request is signed anew, stays in this process.
type proxy struct {
	endpoint iac.Endpoint
	key      awsauth.Key // of the provider
	record   *record
	url      string
	server   *http.Server
	ended    chan error
}

// startProxy serves on a free port of this machine until close is called.
func startProxy(endpoint iac.Endpoint, record *record) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the provider: %w", err)
	}
	client := *endpoint.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	endpoint.Client = &client
	p := &proxy{
		endpoint: endpoint, record: record, url: "http://" + listener.Addr().String(), ended: make(chan error, 1),
		key: awsauth.Key{AccessKey: "AKIA" + strings.ToUpper(random(8)), SecretKey: random(20), Region: endpoint.Key.Region},
	}
	p.server = &http.Server{Handler: p, ReadTimeout: readTime}
	go func() { p.ended <- p.server.Serve(listener) }()
	return p, nil
}

// random returns so many random bytes as hex digits.
func random(bytes int) string {
	data := make([]byte, bytes)
	_, _ = rand.Read(data) // it never fails
	return hex.EncodeToString(data)
}

// close ends the proxy, once the calls that are being made have ended.
func (p *proxy) close(ctx context.Context) error {
	err := p.server.Shutdown(ctx)
	if served := <-p.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, &wire.Error{Code: "RequestEntityTooLarge", Message: err.Error(), Status: http.StatusRequestEntityTooLarge})
		return
	}
	signed, err := awsauth.Verify(r, body, func(access string) (string, bool) {
		return p.key.SecretKey, access == p.key.AccessKey
	}, time.Now())
	if err != nil {
		refuse(w, &wire.Error{Code: "AuthFailure", Message: err.Error(), Status: http.StatusForbidden})
		return
	}
	text := string(body)
	if r.Method == http.MethodGet {
		text = r.URL.RawQuery
	}
	form, _ := url.ParseQuery(text) // what cannot be read is passed on as it is
	stack, step := p.record.place()
	c := Call{
		Time: time.Now().UTC(), Stack: stack, Step: step, Service: signed.Service, Action: form.Get("Action"), Params: paramsOf(form),
	}
	// A client that is gone has asked all the same: what is made is to be known.
	header, answer, err := p.pass(context.WithoutCancel(r.Context()), r, body, signed.Service, &c)
	c.Seconds = time.Since(c.Time).Seconds()
	if err != nil {
		c.Error = withoutURL(err).Error()
		p.record.add(c)
		refuse(w, &wire.Error{
			Code: "ServiceUnavailable", Message: "the endpoint does not answer: " + c.Error, Status: http.StatusServiceUnavailable,
		})
		return
	}
	p.record.add(c)
	for _, name := range []string{"Content-Type", "X-Amzn-Requestid", "Retry-After"} {
		if value := header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(c.Status)
	_, _ = w.Write(answer) // a client that is gone gets none
}

// pass signs a request anew, makes it, and fills in what came of it.
func (p *proxy) pass(
	ctx context.Context, r *http.Request, body []byte, service string, c *Call,
) (http.Header, []byte, error) {
	target := strings.TrimSuffix(p.endpoint.URL, "/") + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	again, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range []string{"Content-Type", "User-Agent", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"} {
		if value := r.Header.Get(name); value != "" {
			again.Header.Set(name, value)
		}
	}
	if err := p.endpoint.Key.Sign(again, body, service, time.Now()); err != nil {
		return nil, nil, err
	}
	response, err := p.endpoint.Client.Do(again)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerRead))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer: %w", err)
	}
	c.RequestID = response.Header.Get("X-Amzn-Requestid")
	c.read(response.StatusCode, answer)
	if out, err := wire.DecodeXML(c.Action, c.Status, bytes.NewReader(answer), false); err == nil {
		c.ids = createdBy(c.Action, out)
	}
	return response.Header, answer, nil
}

// withoutURL is the reason of an error of the client: its text has the URL, which is no news.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// refuse answers as EC2 does.
func refuse(w http.ResponseWriter, failure *wire.Error) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(failure.Status)
	_, _ = w.Write(failure.Document("hive-test"))
}
