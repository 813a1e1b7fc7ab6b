package iac

import (
	"net/http"
	"sync/atomic"
)

// counter counts the requests that pass through it.
type counter struct {
	next http.RoundTripper
	made atomic.Int64
}

// RoundTrip passes a request on.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.made.Add(1)
	if c.next == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return c.next.RoundTrip(r)
}
