package report

import (
	"bytes"
	"encoding/json"
)

// JSON returns r as an indented JSON object (see Report for its shape), ending in a line end.
func JSON(r Report) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	// What Build makes of events always encodes: strings, finite numbers, and times that were JSON before.
	_ = encoder.Encode(r)
	return b.Bytes()
}
