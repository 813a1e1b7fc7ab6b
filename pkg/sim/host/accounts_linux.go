package host

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account is a line of /etc/passwd. The files are read here, not by os/user: a machine's accounts are in its own files,
// whatever name service the real machine uses.
type account struct {
	Name  string
	UID   int
	GID   int
	Home  string
	Shell string
}

// lookupAccount finds a user in root/etc/passwd by name or, if name is all digits, by number.
func lookupAccount(root, name string) (account, bool) {
	uid := -1
	if n, err := strconv.Atoi(name); err == nil {
		uid = n
	}
	for _, f := range readTable(filepath.Join(root, "etc/passwd")) {
		if len(f) < 7 {
			continue
		}
		a := account{Name: f[0], Home: f[5], Shell: f[6]}
		a.UID, _ = strconv.Atoi(f[2])
		a.GID, _ = strconv.Atoi(f[3])
		if a.Name == name || uid >= 0 && a.UID == uid {
			if a.Shell == "" {
				a.Shell = "/bin/sh"
			}
			return a, true
		}
	}
	return account{}, false
}

// groupsOf lists the groups of a user in root/etc/group, its own first.
func groupsOf(root string, a account) []int {
	gids := []int{a.GID}
	for _, f := range readTable(filepath.Join(root, "etc/group")) {
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), a.Name) {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil && gid != a.GID {
			gids = append(gids, gid)
		}
	}
	return gids
}

func readTable(path string) [][]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var rows [][]string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		rows = append(rows, strings.Split(sc.Text(), ":"))
	}
	return rows
}

// createAccount adds a user with its own group to root's files, as cloud-init's useradd does, with a locked password. A
// user that exists stays as it is.
func createAccount(root, name string) (account, error) {
	if a, ok := lookupAccount(root, name); ok {
		return a, nil
	}
	a := account{Name: name, Home: "/home/" + name, Shell: "/bin/bash"}
	if executable(filepath.Join(root, a.Shell)) != nil {
		a.Shell = "/bin/sh"
	}
	a.UID = freeID(root)
	a.GID = a.UID
	lines := map[string]string{
		"etc/passwd": fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", name, a.UID, a.GID, name, a.Home, a.Shell),
		"etc/group":  fmt.Sprintf("%s:x:%d:\n", name, a.GID),
		"etc/shadow": fmt.Sprintf("%s:!:19700:0:99999:7:::\n", name),
	}
	for file, line := range lines {
		if err := appendLine(filepath.Join(root, file), line); err != nil {
			return account{}, fmt.Errorf("create user %s: %w", name, err)
		}
	}
	if err := joinGroups(filepath.Join(root, "etc/group"), name, "adm", "sudo"); err != nil {
		return account{}, fmt.Errorf("create user %s: %w", name, err)
	}
	return a, makeHome(root, a)
}

// freeID is the first number from 1000 that neither a user nor a group has.
func freeID(root string) int {
	used := map[string]bool{}
	for _, file := range []string{"etc/passwd", "etc/group"} {
		for _, f := range readTable(filepath.Join(root, file)) {
			if len(f) > 2 {
				used[f[2]] = true
			}
		}
	}
	id := 1000
	for used[strconv.Itoa(id)] {
		id++
	}
	return id
}

func appendLine(path, line string) error {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	mode := fs.FileMode(0o644)
	if filepath.Base(path) == "shadow" {
		mode = 0o640
	}
	return os.WriteFile(path, append(b, line...), mode)
}

func joinGroups(path, user string, groups ...string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		f := strings.Split(line, ":")
		if len(f) != 4 || !slices.Contains(groups, f[0]) {
			continue
		}
		f[3] = strings.TrimPrefix(f[3]+","+user, ",")
		lines[i] = strings.Join(f, ":")
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}

// makeHome makes a user's home directory from /etc/skel.
func makeHome(root string, a account) error {
	home := filepath.Join(root, a.Home)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", a.Home, err)
	}
	skel, _ := os.ReadDir(filepath.Join(root, "etc/skel"))
	for _, e := range skel {
		b, err := os.ReadFile(filepath.Join(root, "etc/skel", e.Name()))
		if !e.Type().IsRegular() || err != nil {
			continue
		}
		if err := writeOwned(filepath.Join(home, e.Name()), b, 0o644, a); err != nil {
			return err
		}
	}
	return chown(home, a)
}

func writeOwned(path string, b []byte, mode fs.FileMode, a account) error {
	if err := os.WriteFile(path, b, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return chown(path, a)
}

// chown gives a file to a user; without privileges everything belongs to one user anyway.
func chown(path string, a account) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, a.UID, a.GID)
}

// lookupGroup finds a group's number in root/etc/group.
func lookupGroup(root, name string) (int, bool) {
	for _, f := range readTable(filepath.Join(root, "etc/group")) {
		if len(f) >= 3 && f[0] == name {
			gid, err := strconv.Atoi(f[2])
			return gid, err == nil
		}
	}
	return 0, false
}
