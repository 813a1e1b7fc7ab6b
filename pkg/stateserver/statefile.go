package stateserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// stateFile is what the server reads of a state.
type stateFile struct {
	serial    uint64
	lineage   string
	encrypted bool // by OpenTofu, but for serial and lineage
}

// mostLineage is the most characters of a lineage; those of both programs are UUIDs.
const mostLineage = 128

// parseState reads what a client has sent as a state, plain or encrypted by OpenTofu.
func parseState(data []byte) (stateFile, error) {
	var s stateFile
	var fields map[string]json.RawMessage // keys as they are: a struct would take Serial for serial
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return s, errors.New("the body is no JSON object")
	}
	_, s.encrypted = fields["encrypted_data"]
	if _, versioned := fields["version"]; !versioned && !s.encrypted {
		return s, errors.New("the body is no state: it has neither version nor encrypted_data")
	}
	serial, err := strconv.ParseUint(string(fields["serial"]), 10, 64)
	if err != nil {
		return s, errors.New("the body is no state: its serial is no number")
	}
	s.serial = serial
	if err := json.Unmarshal(fields["lineage"], &s.lineage); err != nil || s.lineage == "" || len(s.lineage) > mostLineage {
		return s, errors.New("the body is no state: it has no lineage")
	}
	return s, nil
}

// withSerial is a plain state with another serial, and otherwise the same bytes.
func withSerial(data []byte, serial uint64) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	var changed []byte
	copied := 0
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading the state: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("reading the state: %w", err)
		}
		if key == "serial" {
			end := int(d.InputOffset())
			changed = append(changed, data[copied:end-len(value)]...)
			changed = strconv.AppendUint(changed, serial, 10)
			copied = end
		}
	}
	return append(changed, data[copied:]...), nil
}
