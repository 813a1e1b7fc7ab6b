package stateserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// KeyOptions are what keys are made of. All empty: nothing is encrypted.
type KeyOptions struct {
	Recipients []string // of age
	Identities string   // content of a file of identities of age
	// Passphrase stands in place of identities. One is made and kept in the storage, encrypted with it: to ask for the
	// passphrase itself with every object would take a second each time.
	Passphrase string
	work       int // of scrypt, as a power of two; 0: as much as age takes, which is about a second
}

// identityKey is the key of the object that holds the identity of a storage with a passphrase.
const identityKey = "server/identity.age"

// OpenKeys returns the keys of a storage.
func OpenKeys(ctx context.Context, s Storage, o KeyOptions) (Keys, error) {
	var k Keys
	var err error
	switch {
	case o.Passphrase != "" && o.Identities != "":
		return k, errors.New("there are both a passphrase and identities of age: which of them?")
	case o.Passphrase != "":
		k.Identities, err = keptIdentity(ctx, s, o)
	case o.Identities != "":
		if k.Identities, err = age.ParseIdentities(strings.NewReader(o.Identities)); err != nil {
			err = errors.New("the file of identities of age cannot be read: it is not as age-keygen writes it")
		}
	case len(o.Recipients) > 0:
		return k, errors.New("there are recipients of age, and no identity: the server could not read what it writes")
	}
	if err != nil {
		return k, err
	}
	for _, text := range o.Recipients {
		recipients, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return k, fmt.Errorf("%.80q is no recipient of age", text)
		}
		k.Recipients = append(k.Recipients, recipients...)
	}
	for _, identity := range k.Identities {
		switch own := identity.(type) {
		case *age.X25519Identity:
			k.Recipients = append(k.Recipients, own.Recipient())
		case *age.HybridIdentity:
			k.Recipients = append(k.Recipients, own.Recipient())
		}
	}
	return k, nil
}

// keptIdentity is the identity that is kept in a storage, or a new one. A passphrase that another server of the same storage
// does not have is wrong.
func keptIdentity(ctx context.Context, s Storage, o KeyOptions) ([]age.Identity, error) {
	kept, err := s.Read(ctx, identityKey)
	if err == nil {
		return openIdentity(kept, o.Passphrase)
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("reading the identity of age: %w", err)
	}
	made, sealed, err := newIdentity(o)
	if err != nil {
		return nil, fmt.Errorf("making an identity of age: %w", err)
	}
	err = s.Create(ctx, identityKey, sealed)
	if errors.Is(err, ErrExists) { // another server was first
		return keptIdentity(ctx, s, o)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping the identity of age: %w", err)
	}
	return []age.Identity{made}, nil
}

// newIdentity returns an identity, and what is kept of it.
func newIdentity(o KeyOptions) (age.Identity, []byte, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, nil, err
	}
	recipient, err := age.NewScryptRecipient(o.Passphrase)
	if err != nil {
		return nil, nil, err
	}
	if o.work > 0 {
		recipient.SetWorkFactor(o.work)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipient)
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(w, identity.String()+"\n"); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return identity, sealed.Bytes(), nil
}

func openIdentity(sealed []byte, passphrase string) ([]age.Identity, error) {
	secret, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), secret)
	if err != nil {
		return nil, errors.New("the passphrase is not the one that this storage was begun with")
	}
	return age.ParseIdentities(r)
}
