package secret

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/progress"
)

// An SSH key of the user without a passphrase opens what was encrypted for its public half; one with a passphrase is left alone.
func TestSSHKeysOpen(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	half, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	to, err := ParseRecipient(string(ssh.MarshalAuthorizedKey(half)))
	if err != nil {
		t.Fatal(err)
	}
	raw := sealed(t, true, to, "opened")
	plain, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	protected, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("phrase"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"HOME": dir}[name] }
	put(t, dir+"/.ssh/id_ed25519", pem.EncodeToMemory(protected))
	if _, err := FindKeys("", getenv).Decrypt(bytes.NewReader(raw)); err == nil || !strings.Contains(progress.HintOf(err), "there is no key here") {
		t.Errorf("%v (%s)", err, progress.HintOf(err))
	}
	put(t, dir+"/.ssh/id_ed25519", pem.EncodeToMemory(plain))
	if got, err := FindKeys("", getenv).Decrypt(bytes.NewReader(raw)); string(got) != "opened" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
