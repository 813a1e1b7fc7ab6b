package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/gateway/wire"
)

// Fault makes answers to an action go wrong. It is data, from a file.
type Fault struct {
	Action string `json:"action"` // * for all
	// Nth is the first request of the action that goes wrong, counted from 1 (0 is 1), and Times how many do from there: 0
	// for all.
	Nth   int `json:"nth,omitempty"`
	Times int `json:"times,omitempty"`
	// Code and Status are answered in place of what was asked for, which is not done: InvalidAction, RequestLimitExceeded.
	Code   string `json:"code,omitempty"`
	Status int    `json:"status,omitempty"` // 400 if it is not set
	// Root is that of an error's document: ErrorResponse, as in IAM, in place of Response.
	Root string `json:"root,omitempty"`
	// Empty answers well, and with nothing in it.
	Empty bool `json:"empty,omitempty"`
	// Delay holds the answer back, like 1.5s.
	Delay string `json:"delay,omitempty"`

	delay time.Duration
	seen  int
}

// Faults are those of an endpoint. They are safe for concurrent use.
type Faults struct {
	mu  sync.Mutex
	all []*Fault
}

// ReadFaults reads a list of faults from a JSON file.
func ReadFaults(file string) (*Faults, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	f := &Faults{}
	if err := decoder.Decode(&f.all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, fault := range f.all {
		if err := fault.check(); err != nil {
			return nil, fmt.Errorf("%s: fault %d: %w", file, i+1, err)
		}
	}
	return f, nil
}

func (f *Fault) check() (err error) {
	switch {
	case f.Action != "*" && !wire.Knows(f.Action) && !slices.Contains(stsActions(), f.Action):
		return fmt.Errorf("there is no action %q", f.Action)
	case f.Root != "" && f.Root != "ErrorResponse":
		return fmt.Errorf("root %q is not ErrorResponse", f.Root)
	case f.Code == "" && !f.Empty && f.Delay == "" && f.Root == "":
		return fmt.Errorf("it does nothing: give code, empty, root or delay")
	case f.Delay != "":
		f.delay, err = time.ParseDuration(f.Delay)
	}
	return err
}

// at returns the fault of a request to an action; nil: it has none.
func (f *Faults) at(action string) *Fault {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.all {
		if fault.Action != "*" && fault.Action != action {
			continue
		}
		fault.seen++
		first := max(fault.Nth, 1)
		if fault.seen >= first && (fault.Times == 0 || fault.seen < first+fault.Times) {
			return fault
		}
	}
	return nil
}

// failure is the error that a fault answers with; nil: none.
func (f *Fault) failure() *wire.Error {
	if f.Code == "" {
		return nil
	}
	status := f.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	failure := &wire.Error{Code: f.Code, Message: "The answer is spoilt by a fault.", Status: status}
	if f.Code == wire.InvalidAction {
		failure.Message = wire.Unknown(f.Action).Message
	}
	return failure
}
