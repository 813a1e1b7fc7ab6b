package pve

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The versions of Proxmox VE that the simulator can be.
const (
	Version84 = "8.4"
	Version92 = "9.2"
)

//go:embed schema.json
var schemaJSON []byte

// property is the description of one parameter, or of one key inside a property string.
type property struct {
	Type       string               `json:"type,omitempty"`
	Optional   bool                 `json:"optional,omitempty"`
	Enum       []string             `json:"enum,omitempty"`
	Format     string               `json:"format,omitempty"`
	Keys       map[string]*property `json:"keys,omitempty"` // of a property string
	Pattern    string               `json:"pattern,omitempty"`
	Minimum    *float64             `json:"minimum,omitempty"`
	Maximum    *float64             `json:"maximum,omitempty"`
	MinLength  int                  `json:"minLength,omitempty"`
	MaxLength  int                  `json:"maxLength,omitempty"`
	Requires   string               `json:"requires,omitempty"`
	Alias      string               `json:"alias,omitempty"`
	DefaultKey bool                 `json:"default_key,omitempty"`

	re *regexp.Regexp // Pattern, anchored
}

// method is what is published of one method of one path.
type method struct {
	Params  map[string]int `json:"params,omitempty"` // name to index into the shared properties
	Check   any            `json:"check,omitempty"`  // permission check, a nested list
	World   bool           `json:"world,omitempty"`  // needs no login
	NoToken bool           `json:"no_token,omitempty"`
	Proxied bool           `json:"proxied,omitempty"` // handled by the hypervisor that the path names

	props map[string]*property
}

// schemaFile is the embedded table: properties are shared between methods and versions, since most repeat.
type schemaFile struct {
	Properties []*property                              `json:"properties"`
	Versions   map[string]map[string]map[string]*method `json:"versions"` // version, path, HTTP method
}

// indexed is how often a numbered option ("net[n]") can occur; the published tables leave the counts out.
func indexed(name string) int {
	counts := map[string]int{
		"net": 32, "ide": 4, "sata": 6, "scsi": 31, "virtio": 16, "ipconfig": 32, "hostpci": 16, "usb": 14,
		"serial": 4, "parallel": 3, "numa": 8, "unused": 256, "virtiofs": 10,
	}
	return counts[name]
}

// parsedSchema is decoded once per process: it is the same for every server and never changed.
var parsedSchema = sync.OnceValues(func() (*schemaFile, error) {
	var f schemaFile
	if err := json.Unmarshal(schemaJSON, &f); err != nil {
		return nil, fmt.Errorf("read the embedded API table: %w", err)
	}
	for _, p := range f.Properties {
		p.compile()
	}
	for _, paths := range f.Versions {
		for _, methods := range paths {
			for _, m := range methods {
				m.props = expandIndexed(m.Params, f.Properties)
			}
		}
	}
	return &f, nil
})

func expandIndexed(params map[string]int, shared []*property) map[string]*property {
	props := make(map[string]*property, len(params))
	for name, i := range params {
		base, numbered := strings.CutSuffix(name, "[n]")
		if !numbered {
			props[name] = shared[i]
			continue
		}
		for n := range indexed(base) {
			props[base+strconv.Itoa(n)] = shared[i]
		}
	}
	return props
}

// apiTable returns the paths of a version.
func apiTable(version string) (map[string]map[string]*method, error) {
	f, err := parsedSchema()
	if err != nil {
		return nil, err
	}
	t, ok := f.Versions[version]
	if !ok {
		return nil, fmt.Errorf("no Proxmox VE %q here: choose %s or %s", version, Version84, Version92)
	}
	return t, nil
}
