package stateserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// user is who may use the server.
type user struct {
	name string
	hash []byte // bcrypt
	// scopes are the names of states that the user may have: all below, with a slash at the end; all that begin so, with a
	// star; else that one. Nil: all there are.
	scopes []string
}

// may reports whether the user may have the state of a name.
func (u user) may(name string) bool {
	if u.scopes == nil {
		return true
	}
	for _, scope := range u.scopes {
		start, star := strings.CutSuffix(scope, "*")
		if name == scope || (star || strings.HasSuffix(scope, "/")) && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// parseUsers reads lines NAME:HASH[:SCOPE,SCOPE…]. Empty lines and those that begin with # say nothing. Errors name the line,
// and show nothing of it.
func parseUsers(text string) (map[string]user, error) {
	users := map[string]user{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		u, err := parseUser(line)
		if err == nil && users[u.name].name != "" {
			err = fmt.Errorf("user %s is there twice", u.name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		users[u.name] = u
	}
	if len(users) == 0 {
		return nil, errors.New("there is no user in it")
	}
	return users, nil
}

func parseUser(line string) (user, error) {
	fields := strings.Split(line, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return user{}, errors.New("it is not NAME:HASH or NAME:HASH:NAMES")
	}
	u := user{name: fields[0], hash: []byte(fields[1])}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`).MatchString(u.name) {
		return user{}, errors.New("a user's name is letters, digits, '.', '_', '@' and '-', 64 at most")
	}
	cost, err := bcrypt.Cost(u.hash)
	if err != nil || len(u.hash) != bcryptLength {
		return user{}, fmt.Errorf("user %s has no bcrypt hash, as `htpasswd -nB %[1]s` prints it", u.name)
	}
	if cost > mostCost {
		return user{}, fmt.Errorf("the hash of user %s has cost %d, and %d is the most: each check would take seconds", u.name, cost, mostCost)
	}
	if len(fields) == 2 {
		return u, nil
	}
	for scope := range strings.SplitSeq(fields[2], ",") {
		scope = strings.TrimSpace(scope)
		if err := checkScope(scope); err != nil {
			return user{}, fmt.Errorf("user %s: %w", u.name, err)
		}
		u.scopes = append(u.scopes, scope)
	}
	return u, nil
}

const (
	bcryptLength = 60
	mostCost     = 14
	mostPassword = 72 // bytes, of which bcrypt takes no more
)

func checkScope(scope string) error {
	start := strings.TrimSuffix(strings.TrimSuffix(scope, "*"), "/")
	if strings.HasSuffix(scope, "*") && strings.HasSuffix(scope, "/*") || start == "" {
		return fmt.Errorf("%q is no name of states: say ci/ for all below ci, ci-* for all that begin so, or ci for that one", scope)
	}
	return CheckName(strings.TrimRight(start, "._-"))
}

// usersFile is who may use the server, as a file says it. It is read again when it has changed; what is wrong then is logged,
// and who was in it before stays. Safe for concurrent use.
type usersFile struct {
	path string
	warn func(error)

	mu    sync.Mutex
	users map[string]user
	dummy []byte // a hash, for users that there are not
	seen  fileVersion
	// secret keys the sums of passwords that were right, by user.
	secret [32]byte
	right  map[string][]byte
}

// fileVersion tells a file from what it was before.
type fileVersion struct {
	modified time.Time
	size     int64
	info     fs.FileInfo
}

func (v fileVersion) same(o fileVersion) bool {
	return v.info != nil && o.info != nil && v.modified.Equal(o.modified) && v.size == o.size && os.SameFile(v.info, o.info)
}

// openUsers reads a file of users. Warn is told what is wrong with it when it is read again.
func openUsers(path string, warn func(error)) (*usersFile, error) {
	f := &usersFile{path: path, warn: warn}
	_, _ = rand.Read(f.secret[:]) // does not fail
	seen, err := f.stat()
	if err == nil {
		err = f.load()
	}
	if err != nil {
		return nil, fmt.Errorf("reading users of %s: %w", path, err)
	}
	f.seen = seen
	return f, nil
}

func (f *usersFile) stat() (fileVersion, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return fileVersion{}, err
	}
	return fileVersion{modified: info.ModTime(), size: info.Size(), info: info}, nil
}

// load reads the file. Hashes of passwords that anybody could write would be no protection.
func (f *usersFile) load() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return errors.New("others may write it: chmod go-w makes it safe")
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	users, err := parseUsers(string(text))
	if err != nil {
		return err
	}
	cost := bcrypt.MinCost
	for _, u := range users {
		c, _ := bcrypt.Cost(u.hash) // was read already
		cost = max(cost, c)
	}
	dummy, err := bcrypt.GenerateFromPassword([]byte(newID()), cost)
	if err != nil {
		return err
	}
	f.users, f.dummy, f.right = users, dummy, map[string][]byte{}
	return nil
}

// refresh reads the file again if it has changed.
func (f *usersFile) refresh() {
	now, err := f.stat()
	if err != nil || now.same(f.seen) {
		return // a file that is being replaced is there again in a moment
	}
	f.seen = now
	if err := f.load(); err != nil {
		f.warn(fmt.Errorf("the users stay as they were, for %s cannot be read: %w", f.path, err))
	}
}

// attempt is a name and a password that are to be checked.
type attempt struct {
	user  user
	known bool // there is such a user
	right bool // the password was right before
	hash  []byte
	sum   []byte
}

// begin looks up who a name and a password may be. It takes no time to speak of.
func (f *usersFile) begin(name, password string) attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	a := attempt{hash: f.dummy}
	a.user, a.known = f.users[name]
	if a.known {
		a.hash = a.user.hash
	}
	mac := hmac.New(sha256.New, f.secret[:])
	fmt.Fprintf(mac, "%d %s %s %s", len(name), name, a.hash, password)
	a.sum = mac.Sum(nil)
	a.right = a.known && subtle.ConstantTimeCompare(f.right[name], a.sum) == 1
	return a
}

// check reports whether the password is right: a tenth of a second of work, whether there is such a user or not.
func (f *usersFile) check(a attempt, password string) bool {
	long := len(password) > mostPassword
	same := bcrypt.CompareHashAndPassword(a.hash, []byte(password[:min(len(password), mostPassword)])) == nil
	if !same || long || !a.known {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[a.user.name].name != "" { // else it was deleted meanwhile
		f.right[a.user.name] = a.sum
	}
	return true
}
