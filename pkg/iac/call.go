package iac

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// Call makes a call as AWS's SDK for Go does, of generation 1 or 2, and returns the answer. The error is a *wire.Error
// where the endpoint answered with one; else it cannot be reached, or answers what that generation does not read.
func (e Endpoint) Call(ctx context.Context, generation int, action string, in wire.Object) (wire.Object, error) {
	return e.call(ctx, sdk(generation), action, in)
}
