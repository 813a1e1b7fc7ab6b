package gateway

import (
	"errors"
	"net/http"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

// unverified is why a request is not taken, in the words of the service that was asked: EC2 does not tell an access key
// that nobody has from a wrong secret key.
func (c *call) unverified(err error) *wire.Error {
	refused := func(code, message string, status int) *wire.Error {
		return &wire.Error{Code: code, Message: message, Status: status}
	}
	ec2 := c.signed.Service != "sts"
	switch {
	case errors.Is(err, awsauth.ErrMissing):
		return refused("MissingAuthenticationToken", "Request is missing Authentication Token", http.StatusForbidden)
	case errors.Is(err, awsauth.ErrIncomplete):
		return refused("IncompleteSignature",
			"The request signature does not conform to AWS standards.", http.StatusBadRequest)
	case errors.Is(err, awsauth.ErrExpired) && ec2:
		return refused("RequestExpired", "Request has expired.", http.StatusBadRequest)
	case errors.Is(err, awsauth.ErrExpired):
		return refused("SignatureDoesNotMatch",
			"Signature expired: the time of the request is not that of the service.", http.StatusForbidden)
	case ec2:
		return refused("AuthFailure",
			"AWS was not able to validate the provided access credentials", http.StatusUnauthorized)
	case errors.Is(err, awsauth.ErrUnknownKey):
		return refused("InvalidClientTokenId",
			"The security token included in the request is invalid.", http.StatusForbidden)
	}
	return refused("SignatureDoesNotMatch",
		"The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "+
			"Key and signing method.", http.StatusForbidden)
}
