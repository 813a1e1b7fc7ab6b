package suite

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tree is a file, or what is in a directory, that goes to a node: to a path below the suite's working directory there.
type tree struct{ from, to string }

// What is beside a script goes with it up to that much.
const (
	besideBytes = 32 << 20
	besideFiles = 2000
)

// travel finds the files and directories of this machine that a command line names, dir being the working directory
// here (empty: this process's), and returns the line as it is to be run on a node. What is below dir, or in a
// repository, is there at the same place below the suite's working directory; anything else by its name. A script
// brings along what is beside it, unless it lies at the top of these. Words that the shell has to expand first, and
// programs of the system, name nothing here.
func travel(dir, command string) (there string, trees []tree) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return command, nil
	}
	var line strings.Builder
	for len(command) > 0 {
		end := strings.IndexFunc(command, delimits)
		if end < 0 {
			end = len(command)
		}
		word := command[:end]
		if local, info := named(dir, word); info != nil {
			place := placeOf(dir, local)
			aside := free(dir, local, place)
			t := treeOf(local, place, info)
			t.to = path.Join(aside, t.to)
			if !slices.Contains(trees, t) {
				trees = append(trees, t)
			}
			if !filepath.IsLocal(word) {
				word = "./" + path.Join(aside, place)
			}
		}
		line.WriteString(word)
		if end < len(command) {
			line.WriteByte(command[end])
			end++
		}
		command = command[end:]
	}
	return line.String(), trees
}

// delimits tells whether a character ends a word that may be a path.
func delimits(r rune) bool { return strings.ContainsRune(" \t\n;|&()<>=\"'", r) }

// named is the file or directory that a word names, and what it is; nil for none that a suite could want.
func named(dir, word string) (local string, info fs.FileInfo) {
	if word == "" || strings.ContainsAny(word, "$`*?~\\[{") {
		return "", nil
	}
	local = filepath.Clean(word)
	if !filepath.IsAbs(local) {
		local = filepath.Join(dir, word)
	}
	for _, system := range []string{"/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"} {
		if below(local, system) {
			return "", nil
		}
	}
	info, err := os.Stat(local)
	switch {
	case err != nil || below(dir, local): // the working directory, and all above it, are not meant
		return "", nil
	case info.Mode().IsRegular(), info.IsDir() && strings.Contains(word, "/"):
		return local, info
	}
	return "", nil
}

// below tells whether a path is dir or in it.
func below(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && filepath.IsLocal(rel)
}

// placeOf is where a path of this machine is below the working directory of a suite on a node.
func placeOf(dir, local string) string {
	if below(local, dir) {
		rel, _ := filepath.Rel(dir, local)
		return filepath.ToSlash(rel)
	}
	for root := filepath.Dir(local); root != filepath.Dir(root); root = filepath.Dir(root) {
		for _, sign := range []string{".git", "go.mod"} {
			if _, err := os.Stat(filepath.Join(root, sign)); err == nil {
				rel, _ := filepath.Rel(root, local)
				return filepath.ToSlash(rel)
			}
		}
	}
	return filepath.Base(local)
}

// free is the directory below which a path of elsewhere goes so that it is not taken for one of dir: none mostly.
func free(dir, local, place string) (aside string) {
	if below(local, dir) {
		return ""
	}
	for n := 1; ; n++ {
		if _, err := os.Lstat(filepath.Join(dir, aside, place)); err != nil {
			return aside
		}
		aside = "elsewhere-" + strconv.Itoa(n)
	}
}

// treeOf is what goes to a node for one path.
func treeOf(local, place string, info fs.FileInfo) tree {
	script := info.Mode().Perm()&0o111 != 0 || path.Ext(place) == ".sh"
	switch {
	case info.IsDir():
		return tree{local + "/.", place}
	case script && path.Dir(place) != "." && light(filepath.Dir(local)):
		return tree{filepath.Dir(local) + "/.", path.Dir(place)}
	}
	return tree{local, place}
}

// light tells whether a directory is small enough to go along.
func light(dir string) bool {
	files, bytes := 0, int64(0)
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files, bytes = files+1, bytes+info.Size()
		}
		if files > besideFiles || bytes > besideBytes {
			return fs.SkipAll
		}
		return nil
	})
	return err == nil && files <= besideFiles && bytes <= besideBytes
}
