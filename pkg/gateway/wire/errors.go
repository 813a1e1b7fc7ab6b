package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
)

// Codes of errors that are about requests as such.
const (
	InvalidAction         = "InvalidAction"
	InvalidParameterValue = "InvalidParameterValue"
	MissingParameter      = "MissingParameter"
	UnknownParameter      = "UnknownParameter"
)

// Error is what AWS answers in place of a result: a code, which clients go by, and a message for people.
type Error struct {
	Code, Message string
	Status        int // of HTTP
}

// Errorf returns an error with HTTP status 400, which most of AWS's have.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// Unknown is the error of an action that is not there. Later versions of AWS's provider do without an address's name where
// they are told so in these words.
func Unknown(action string) *Error {
	return Errorf(InvalidAction, "The action %s is not valid for this web service.", action)
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Document is the error as EC2 answers it. Clients of SDK v1 take no other root.
func (e *Error) Document(requestID string) []byte {
	var out bytes.Buffer
	out.WriteString(xml.Header + "<Response><Errors><Error>")
	element(&out, "Code", e.Code)
	element(&out, "Message", e.Message)
	out.WriteString("</Error></Errors>")
	element(&out, "RequestID", requestID)
	out.WriteString("</Response>")
	return out.Bytes()
}

// element writes an element that holds text.
func element(out *bytes.Buffer, name, value string) {
	out.WriteString("<" + name + ">")
	_ = xml.EscapeText(out, []byte(value)) // a buffer takes all
	out.WriteString("</" + name + ">")
}
