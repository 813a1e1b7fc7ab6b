package awsprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
	"hive-test/pkg/wait"
)

// The real provider uses both generations of the SDK.
const (
	v1 = iac.SDKv1
	v2 = iac.SDKv2
)

// patience is how long a state is waited for.
const patience = 5 * time.Minute

// client makes calls as the SDKs do.
type client struct {
	iac.Endpoint
	retries  int
	defaults map[string]string // tags of the provider
}

// do makes a call, and again what is throttled or has failed within the endpoint. What is for people names what is done.
func (c *client) do(ctx context.Context, generation iac.SDK, what, action string, in wire.Object) (wire.Object, error) {
	pause := wait.Backoff{First: 30 * time.Millisecond, Max: 20 * time.Second}
	for try := 0; ; try++ {
		out, err := c.Call(ctx, generation, action, in)
		failure, answered := errors.AsType[*wire.Error](err)
		if try < c.retries && iac.Again(err) {
			if wait.Sleep(ctx, pause.Next()) == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return out, nil
		case answered && generation == v1:
			return nil, &callError{failure, fmt.Sprintf("%s: %s: %s\n\tstatus code: %d, request id: ", what, failure.Code, failure.Message, failure.Status)}
		case answered:
			return nil, &callError{failure, fmt.Sprintf("%s: operation error EC2: %s, https response error StatusCode: %d, RequestID: , api error %s: %s",
				what, action, failure.Status, failure.Code, failure.Message)}
		case generation == v1:
			return nil, fmt.Errorf("%s: SerializationError: failed to decode response\ncaused by: %w", what, err)
		}
		return nil, fmt.Errorf("%s: operation error EC2: %s, deserialization failed, %w", what, action, err)
	}
}

// callError is an error that the endpoint has answered, in the words of an SDK.
type callError struct {
	failure *wire.Error
	text    string
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.failure }

// is reports whether an error is one that the endpoint has answered with one of the codes.
func is(err error, codes ...string) bool {
	failure, ok := errors.AsType[*wire.Error](err)
	return ok && slices.Contains(codes, failure.Code)
}

// remove makes a call that ends something. It is made again while it is refused with one of the busy codes, for what depends
// on it; with the code missing it has ended already.
func (c *client) remove(
	ctx context.Context, generation iac.SDK, what, action string, in wire.Object, missing string, busy ...string,
) error {
	err := retried(ctx, func() error {
		_, err := c.do(ctx, generation, what, action, in)
		return err
	}, busy...)
	if is(err, missing) {
		return nil
	}
	return err
}

// find makes a call that tells of one; nil: there is none.
func (c *client) find(
	ctx context.Context, generation iac.SDK, what, action string, in wire.Object, list, notFound string,
) (wire.Object, error) {
	out, err := c.do(ctx, generation, what, action, in)
	if err != nil {
		if is(err, notFound) {
			return nil, nil
		}
		return nil, err
	}
	found := out.Objects(list)
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%s: too many results: wanted 1, got %d", what, len(found))
}

// until calls done until it reports that what is waited for is there, so many times in a row.
func until(ctx context.Context, what string, times int, done func() (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	row := 0
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(limited) {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if row++; !ok {
			row = 0
		}
		if row == times {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: timeout while waiting for it (timeout: %s)", what, patience)
}

// retried does what may be refused for a while because of what depends on it.
func retried(ctx context.Context, do func() error, codes ...string) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	for range (wait.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}).Tries(limited) {
		if err = do(); err == nil || !is(err, codes...) {
			return err
		}
	}
	return err
}

// at is what a path of an answer has; empty: nothing.
func at(o wire.Object, path string) string { return strings.Join(o.At(path), ",") }
