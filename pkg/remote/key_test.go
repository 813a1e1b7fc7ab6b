package remote

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func TestGenerateKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "id_ed25519")
	if err := GenerateKey(path); err != nil {
		t.Fatal(err)
	}
	private, _ := os.ReadFile(path)
	public, _ := os.ReadFile(path + ".pub")
	for name, mode := range map[string]os.FileMode{path: 0o600, path + ".pub": 0o644} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil || signer.PublicKey().Type() != ssh.KeyAlgoED25519 ||
		!bytes.Equal(public, ssh.MarshalAuthorizedKey(signer.PublicKey())) {
		t.Errorf("the pair is not one: %v", err)
	}
	if err := os.Remove(path + ".pub"); err != nil {
		t.Fatal(err)
	}
	if err := GenerateKey(path); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(path); !bytes.Equal(again, private) {
		t.Error("the key that was there has changed")
	}
	if again, _ := os.ReadFile(path + ".pub"); !bytes.Equal(again, public) {
		t.Error("the public half did not come back")
	}
}

// encryptedKey writes a key file as one with passphrase looks from outside, for its encryption is slow by design, and
// returns the key.
func encryptedKey(t *testing.T, path string) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	container := ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{"aes256-ctr", "bcrypt", strings.Repeat("x", 24), 1, signerOf(t, private).PublicKey().Marshal(), make([]byte, 160)})
	block := &pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), container...)}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return private
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	cfg := testConfig(t)
	dir := t.TempDir()
	encryptedKey(t, filepath.Join(dir, "encrypted"))
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, socket, want string }{
		{filepath.Join(dir, "missing"), "", "no such file"},
		{dir, "", "is a directory"},
		{filepath.Join(dir, "text"), "", "cannot be used"},
		{cfg.KeyPath + ".pub", "", "is a public key"},
		{filepath.Join(dir, "encrypted"), "", "protected by a passphrase and there is no SSH agent"},
		{filepath.Join(dir, "encrypted"), filepath.Join(dir, "no-socket"), "the SSH agent does not answer"},
		{filepath.Join(dir, "encrypted"), serveAgent(t, nil), "the SSH agent does not hold it: run ssh-add"},
	} {
		cfg.KeyPath, cfg.AgentSocket = c.path, c.socket
		_, err := NewDialer(cfg)
		contains(t, err, c.path, c.want)
	}
}

func TestEncryptedKeyThroughAgent(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t)
	cfg.KeyPath = filepath.Join(t.TempDir(), "id")
	cfg.AgentSocket = serveAgent(t, encryptedKey(t, cfg.KeyPath))
	if err := runTrue(t, cfg, s.node(1)); err != nil {
		t.Error(err)
	}
}

// Without a key, what the agent holds is used; RSA keys sign with SHA-2. The agent may have been started again since.
func TestKeysOfAnAgent(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t)
	cfg.KeyPath, cfg.AgentSocket = "", ""
	_, err := NewDialer(cfg)
	contains(t, err, "neither a private key nor an SSH agent")
	cfg.AgentSocket = serveAgent(t, nil)
	_, err = NewDialer(cfg)
	contains(t, err, "holds no key: run ssh-add")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	cfg.AgentSocket = serveAgent(t, private)
	if err := runTrue(t, cfg, s.node(1)); err != nil {
		t.Error(err)
	}
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	again := serveAgent(t, private)
	if err := errors.Join(os.Remove(cfg.AgentSocket), os.Rename(again, cfg.AgentSocket)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Host(s.node(1)).Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
		t.Errorf("with an agent that was started again: %v", err)
	}
}

// An agent that takes connections and never answers is not waited for.
func TestAnAgentThatHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = askAgent(socket, 50*time.Millisecond, func(client agent.ExtendedAgent) error {
		_, err := client.List()
		return err
	})
	contains(t, err, "nothing from "+socket+" in 50ms")
}

func serveAgent(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	keys := agent.NewKeyring()
	if key != nil {
		if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(keys, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket
}
