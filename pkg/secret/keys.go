package secret

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"

	"hive-test/pkg/progress"
	"hive-test/pkg/secret/sops"
)

// Keys are the age identities that are there.
type Keys struct {
	Identities []age.Identity
	Recipients []string // public keys of those that tell theirs
	Places     []string // that keys were found in
	Problems   []string // of places that could not be read, each with its place
	missing    []string // places that are looked at, and are not there
}

// FindKeys looks for age identities: in file, which is a setting (empty: none), and where SOPS does: SOPS_AGE_KEY,
// SOPS_AGE_KEY_FILE, the user's keys.txt, SOPS_AGE_SSH_PRIVATE_KEY_FILE and the SSH keys of the user that have no
// passphrase.
func FindKeys(file string, getenv func(string) string) *Keys {
	k := &Keys{}
	if file != "" {
		k.fromFile(file, "age_key_file", true)
	}
	if text := getenv("SOPS_AGE_KEY"); text != "" {
		k.add("SOPS_AGE_KEY", []byte(strings.Join(strings.Fields(text), "\n")))
	}
	if path := getenv("SOPS_AGE_KEY_FILE"); path != "" {
		k.fromFile(path, "SOPS_AGE_KEY_FILE", true)
	}
	if path := UserKeys(getenv); path != "" {
		k.fromFile(path, "", false)
	}
	if path := getenv("SOPS_AGE_SSH_PRIVATE_KEY_FILE"); path != "" {
		k.fromSSH(path, true)
	}
	if home := getenv("HOME"); home != "" {
		k.fromSSH(filepath.Join(home, ".ssh", "id_ed25519"), false)
		k.fromSSH(filepath.Join(home, ".ssh", "id_rsa"), false)
	}
	return k
}

// UserKeys is the file of age identities that SOPS looks for; empty: the user has no home.
func UserKeys(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "sops", "age", "keys.txt")
}

func (k *Keys) fromFile(path, named string, must bool) {
	raw, err := readAll(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && !must:
		k.missing = append(k.missing, path)
	case errors.Is(err, os.ErrNotExist):
		k.Problems = append(k.Problems, fmt.Sprintf("%s (%s): there is no such file", path, named))
	case err != nil:
		k.Problems = append(k.Problems, fmt.Sprintf("%s: %v", path, err))
	default:
		k.add(path, raw)
	}
}

// add takes the identities of a text, one a line. What is none is told by its line alone.
func (k *Keys) add(place string, raw []byte) {
	lines, found := bufio.NewScanner(bytes.NewReader(raw)), 0
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		identities, err := age.ParseIdentities(strings.NewReader(line))
		if err != nil {
			k.Problems = append(k.Problems, fmt.Sprintf("%s:%d: it is no age key that can be used here", place, number))
			continue
		}
		found++
		k.Identities = append(k.Identities, identities...)
		k.Recipients = append(k.Recipients, recipientsOf(identities)...)
	}
	if found > 0 {
		k.Places = append(k.Places, place)
	} else {
		k.Problems = append(k.Problems, place+": it holds no age key")
	}
}

// recipientsOf are the public keys of identities.
func recipientsOf(identities []age.Identity) (texts []string) {
	for _, identity := range identities {
		switch i := identity.(type) {
		case *age.X25519Identity:
			texts = append(texts, i.Recipient().String())
		case *age.HybridIdentity:
			texts = append(texts, i.Recipient().String())
		}
	}
	return texts
}

func (k *Keys) fromSSH(path string, must bool) {
	raw, err := readAll(path)
	if err != nil {
		if must {
			k.Problems = append(k.Problems, path+": it cannot be read")
		}
		return
	}
	identity, err := agessh.ParseIdentity(raw)
	if err != nil { // as one with a passphrase: nobody can be asked
		if must {
			k.Problems = append(k.Problems, path+": it has a passphrase, or is no SSH key that age can use")
		}
		return
	}
	k.Identities, k.Places = append(k.Identities, identity), append(k.Places, path)
}

// Hint says where keys are looked for, and which were found.
func (k *Keys) Hint() string {
	hint := "put the key of one of them into a file that age_key_file or SOPS_AGE_KEY_FILE names"
	if len(k.missing) > 0 {
		hint += ", or into " + k.missing[0]
	}
	if len(k.Places) > 0 {
		hint += "; keys that are here: " + strings.Join(k.Places, ", ")
	} else {
		hint += "; there is no key here"
	}
	for _, problem := range k.Problems {
		hint += "; " + problem
	}
	return hint
}

// armorStart begins a file that age has written as text.
const armorStart = "-----BEGIN AGE"

// Decrypt returns the content of a file that age has encrypted.
func (k *Keys) Decrypt(from io.Reader) ([]byte, error) {
	source := bufio.NewReader(from)
	if start, _ := source.Peek(len(armorStart)); string(start) == armorStart {
		source = bufio.NewReader(armor.NewReader(source))
	}
	if len(k.Identities) == 0 {
		return nil, progress.WithHint(errors.New("there is no age key that could open it"), k.Hint())
	}
	opened, err := age.Decrypt(source, k.Identities...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return nil, progress.WithHint(errors.New("no age key that is here opens it"), k.Hint())
	}
	if err != nil {
		return nil, errors.New("it is damaged, or was not encrypted by age")
	}
	content, err := io.ReadAll(io.LimitReader(opened, mostBytes+1))
	switch {
	case err != nil:
		return nil, errors.New("it is damaged: it was changed after it was encrypted")
	case len(content) > mostBytes:
		return nil, fmt.Errorf("it is larger than %d MiB", mostBytes>>20)
	}
	return content, nil
}

// ParseRecipient reads a public key: age1…, or ssh-ed25519 and ssh-rsa as SSH writes them.
func ParseRecipient(text string) (sops.Recipient, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "ssh-") {
		key, err := agessh.ParseRecipient(text)
		if err != nil {
			return sops.Recipient{}, fmt.Errorf("%q is no SSH key that age can use", text)
		}
		return sops.Recipient{Text: text, Key: key}, nil
	}
	keys, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil || len(keys) != 1 || strings.HasPrefix(text, "AGE-SECRET") {
		return sops.Recipient{}, errors.New("it is no public key of age, age1…")
	}
	return sops.Recipient{Text: text, Key: keys[0]}, nil
}

// NewKey makes an age identity, as its file has it, and its public key.
func NewKey(made string) (file []byte, recipient string, err error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", err
	}
	recipient = key.Recipient().String()
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", made, recipient, key), recipient, nil
}
