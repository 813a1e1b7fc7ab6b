package stateserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// Keys are what objects are encrypted with, by age. The zero value encrypts nothing and reads plain objects.
type Keys struct {
	Recipients []age.Recipient
	Identities []age.Identity
}

// Objects are a line, "hive-test-state 1 plain|age LENGTH…", and parts of those lengths. Each part is encrypted by itself, so
// that the first can be read without the others.

const frameWord = "hive-test-state"

// mostHead is so much of an object that its line and its first part are within, but where there are dozens of recipients.
const mostHead = 8 << 10

// mostPart is the most bytes that a part of an object can have.
const mostPart = 1 << 30

// errDamaged means that an object is not as it was written.
var errDamaged = errors.New("the object is damaged")

// seal makes an object of parts.
func (k Keys) seal(parts ...[]byte) ([]byte, error) {
	form := "plain"
	if len(k.Recipients) > 0 {
		form = "age"
		for i, part := range parts {
			sealed, err := k.encrypt(part)
			if err != nil {
				return nil, fmt.Errorf("encrypting: %w", err)
			}
			parts[i] = sealed
		}
	}
	object := fmt.Appendf(nil, "%s 1 %s", frameWord, form)
	for _, part := range parts {
		object = fmt.Appendf(object, " %d", len(part))
	}
	object = append(object, '\n')
	for _, part := range parts {
		object = append(object, part...)
	}
	return object, nil
}

func (k Keys) encrypt(part []byte) ([]byte, error) {
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, k.Recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(part); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return sealed.Bytes(), nil
}

func (k Keys) decrypt(part []byte) ([]byte, error) {
	if len(k.Identities) == 0 {
		return nil, errors.New("the object is encrypted, and the server has no identity of age")
	}
	r, err := age.Decrypt(bytes.NewReader(part), k.Identities...)
	if err != nil {
		return nil, fmt.Errorf("decrypting: %w", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w: decrypting: %w", errDamaged, err)
	}
	return plain, nil
}

// frame is the first line of an object.
type frame struct {
	encrypted bool
	lengths   []int
	start     int // of the first part
}

func parseFrame(object []byte) (frame, error) {
	line, _, whole := bytes.Cut(object[:min(len(object), 200)], []byte("\n"))
	fields := bytes.Fields(line)
	if !whole || len(fields) < 4 || string(fields[0]) != frameWord {
		return frame{}, errDamaged
	}
	if string(fields[1]) != "1" {
		return frame{}, fmt.Errorf("the object is of a later version of this program (%.20q)", fields[1])
	}
	f := frame{start: len(line) + 1, encrypted: string(fields[2]) == "age"}
	for _, field := range fields[3:] {
		n := 0
		if _, err := fmt.Sscanf(string(field), "%d", &n); err != nil || n < 0 || n > mostPart {
			return frame{}, errDamaged
		}
		f.lengths = append(f.lengths, n)
	}
	return f, nil
}

// open returns all parts of an object.
func (k Keys) open(object []byte) ([][]byte, error) {
	f, err := parseFrame(object)
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	rest := object[f.start:]
	for _, n := range f.lengths {
		if n > len(rest) {
			return nil, errDamaged
		}
		part := rest[:n]
		rest = rest[n:]
		if f.encrypted {
			if part, err = k.decrypt(part); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part)
	}
	if len(rest) > 0 {
		return nil, errDamaged
	}
	return parts, nil
}

// openFirst returns the first part of an object of which the start was read. Missing is how many bytes have to be read
// instead; 0: none.
func (k Keys) openFirst(start []byte) (part []byte, missing int, err error) {
	f, err := parseFrame(start)
	if err != nil {
		return nil, 0, err
	}
	end := f.start + f.lengths[0]
	if end > len(start) {
		return nil, end, nil
	}
	part = start[f.start:end]
	if f.encrypted {
		part, err = k.decrypt(part)
	}
	return part, 0, err
}
