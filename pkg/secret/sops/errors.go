package sops

import (
	"errors"
	"fmt"
	"strings"
)

// ErrPlain means that a file is not encrypted. To try again is of no use.
var ErrPlain = errors.New("it is not encrypted by SOPS")

// ErrMAC means that a file was changed by somebody who has not its key: a value was added, removed or exchanged.
var ErrMAC = errors.New("its MAC is wrong: it was changed after it was encrypted, and nothing of it can be trusted")

// UnsupportedError says why a file needs the program sops.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return "only the program sops can do that: " + e.What
}

// KeyError says that none of the identities that are there opens a file, and whose would.
type KeyError struct {
	Recipients []string // public keys of age
	Others     []string // kinds of other keys: kms, pgp …
}

func (e *KeyError) Error() string {
	switch {
	case len(e.Recipients) == 0:
		return "it is encrypted with keys of " + strings.Join(e.Others, ", ") + ", none of age"
	default:
		return "no age key that is here opens it; it is encrypted for " + strings.Join(e.Recipients, ", ")
	}
}

// PathError says that there is no such value in a document.
type PathError struct {
	Path []string
	Why  string
	Keys []string // that are there instead
}

func (e *PathError) Error() string {
	text := fmt.Sprintf("%s: %s", JoinPath(e.Path), e.Why)
	if len(e.Keys) > 0 {
		text += " (there are " + strings.Join(e.Keys, ", ") + ")"
	}
	return text
}

// SplitPath reads keys with dots between; \. is a dot within a key.
func SplitPath(path string) []string {
	var keys []string
	var key strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			key.WriteByte(path[i])
		case path[i] == '.':
			keys = append(keys, key.String())
			key.Reset()
		default:
			key.WriteByte(path[i])
		}
	}
	return append(keys, key.String())
}

// JoinPath writes what SplitPath reads.
func JoinPath(keys []string) string {
	escape := strings.NewReplacer(`\`, `\\`, ".", `\.`)
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = escape.Replace(key)
	}
	return strings.Join(escaped, ".")
}
