// Package upstream is the EC2 API of a cluster, as a gateway in front of it calls it: with the cluster's own keys, at the
// first of its endpoints that can be reached.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

const (
	// answerLimit is more than any answer has that is read as a whole.
	answerLimit = 64 << 20
	// callTime bounds a call that is read as a whole: hive waits 3 s for silent nodes, and longer to launch instances.
	callTime = 90 * time.Second
)

// Client calls the API. It is safe for concurrent use.
type Client struct {
	Endpoints []string // URLs, of which one is enough
	Key       awsauth.Key
	HTTP      *http.Client

	good atomic.Int32 // index of the endpoint that has answered last
	does atomic.Pointer[Capabilities]
}

// Does reports whether the cluster implements an action, as Learn has found.
func (c *Client) Does(action string) bool {
	known := c.does.Load()
	return known != nil && known.Actions[action]
}

// Call makes a call and reads its answer. Roots of errors are passed over. The error is a *wire.Error where the cluster
// refuses the call.
func (c *Client) Call(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := c.Pass(ctx, "ec2", form)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, Refusal(answer)
	}
	return wire.DecodeXML(action, answer.StatusCode, io.LimitReader(answer.Body, answerLimit), false)
}

// Refusal reads an answer of EC2 that is an error, which is a *wire.Error unless it cannot be read, and closes it. It is as AWS
// would have it: not to be found or to be in use is 400 there, where hive says 404 and 409, and it has a message, where
// hive's is empty.
func Refusal(answer *http.Response) error {
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("reading the cluster's answer: %w", err)
	}
	failure, _, err := wire.DecodeError(answer.StatusCode, body)
	if err != nil {
		return fmt.Errorf("the cluster's error: %w", err)
	}
	if failure.Message == "" {
		failure.Message = "The cluster refuses it, and does not say why."
	}
	if failure.Status == http.StatusNotFound || failure.Status == http.StatusConflict {
		failure.Status = http.StatusBadRequest
	}
	return failure
}

// Pass sends a form to a service of the cluster, signed anew, and returns the answer as it comes. An endpoint that cannot be
// reached is passed over; what was sent is not sent again.
func (c *Client) Pass(ctx context.Context, service string, form url.Values) (*http.Response, error) {
	body := []byte(form.Encode())
	first := int(c.good.Load())
	var errs []error
	for i := range c.Endpoints {
		at := (first + i) % len(c.Endpoints)
		answer, err := c.post(ctx, c.Endpoints[at], service, body)
		if err == nil {
			c.good.Store(int32(at))
			return answer, nil
		}
		errs = append(errs, err)
		if !unsent(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c *Client) post(ctx context.Context, endpoint, service string, body []byte) (*http.Response, error) {
	r, err := c.Key.Post(ctx, endpoint, service, body, nil)
	if err != nil {
		return nil, err
	}
	return c.HTTP.Do(r)
}

// unsent reports whether a request that failed cannot have been seen by anybody.
func unsent(err error) bool {
	op, is := errors.AsType[*net.OpError](err)
	return is && op.Op == "dial"
}
