package remote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// loadSigner reads the private key at path. An encrypted key is used through the SSH agent at socket, which must hold it;
// the agent's connection is returned to be closed. Errors say what to do.
func loadSigner(path, socket string) (ssh.Signer, net.Conn, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the SSH private key: %w: check the path and its permissions", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return signer, nil, nil
	}
	if public, _, _, _, pubErr := ssh.ParseAuthorizedKey(text); pubErr == nil {
		if socket == "" {
			return nil, nil, fmt.Errorf("%s is a public key: give the path of the private key", path)
		}
		return agentSigner(path, socket, public, "only its public half is here", "run ssh-add with its private half")
	}
	if missing, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return encryptedSigner(path, socket, missing.PublicKey)
	}
	return nil, nil, fmt.Errorf("the SSH private key %s cannot be used: %w: give an OpenSSH or PEM private key", path, err)
}

func encryptedSigner(path, socket string, public ssh.PublicKey) (ssh.Signer, net.Conn, error) {
	hint := "run ssh-add " + Quote(path) + ", or give a key without passphrase"
	if socket == "" {
		return nil, nil, fmt.Errorf("the SSH private key %s is protected by a passphrase and there is no SSH agent: start one and %s", path, hint)
	}
	if public == nil {
		text, err := os.ReadFile(path + ".pub")
		if err == nil {
			public, _, _, _, err = ssh.ParseAuthorizedKey(text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the SSH private key %s is protected by a passphrase and its public key cannot be read: %w", path, err)
		}
	}
	return agentSigner(path, socket, public, "is protected by a passphrase", hint)
}

// agentSigner is the key that the agent at socket holds; why tells what the file itself cannot be used for.
func agentSigner(path, socket string, public ssh.PublicKey, why, hint string) (ssh.Signer, net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("the SSH private key %s %s and the SSH agent does not answer: %w", path, why, err)
	}
	signers, err := agent.NewClient(conn).Signers()
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), public.Marshal()) {
			return s, conn, nil
		}
	}
	return nil, nil, errors.Join(
		fmt.Errorf("the SSH private key %s %s and the SSH agent does not hold it: %s", path, why, hint),
		err, conn.Close())
}

// GenerateKey makes an ed25519 key pair without passphrase at path (mode 0600) and path.pub (mode 0644). A pair that is
// already there is kept, its public half written again where it is missing; a file that is no usable key is an error.
func GenerateKey(path string) error {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		signer, _, err := loadSigner(path, "")
		if err != nil {
			return err
		}
		return writePublic(path, signer.PublicKey())
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("making an SSH key: %w", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("making an SSH key: %w", err)
	}
	comment := "hive-test " + filepath.Base(filepath.Dir(path))
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return fmt.Errorf("making an SSH key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return fmt.Errorf("making an SSH key: %w", err)
	}
	if err := renameio.WriteFile(path, pem.EncodeToMemory(block), 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("writing the SSH key: %w", err)
	}
	return writePublic(path, sshPublic)
}

func writePublic(path string, key ssh.PublicKey) error {
	if _, err := os.Stat(path + ".pub"); err == nil {
		return nil
	}
	if err := renameio.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(key), 0o644, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("writing the public SSH key: %w", err)
	}
	return nil
}

// CheckKeyPair tells whether the private key at path can be read and is the other half of the public key at public. A key
// that is protected by a passphrase is compared as far as it shows its public half.
func CheckKeyPair(path, public string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the SSH private key: %w", err)
	}
	var own ssh.PublicKey
	if signer, err := ssh.ParsePrivateKey(text); err == nil {
		own = signer.PublicKey()
	} else if missing, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		own = missing.PublicKey
	} else {
		return fmt.Errorf("the SSH private key %s cannot be used: %w", path, err)
	}
	text, err = os.ReadFile(public)
	if err != nil {
		return fmt.Errorf("reading the public half of the SSH key: %w", err)
	}
	other, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return fmt.Errorf("%s is no SSH public key: %w", public, err)
	}
	if own != nil && !bytes.Equal(own.Marshal(), other.Marshal()) {
		return fmt.Errorf("%s is not the public half of %s", public, path)
	}
	return nil
}
