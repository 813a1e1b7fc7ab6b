package ec2

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"hive-test/pkg/gateway/wire"
)

// idDigits is how many hex digits ids have after their prefix.
const idDigits = 17

// newID returns the id that a cluster has given to what is to be kept of it, or else one that nobody has.
func newID(ctx context.Context, prefix string) string {
	if id, given := givenID(ctx, prefix); given {
		return id
	}
	var random [(idDigits + 1) / 2]byte
	_, _ = rand.Read(random[:]) // it never fails
	return prefix + "-" + hex.EncodeToString(random[:])[:idDigits]
}

// idFor returns the id of the nth resource that a request makes. With a ClientToken the same request gets the same id
// again, so that one which is sent twice makes one resource.
func (s *Service) idFor(ctx context.Context, prefix string, in wire.Object, nth int) string {
	token := in.Text("ClientToken")
	if token == "" {
		return newID(ctx, prefix)
	}
	if id, given := givenID(ctx, prefix); given {
		return id
	}
	sum := sha256.Sum256([]byte(s.Account + "\x00" + prefix + "\x00" + token + "\x00" + strconv.Itoa(nth)))
	return prefix + "-" + hex.EncodeToString(sum[:])[:idDigits]
}

// tokenMember keeps what a resource was asked for with where its request had a ClientToken.
const tokenMember = "_asked"

// askedHash tells requests with one ClientToken from each other; empty where there is none.
func askedHash(in wire.Object) string {
	if !in.Has("ClientToken") {
		return ""
	}
	text, _ := json.Marshal(in) // an object of a request always can be
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// sameRequest is an error where a ClientToken was used for another request before.
func sameRequest(made, in wire.Object) error {
	if made.Text(tokenMember) == askedHash(in) {
		return nil
	}
	return wire.Errorf(
		"IdempotentParameterMismatch",
		"The request uses the same client token as a previous, but non-identical request.",
	)
}
