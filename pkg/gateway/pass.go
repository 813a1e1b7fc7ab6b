package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hive-test/pkg/gateway/upstream"
	"hive-test/pkg/gateway/wire"
)

// pass passes a request on to the cluster, signed anew. Where that refuses it as EC2, the error is returned, with a root
// that all clients read; else the answer is for copyAnswer.
func (h *handler) pass(ctx context.Context, c *call) error {
	form := url.Values{}
	for name, values := range c.form {
		if !strings.HasPrefix(name, "X-Amz-") { // signatures by query are the client's
			form[name] = values
		}
	}
	answer, err := h.Cluster.Pass(ctx, c.signed.Service, form)
	if err != nil {
		return &wire.Error{
			Code: "Unavailable", Status: http.StatusServiceUnavailable,
			Message: fmt.Sprintf("The cluster gives no answer: %v", err),
		}
	}
	if c.signed.Service == "ec2" && answer.StatusCode >= http.StatusMultipleChoices {
		return upstream.Refusal(answer)
	}
	c.passed = answer
	return nil
}

// copyAnswer copies an answer of the cluster as it comes.
func (h *handler) copyAnswer(w http.ResponseWriter, c *call, begun time.Time) {
	defer func() { _ = c.passed.Body.Close() }()
	if kind := c.passed.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.Header().Set("X-Amzn-Requestid", c.id)
	w.WriteHeader(c.passed.StatusCode)
	_, err := io.Copy(w, c.passed.Body)
	failure := &wire.Error{Status: c.passed.StatusCode}
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		failure.Code, failure.Message = "Incomplete", err.Error()
	case c.passed.StatusCode < http.StatusMultipleChoices:
		failure = nil
	}
	h.log(c, begun, failure)
}
