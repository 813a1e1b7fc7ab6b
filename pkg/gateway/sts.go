package gateway

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/wait"
)

// identityResponse is the answer to GetCallerIdentity.
type identityResponse struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	Arn     string   `xml:"GetCallerIdentityResult>Arn"`
	UserID  string   `xml:"GetCallerIdentityResult>UserId"`
	Account string   `xml:"GetCallerIdentityResult>Account"`
	Request string   `xml:"ResponseMetadata>RequestId"`
}

// stsActions are those that sts answers.
func stsActions() []string { return []string{"GetCallerIdentity", "AssumeRole"} }

// sts answers the actions of STS: who the caller is, and that there are no roles.
func (h *handler) sts(ctx context.Context, c *call) ([]byte, error) {
	if c.fault = h.Faults.at(c.action); c.fault != nil {
		if err := wait.Sleep(ctx, c.fault.delay); err != nil {
			return nil, err
		}
		if failure := c.fault.failure(); failure != nil {
			return nil, failure
		}
		if c.fault.Empty {
			return document(identityResponse{Request: c.id})
		}
	}
	switch c.action {
	case "GetCallerIdentity":
		return document(identityResponse{
			Arn: fmt.Sprintf("arn:aws:iam::%s:root", h.Account), UserID: h.Account, Account: h.Account, Request: c.id,
		})
	case "AssumeRole":
		return nil, &wire.Error{
			Code: "AccessDenied", Status: http.StatusForbidden, Message: fmt.Sprintf(
				"User: arn:aws:iam::%s:root is not authorized to perform: sts:AssumeRole on resource: %s: there are no roles here, "+
					"so use the access key itself", h.Account, c.form.Get("RoleArn")),
		}
	}
	return nil, wire.Errorf(wire.InvalidAction, "Could not find operation %s for version %s", c.action, c.form.Get("Version"))
}

// errorResponse is how STS answers an error.
type errorResponse struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
	Type    string   `xml:"Error>Type"`
	Code    string   `xml:"Error>Code"`
	Message string   `xml:"Error>Message"`
	Request string   `xml:"RequestId"`
}

func stsError(e *wire.Error, requestID string) []byte {
	who := "Sender"
	if e.Status >= http.StatusInternalServerError {
		who = "Receiver"
	}
	text, _ := document(errorResponse{Type: who, Code: e.Code, Message: e.Message, Request: requestID}) // texts always can be
	return text
}

func document(v any) ([]byte, error) {
	text, err := xml.Marshal(v)
	return append([]byte(xml.Header), text...), err
}
