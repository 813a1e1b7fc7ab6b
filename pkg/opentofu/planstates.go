package opentofu

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// States in a plan file, which is a zip archive: as it was found, and as it was after the refresh. (Read in the source of both programs.)
const (
	stateFound     = "tfstate-prev"
	stateRefreshed = "tfstate"
	largestState   = 64 << 20
)

// sameState reports whether the refresh of a plan has found nothing but what is only ever read. To have the whole plan shown takes as long
// as to make it. What cannot be read so, such as a plan that is encrypted, is not known to be the same.
func sameState(path string, observed func(attribute string) bool) bool {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return false
	}
	defer func() { _ = archive.Close() }()
	found, foundErr := leavesOf(&archive.Reader, stateFound, observed)
	refreshed, refreshedErr := leavesOf(&archive.Reader, stateRefreshed, observed)
	return errors.Join(foundErr, refreshedErr) == nil && maps.Equal(found, refreshed)
}

// leavesOf are all values of the resources of a state in a plan file, by resource and path.
func leavesOf(archive *zip.Reader, name string, observed func(string) bool) (map[string]string, error) {
	file, err := archive.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var s struct {
		Version   int             `json:"version"`
		Resources []stateResource `json:"resources"`
	}
	if err := json.NewDecoder(io.LimitReader(file, largestState)).Decode(&s); err != nil {
		return nil, err
	}
	if s.Version != 4 {
		return nil, fmt.Errorf("a state of version %d", s.Version)
	}
	values := map[string]string{}
	for _, resource := range s.Resources {
		if resource.Mode != "managed" {
			continue
		}
		for _, i := range resource.Instances {
			of := fmt.Sprintf("%s|%s|%s|%v", resource.Module, resource.Type, resource.Name, i.Key)
			values[of] = i.Status
			leaves(nil, i.Attributes, func(path string, leaf any) {
				if top, _, _ := strings.Cut(path, "."); !observed(top) {
					values[of+"|"+path] = fmt.Sprintf("%T %v", leaf, leaf)
				}
			})
		}
	}
	return values, nil
}
