package remote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// loadSigners returns what logs in with the private key at path. One that is protected by a passphrase, or of which
// only the public half is there, is used through the SSH agent at socket, which must hold it. Without a path, all that
// the agent holds is used. Errors say what to do.
func loadSigners(path, socket string) ([]ssh.Signer, error) {
	if path == "" {
		return heldSigners(socket)
	}
	signer, err := loadSigner(path, socket)
	if err != nil {
		return nil, err
	}
	return []ssh.Signer{signer}, nil
}

func heldSigners(socket string) ([]ssh.Signer, error) {
	if socket == "" {
		return nil,
			errors.New("there is neither a private key nor an SSH agent: name a key, or start an agent and run ssh-add")
	}
	held, err := agentKeys(socket)
	if err != nil {
		return nil, err
	}
	if len(held) == 0 {
		return nil, errors.New("the SSH agent holds no key: run ssh-add")
	}
	var signers []ssh.Signer
	for _, key := range held {
		signers = append(signers, agentKey{socket, key})
	}
	return signers, nil
}

func loadSigner(path, socket string) (ssh.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH private key: %w: check the path and its permissions", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return signer, nil
	}
	if public, _, _, _, pubErr := ssh.ParseAuthorizedKey(text); pubErr == nil {
		if socket == "" {
			return nil, fmt.Errorf("%s is a public key: give the path of the private key", path)
		}
		return agentSigner(path, socket, public, "only its public half is here", "run ssh-add with its private half")
	}
	if missing, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return encryptedSigner(path, socket, missing.PublicKey)
	}
	return nil, fmt.Errorf("the SSH private key %s cannot be used: %w: give an OpenSSH or PEM private key", path, err)
}

func encryptedSigner(path, socket string, public ssh.PublicKey) (ssh.Signer, error) {
	hint := "run ssh-add " + Quote(path) + ", or give a key without passphrase"
	if socket == "" {
		return nil, fmt.Errorf(
			"the SSH private key %s is protected by a passphrase and there is no SSH agent: start one and %s", path,
			hint,
		)
	}
	if public == nil {
		text, err := os.ReadFile(path + ".pub")
		if err == nil {
			public, _, _, _, err = ssh.ParseAuthorizedKey(text)
		}
		if err != nil {
			return nil, fmt.Errorf(
				"the SSH private key %s is protected by a passphrase and its public key cannot be read: %w", path,
				err,
			)
		}
	}
	return agentSigner(path, socket, public, "is protected by a passphrase", hint)
}

// agentSigner is the key that the agent at socket holds; why tells what the file itself cannot be used for.
func agentSigner(path, socket string, public ssh.PublicKey, why, hint string) (ssh.Signer, error) {
	held, err := agentKeys(socket)
	if err != nil {
		return nil, fmt.Errorf("the SSH private key %s %s and %w", path, why, err)
	}
	if i := slices.IndexFunc(held, func(key ssh.PublicKey) bool { return sameKey(key, public) }); i >= 0 {
		return agentKey{socket, held[i]}, nil
	}
	return nil, fmt.Errorf("the SSH private key %s %s and the SSH agent does not hold it: %s", path, why, hint)
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// agentKeys are the public halves of the keys that an agent holds.
func agentKeys(socket string) ([]ssh.PublicKey, error) {
	var keys []ssh.PublicKey
	err := askAgent(socket, agentTime, func(client agent.ExtendedAgent) error {
		held, err := client.List()
		for _, key := range held {
			keys = append(keys, key)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the SSH agent does not answer: %w", err)
	}
	return keys, nil
}

// How long an agent may take to say what it holds, and to sign: it may ask its user for leave (ssh-add -c), or for a touch
// of a security key.
const (
	agentTime = 10 * time.Second
	signTime  = time.Minute
)

// askAgent lets ask talk to the agent at socket, for limit at most.
func askAgent(socket string, limit time.Duration, ask func(agent.ExtendedAgent) error) error {
	conn, err := net.DialTimeout("unix", socket, limit)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deadline := time.Now().Add(limit)
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	err = ask(agent.NewClient(conn))
	if err != nil && !time.Now().Before(deadline) { // the client's errors do not say what they are
		return fmt.Errorf("nothing from %s in %s", socket, limit)
	}
	return err
}

// agentKey is a key that an agent holds. The agent is connected to for each signature: it may be another process by
// then, as after a new login.
type agentKey struct {
	socket string
	public ssh.PublicKey
}

var _ ssh.AlgorithmSigner = agentKey{}

func (k agentKey) PublicKey() ssh.PublicKey { return k.public }

func (k agentKey) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm lets the agent sign with one of the key's algorithms, which RSA keys have several of.
func (k agentKey) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (signature *ssh.Signature, err error) {
	var flags agent.SignatureFlags
	switch algorithm {
	case ssh.KeyAlgoRSASHA256, ssh.CertAlgoRSASHA256v01:
		flags = agent.SignatureFlagRsaSha256
	case ssh.KeyAlgoRSASHA512, ssh.CertAlgoRSASHA512v01:
		flags = agent.SignatureFlagRsaSha512
	}
	err = askAgent(k.socket, signTime, func(client agent.ExtendedAgent) (err error) {
		signature, err = client.SignWithFlags(k.public, data, flags)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the SSH agent did not sign: %w", err)
	}
	return signature, nil
}

// OwnKey reports whether the private key at path can be used by itself, without an agent. One that cannot be read can
// not.
func OwnKey(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	_, err = ssh.ParsePrivateKey(text)
	return err == nil
}

// CheckKey tells why nobody can log in with the private key at path, which the agent at socket may hold; nil: it can be
// used.
func CheckKey(path, socket string) error {
	_, err := loadSigners(path, socket)
	return err
}

// GenerateKey makes an ed25519 key pair without passphrase at path (mode 0600) and path.pub (mode 0644). A pair that is
// already there is kept, its public half written again where it is missing; a file that is no usable key is an error.
func GenerateKey(path string) error {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		signer, err := loadSigner(path, "")
		if err != nil {
			return err
		}
		return writePublic(path, signer.PublicKey())
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("making an SSH key: %w", err)
	}
	private, public, err := newKey("hive-test " + filepath.Base(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("making an SSH key: %w", err)
	}
	if err := renameio.WriteFile(path, private, 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("writing the SSH key: %w", err)
	}
	return writePublic(path, public)
}

// newKey makes a pair: the private half as a file has it.
func newKey(comment string) ([]byte, ssh.PublicKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, nil, err
	}
	public, err := ssh.NewPublicKey(key.Public())
	return pem.EncodeToMemory(block), public, err
}

func writePublic(path string, key ssh.PublicKey) error {
	if _, err := os.Stat(path + ".pub"); err == nil {
		return nil
	}
	if err := renameio.WriteFile(
		path+".pub", ssh.MarshalAuthorizedKey(key), 0o644, renameio.IgnoreUmask(),
	); err != nil {
		return fmt.Errorf("writing the public SSH key: %w", err)
	}
	return nil
}

// CheckKeyPair tells whether the private key at path can be read and is the other half of the public key at public. A
// key that is protected by a passphrase is compared as far as it shows its public half.
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
	if own != nil && !sameKey(own, other) {
		return fmt.Errorf("%s is not the public half of %s", public, path)
	}
	return nil
}
