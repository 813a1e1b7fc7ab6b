package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Sentinels that errors of this package match with errors.Is.
var (
	// ErrUnauthorized: the token is wrong, disabled, expired or unknown (401). Asking again does not help.
	ErrUnauthorized = errors.New("proxmox does not accept the API token")
	// ErrForbidden: the token is good but lacks a privilege, which the error names (403).
	ErrForbidden = errors.New("the API token lacks a privilege")
	// ErrNotFound: PVE says that the object does not exist. PVE answers 500 for it, so its text decides. Only this
	// proves absence: an unreachable node or a missing privilege never matches.
	ErrNotFound = errors.New("no such object in proxmox")
	// ErrExists: what was to be made exists already.
	ErrExists = errors.New("it exists already in proxmox")
	// ErrUnreachable: the API or the node it had to ask did not answer (connection errors, time-outs, 595, 596, 599
	// and a proxy's 502 to 504). Asking again may help.
	ErrUnreachable = errors.New("proxmox cannot be reached")
	// ErrTLS: the server's certificate was not accepted. Asking again does not help.
	ErrTLS = errors.New("the server's certificate is not trusted")
	// ErrLocked: the VM holds a config lock such as backup or snapshot.
	ErrLocked = errors.New("the VM is locked")
	// ErrAgentDisabled: the VM is configured without a QEMU guest agent.
	ErrAgentDisabled = errors.New("the VM is configured without guest agent")
	// ErrAgentNotRunning: the guest agent does not answer (not installed, not started, or the guest still boots).
	ErrAgentNotRunning = errors.New("the guest agent does not answer")
	// ErrNotRunning: the VM is not running.
	ErrNotRunning = errors.New("the VM is not running")
	// ErrRunning: the VM is running, and what was asked for needs it to be off.
	ErrRunning = errors.New("the VM is running")
)

// APIError is an answer of PVE that is not a success, with PVE's own words.
type APIError struct {
	Status int               // HTTP status; PVE has some of its own, such as 595
	Reason string            // the message of the body, or the reason phrase where there is no body
	Method string            // of the request
	Path   string            // of the request, below /api2/json, without query
	Errors map[string]string // by parameter; nil when PVE names none
	// Wordless says that PVE's text did not arrive. Until 8.3 it is in the status line only, where a proxy may replace
	// it: then nothing tells an object that is not there from any other failure.
	Wordless bool
}

// Error is one line: the request, the status and PVE's text.
func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d %s", e.Method, e.Path, e.Status, strings.Join(strings.Fields(e.Reason), " "))
	if e.Wordless {
		b.WriteString(" (its reason was lost on the way)")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Errors)) {
		fmt.Fprintf(&b, " (%s: %s)", name, e.Errors[name])
	}
	return b.String()
}

// Hint says how to mend what a user can mend.
func (e *APIError) Hint() string {
	switch {
	case e.Wordless:
		return "a proxy before Proxmox VE drops its reasons: set proxmox.endpoint to a hypervisor itself, port 8006, or upgrade to 8.4"
	case errors.Is(e, ErrUnauthorized):
		return "check PROXMOX_VE_API_TOKEN (user@realm!name=secret): the token may be wrong, disabled or expired"
	case errors.Is(e, ErrForbidden):
		return "give the API token the privilege that the text names: pveum acl modify PATH --tokens 'USER@REALM!NAME' --roles ROLE"
	case errors.Is(e, ErrUnreachable):
		return "check that the hypervisor is up and in its cluster: pvecm status"
	case errors.Is(e, ErrLocked):
		return "wait for what holds the lock (a backup, a snapshot, a migration), or remove a stale one on the hypervisor: qm unlock VMID"
	}
	return ""
}

// Is tells which of this package's sentinels the answer stands for.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Status == 401
	case ErrForbidden:
		return e.Status == 403
	case ErrUnreachable:
		return e.Status >= 595 || e.Status >= 502 && e.Status <= 504
	case ErrNotFound:
		return e.Status != 401 && e.Status < 590 && (e.Status == 404 || absent(e.text()))
	}
	return matchText(e.text(), target)
}

// text is everything PVE said, for matching.
func (e *APIError) text() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	for _, text := range e.Errors {
		b.WriteString("\n" + text)
	}
	return b.String()
}

// absent knows the texts of PVE 8.4 for objects that are not there (observed).
func absent(text string) bool {
	for _, mark := range []string{"does not exist", "unable to find configuration", "No such storage", "no such task"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// matchText compares PVE's texts, as observed on 8.4, with the sentinels that only a text can tell.
func matchText(text string, target error) bool {
	switch target {
	case ErrLocked:
		return strings.Contains(text, "VM is locked")
	case ErrAgentDisabled:
		return strings.Contains(text, "No QEMU guest agent configured")
	case ErrAgentNotRunning:
		return strings.Contains(text, "QEMU guest agent is not running")
	case ErrExists:
		return strings.Contains(text, "already exists")
	case ErrRunning:
		return strings.Contains(text, "is running - destroy failed")
	case ErrNotRunning:
		return strings.Contains(text, "VM ") && strings.HasSuffix(strings.TrimSpace(text), "is not running")
	}
	return false
}

// callError is a request that got no answer of PVE's.
type callError struct {
	method, path, endpoint string
	kind                   error // a sentinel, or nil
	err                    error
	timedOut               bool // its own time was up
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s %s at %s: %s", e.method, e.path, e.endpoint, e.err)
}

// Hint says how to mend a certificate that is not trusted, and where to look when nothing answers.
func (e *callError) Hint() string {
	switch e.kind {
	case ErrTLS:
		return tlsFix(e.err, e.endpoint)
	case ErrUnreachable:
		return endpointFix(e.endpoint)
	}
	return ""
}

func endpointFix(endpoint string) string {
	return fmt.Sprintf(
		"check proxmox.endpoint (now %s) and that the host is up: curl -k %s/api2/json/version (401 is a good sign)",
		endpoint, endpoint,
	)
}

func (e *callError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// notPVEError is a success answer that no Proxmox VE API would give.
type notPVEError struct{ contentType string }

func (e *notPVEError) Error() string {
	return fmt.Sprintf("the answer is not JSON but %q: is this the address of a Proxmox VE API", e.contentType)
}

// explain turns an error of go-proxmox, net/http or the transport into one of this package's.
func (c *Client) explain(parent, limited context.Context, method, path string, err error) error {
	if api, ok := errors.AsType[*APIError](err); ok {
		return api
	}
	call := &callError{method: method, path: path, endpoint: c.endpoint, err: err}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		call.err = wrapped.Err // the URL is in the message already
	}
	switch {
	case parent.Err() != nil:
		call.err = context.Cause(parent)
	case limited.Err() != nil:
		call.kind, call.err, call.timedOut = ErrUnreachable, fmt.Errorf("no answer within %s", c.timeout), true
	case isTLS(err):
		call.kind, call.err = ErrTLS, describeTLS(err)
	case isNetwork(err):
		call.kind = ErrUnreachable
	}
	return call
}

// TimedOut reports whether a request's own time was up before there was an answer: what was asked may be slow only.
func TimedOut(err error) bool {
	call, ok := errors.AsType[*callError](err)
	return ok && call.timedOut
}

// CallTimeoutFix is how doctor, whose requests have little time, waits longer for each.
const CallTimeoutFix = "where it is slow only, let doctor wait longer for each answer with --proxmox-call-timeout"

func isNetwork(err error) bool {
	if _, ok := errors.AsType[*notPVEError](err); ok {
		return false
	}
	_, op := errors.AsType[*net.OpError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	_, request := errors.AsType[*url.Error](err)
	return op || dns || request
}
