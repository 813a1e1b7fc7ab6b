package sshd

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Login is what a key may be used for. The zero value is no limit.
type Login struct {
	// Command, if set, is run in place of whatever the client asks for, which is in SSH_ORIGINAL_COMMAND then.
	Command string
	// Restricted keys get no terminal and forward nothing.
	Restricted bool
}

// Find looks for key in the text of an authorized_keys file, as sshd(8) describes it, and reports whether it may log in
// at the time now. Of the options it knows command, restrict and expiry-time; a line with another one, or that it
// cannot read, admits nobody, as with OpenSSH.
func Find(authorizedKeys []byte, key ssh.PublicKey, now time.Time) (Login, bool) {
	for line := range bytes.Lines(authorizedKeys) {
		listed, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil || !bytes.Equal(listed.Marshal(), key.Marshal()) {
			continue
		}
		if login, ok := loginBy(options, now); ok {
			return login, true
		}
	}
	return Login{}, false
}

func loginBy(options []string, now time.Time) (login Login, ok bool) {
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`), `\"`, `"`)
		switch strings.ToLower(name) {
		case "restrict":
			login.Restricted = true
		case "command":
			login.Command = value
		case "expiry-time":
			if !valid(value, now) {
				return Login{}, false
			}
		default:
			return Login{}, false
		}
	}
	return login, true
}

// valid reports whether now is before a time of the form YYYYMMDD[HHMM[SS]], which is in the zone of the server.
func valid(until string, now time.Time) bool {
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if at, err := time.ParseInLocation(layout, until, time.Local); err == nil {
			return now.Before(at)
		}
	}
	return false
}
