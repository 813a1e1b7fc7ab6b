package stateserver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// mostName is the most characters that the name of a state has: keys are names with some more, and file systems and object
// storages bear 255 to a part and 1024 in all.
const mostName = 200

// CheckName says what is wrong with the name of a state. Upper case is refused, for some file systems do not tell it from
// lower case, and two states would be one there.
func CheckName(name string) error {
	if len(name) > mostName {
		return fmt.Errorf("a state's name has at most %d characters", mostName)
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$`).MatchString(name) {
		return fmt.Errorf("%.80q is no name of a state: lower-case letters, digits, '.', '_' and '-', in parts with '/' between, "+
			"each of which begins with a letter or a digit", name)
	}
	return nil
}

// Keys. No part of a state's name begins with '_', so that those of one are never below those of another.

func logPrefix(name string) string     { return "states/" + name + "/_log/" }
func versionPrefix(name string) string { return "states/" + name + "/_versions/" }

func logKey(name string, seq int64) string { return fmt.Sprintf("%s%015d", logPrefix(name), seq) }

// versionName is the name of the object of a version. Whoever loses the race for a number leaves the object of the winner
// alone, for each has an id of its own.
func versionName(number int64, id string) string { return fmt.Sprintf("%012d-%s", number, id) }

// namesPrefix is what the keys begin with that tell which states there are.
const namesPrefix = "server/names/"

// nameKey is the key of the object that says that there is a state. The name is one part of it, so that all are listed at
// once.
func nameKey(name string) string { return namesPrefix + strings.ReplaceAll(name, "/", "~") }

// nameOfKey is the name of a state by such a key.
func nameOfKey(key string) string {
	return strings.ReplaceAll(strings.TrimPrefix(key, namesPrefix), "~", "/")
}

// numberOf is the number that the last part of a key begins with; 0: none.
func numberOf(key string) int64 {
	digits, _, _ := strings.Cut(path.Base(key), "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newID is an id that no other has.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // does not fail
	return hex.EncodeToString(raw[:])
}
