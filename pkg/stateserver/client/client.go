// Package client asks a server of states for the versions that it keeps.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/stateserver"
)

// callTime bounds one request.
const callTime = time.Minute

// Options say how the server is reached.
type Options struct {
	Address        string // of the state, as OpenTofu's backend http has it: https://HOST/state/NAME
	User, Password string
	CA             string // PEM; empty: the system's
	Insecure       bool   // no certificate is verified
}

// Client is about one state. It is safe for concurrent use.
type Client struct {
	options Options
	history string // address of the versions
	http    *http.Client
}

// ErrNoHistory means that a server keeps no versions that can be asked for.
var ErrNoHistory = errors.New("the server keeps no versions that can be asked for: `hive-test state serve` does")

// New returns a client. Nobody is asked.
func New(o Options) (*Client, error) {
	address, err := url.Parse(o.Address)
	if err != nil {
		return nil, fmt.Errorf("the address of the state: %w", err)
	}
	before, name, ok := strings.Cut(address.Path, "/state/")
	if !ok {
		return nil, ErrNoHistory
	}
	address.Path, address.RawQuery = before+"/history/"+name, ""
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: o.Insecure} //nolint:gosec // where the user has said so of the backend
	if o.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("the CA of the server of states is no PEM certificate")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &Client{options: o, history: address.String(), http: &http.Client{Transport: transport, Timeout: callTime}}, nil
}

// Close ends connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// History returns the newest versions, so many at most, the newest first.
func (c *Client) History(ctx context.Context, limit int) (history stateserver.History, err error) {
	const page = 1000
	for before := int64(0); ; {
		query := url.Values{"limit": {strconv.Itoa(min(limit-len(history.Versions), page))}}
		if before > 0 {
			query.Set("before", strconv.FormatInt(before, 10))
		}
		raw, err := c.get(ctx, query)
		if err != nil {
			return history, err
		}
		var next stateserver.History
		if err := json.Unmarshal(raw, &next); err != nil {
			return history, fmt.Errorf("%w (it answers %w)", ErrNoHistory, err)
		}
		next.Versions = append(history.Versions, next.Versions...)
		history = next
		if before = next.Next; before == 0 || len(history.Versions) >= limit {
			return history, nil
		}
	}
}

// Version returns the state as it was in a version.
func (c *Client) Version(ctx context.Context, number int64) ([]byte, error) {
	return c.get(ctx, url.Values{"version": {strconv.FormatInt(number, 10)}})
}

func (c *Client) get(ctx context.Context, query url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.history+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if c.options.User != "" {
		request.SetBasicAuth(c.options.User, c.options.Password)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > mostAnswer:
		return nil, errors.New("the server answers with more than 512 MiB")
	case answer.StatusCode == http.StatusNotFound && !strings.Contains(string(body), "state "), // it would name the state
		answer.StatusCode == http.StatusMethodNotAllowed:
		return nil, ErrNoHistory
	case answer.StatusCode != http.StatusOK:
		return nil, &StatusError{Code: answer.StatusCode, Text: strings.TrimSpace(string(body[:min(len(body), mostText)]))}
	}
	return body, nil
}

const (
	mostAnswer = 512 << 20 // bytes
	mostText   = 400       // of an error
)

// StatusError is an answer of the server that is none to the question.
type StatusError struct {
	Code int // of HTTP
	Text string
}

func (e *StatusError) Error() string { return fmt.Sprintf("the server answers %d: %s", e.Code, e.Text) }
