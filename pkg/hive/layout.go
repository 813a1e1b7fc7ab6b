package hive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// layout is how hive is installed on the nodes.
func (o Options) layout() string { return cmp.Or(o.Layout, LayoutAuto) }

// layoutProblem says why nothing can be installed in the layout that was asked for, or nothing. Whether hive is on the
// nodes already with units only they can tell.
func (o Options) layoutProblem() error {
	if o.layout() != LayoutSystemd {
		return nil
	}
	for _, source := range []struct{ flag, value string }{
		{"--binary", o.Binary}, {"--source-dir", o.SourceDir}, {"--repo", o.Repo},
	} {
		if source.value != "" {
			return fmt.Errorf("--layout systemd is for a release, whose setup.sh installs the units: use --tarball in place of %s, "+
				"or --layout auto to put another program where the nodes have units", source.flag)
		}
	}
	if o.Tarball == "" {
		return nil
	}
	found, err := inRelease(o.Tarball, func(header *tar.Header) bool { return path.Base(header.Name) == "setup.sh" })
	if err == nil && !found { // it cannot install itself
		err = errors.New("the release holds no setup.sh: use one that does, or --layout dev")
	}
	if err != nil {
		return fmt.Errorf("--layout systemd: %s: %w", o.Tarball, err)
	}
	return nil
}

// tarballProblem says why no release can be unpacked from the tarball: it is looked at before it is sent. One that is not
// there is told of elsewhere, and what a release needs that installs itself by layoutProblem.
func (o Options) tarballProblem() error {
	if info, err := os.Stat(o.Tarball); err != nil || !info.Mode().IsRegular() || o.layout() == LayoutSystemd {
		return nil
	}
	found, err := inRelease(o.Tarball, func(header *tar.Header) bool {
		name := path.Clean(header.Name) // as install-tarball.sh looks for it
		return header.Typeflag == tar.TypeReg && strings.Count(name, "/") < 3 &&
			slices.Contains([]string{"hive", "spinifex", "spx"}, path.Base(name))
	})
	if err == nil && !found {
		err = errors.New("the release holds no program: neither hive, spinifex nor spx")
	}
	if err != nil {
		return fmt.Errorf("--tarball %s: %w", o.Tarball, err)
	}
	return nil
}

// inRelease tells whether a release holds something that is wanted, after which it reads no further.
func inRelease(name string, wanted func(*tar.Header) bool) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return false, errors.New("it is not a tar archive that gzip has compressed")
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("it is not a tar archive that gzip has compressed: %w", err)
		case wanted(header):
			return true, nil
		}
	}
}
