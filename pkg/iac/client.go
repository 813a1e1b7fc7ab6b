// Package iac tells what of AWS's EC2 API an endpoint does as Terraform's AWS provider needs it: it makes the calls that
// the provider makes for each of its resources, in its order, and reads the answers as its two SDKs do.
package iac

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

// answerLimit is more than any answer has.
const answerLimit = 16 << 20

// Endpoint is an EC2 API with what is needed to call it.
type Endpoint struct {
	URL    string
	Key    awsauth.Key
	Client *http.Client
}

// SDK is a generation of AWS's SDK for Go. The provider used both at once for years.
type SDK int

// Generations of the SDK.
const (
	SDKv1 SDK = 1
	SDKv2 SDK = 2
)

// reachLimit bounds the call that finds out whether an endpoint is there.
const reachLimit = 10 * time.Second

// Reach is an error unless the endpoint answers, whatever it says.
func (e Endpoint) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	_, err := e.Call(ctx, SDKv2, "DescribeRegions", wire.Object{})
	if silent, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the endpoint %s does not answer: %w", e.URL, silent.Err)
	}
	return nil
}

// shapeError is an answer that a client of an SDK does not read.
type shapeError struct{ error }

// Call makes a call as an SDK does, and reads the answer: v2 passes over the root of errors, v1 does not. The error is a
// *wire.Error where the endpoint answered with one; else it cannot be reached, or answers what that generation does not
// read.
func (e Endpoint) Call(ctx context.Context, generation SDK, action string, in wire.Object) (wire.Object, error) {
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		return nil, err
	}
	status, body, err := e.post(ctx, generation, "ec2", []byte(form.Encode()))
	if err != nil {
		return nil, err
	}
	out, err := wire.DecodeXML(action, status, bytes.NewReader(body), generation == SDKv1)
	if err == nil {
		return out, nil
	}
	if _, answered := errors.AsType[*wire.Error](err); answered {
		return nil, err
	}
	return nil, shapeError{err}
}

// Again reports whether an SDK sends a request again that was answered so: it was throttled, or the endpoint is at fault.
func Again(err error) bool {
	failure, ok := errors.AsType[*wire.Error](err)
	return ok && (failure.Status >= http.StatusInternalServerError || slices.Contains([]string{
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "TooManyRequestsException", "EC2ThrottledException", "BandwidthLimitExceeded",
		"TransactionInProgressException", "LimitExceededException", "SlowDown", "PriorRequestNotComplete",
	}, failure.Code))
}

// post sends a signed form.
func (e Endpoint) post(ctx context.Context, generation SDK, service string, form []byte) (int, []byte, error) {
	header := http.Header{}
	if generation == SDKv2 {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		header.Set("Amz-Sdk-Invocation-Id", "6fb7e9a5-2f4a-4f0d-9d8f-0e8d4f1c2b3a")
		header.Set("Amz-Sdk-Request", "attempt=1; max=3")
	}
	r, err := e.Key.Post(ctx, e.URL, service, form, header)
	if err != nil {
		return 0, nil, err
	}
	answer, err := e.Client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the answer: %w", err)
	}
	return answer.StatusCode, body, nil
}
