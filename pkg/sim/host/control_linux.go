package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// message is one line of the control socket, in either direction. Answers carry the ID of their request.
type message struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// errPowerLost means that the machine's init is gone, or going.
var errPowerLost = fmt.Errorf("%w: the machine is powering off", ErrAgentNotRunning)

// control is the manager's end of a machine's control socket. Safe for concurrent use; calls do not wait for one
// another.
type control struct {
	conn    net.Conn
	mu      sync.Mutex // guards enc and below
	enc     *json.Encoder
	next    uint64
	pending map[uint64]chan message
	lost    bool
}

// newControl starts a goroutine that ends with the connection.
func newControl(conn net.Conn) *control {
	c := &control{conn: conn, enc: json.NewEncoder(conn), pending: map[uint64]chan message{}}
	go c.receive()
	return c
}

func (c *control) receive() {
	dec := json.NewDecoder(c.conn)
	for {
		var m message
		if err := dec.Decode(&m); err != nil {
			break
		}
		c.mu.Lock()
		answer := c.pending[m.ID]
		delete(c.pending, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	for _, answer := range c.pending {
		close(answer)
	}
	c.pending = nil
}

// call asks the machine's init and decodes its answer into out, unless that is nil.
func (c *control) call(ctx context.Context, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	answer := make(chan message, 1)
	if err := c.send(method, body, answer); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case m, ok := <-answer:
		if !ok {
			return errPowerLost
		}
		if m.Error != "" {
			return agentError(m.Error)
		}
		if out == nil {
			return nil
		}
		if err := json.Unmarshal(m.Body, out); err != nil {
			return fmt.Errorf("decode the answer to %s: %w", method, err)
		}
		return nil
	}
}

func (c *control) send(method string, body []byte, answer chan message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		return errPowerLost
	}
	c.next++
	c.pending[c.next] = answer
	if err := c.enc.Encode(message{ID: c.next, Method: method, Body: body}); err != nil {
		delete(c.pending, c.next)
		return errPowerLost
	}
	return nil
}

// agentError gives errors that crossed the socket as text their identity back.
func agentError(text string) error {
	for _, known := range []error{ErrAgentNotRunning, ErrUnknownPID} {
		if text == known.Error() {
			return known
		}
	}
	return errors.New(text)
}

// handler answers one call.
type handler func(body json.RawMessage) (any, error)

// handle makes a handler of a function with typed input.
func handle[In, Out any](f func(In) (Out, error)) handler {
	return func(body json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		return f(in)
	}
}

// serveControl answers calls, each in a goroutine of its own, until the connection ends.
func serveControl(conn net.Conn, handlers map[string]handler) {
	var mu sync.Mutex
	enc := json.NewEncoder(conn)
	dec := json.NewDecoder(conn)
	for {
		var m message
		if err := dec.Decode(&m); err != nil {
			return
		}
		go func() {
			answer := message{ID: m.ID}
			h := handlers[m.Method]
			if h == nil {
				answer.Error = "unknown method " + m.Method
			} else if out, err := h(m.Body); err != nil {
				answer.Error = err.Error()
			} else if answer.Body, err = json.Marshal(out); err != nil {
				answer.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			_ = enc.Encode(answer)
		}()
	}
}
