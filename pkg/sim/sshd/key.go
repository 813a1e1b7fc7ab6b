package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
)

// LoadKey reads the private key in a file. Where there is none it makes a pair: file, with the comment, and file.pub.
func LoadKey(file, comment string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = makeKey(file, comment); err != nil {
			return nil, fmt.Errorf("make the SSH key %s: %w", file, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the SSH key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("read the SSH key %s: %w", file, err)
	}
	return key, nil
}

func makeKey(file, comment string) ([]byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, err
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(block)
	if err := renameio.WriteFile(file, b, 0o600); err != nil {
		return nil, err
	}
	return b, renameio.WriteFile(file+".pub", ssh.MarshalAuthorizedKey(sshPublic), 0o644)
}
