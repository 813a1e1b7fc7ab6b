package template

import "strings"

// Upstream is where hive's own Makefile is, whose targets install what hive needs. The zero value has none.
type Upstream struct {
	Path   string // of the Makefile on this machine; or else it is that of a repository
	SHA256 string
	Repo   string // its URL, which may have a password
	Ref    string
}

// Named reports whether there is a Makefile to look at.
func (u Upstream) Named() bool { return u.Path != "" || u.Repo != "" }

// HasTargets reports whether a Makefile has all targets that install what hive needs: upstream.sh calls them.
func HasTargets(makefile string) bool {
	for _, target := range []string{"install-system", "install-go", "install-aws"} {
		if !strings.Contains("\n"+makefile, "\n"+target+":") {
			return false
		}
	}
	return true
}
