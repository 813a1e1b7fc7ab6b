package state

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

const bundlePassphrase = "a passphrase of the test"

// TestBundle: what is shared of a cluster is the same on another machine, is nobody's without the passphrase, and leaves there what is that
// machine's own.
func TestBundle(t *testing.T) {
	here, there := bundleStore(t), bundleStore(t)
	if bundle, err := here.Pack("c1", bundlePassphrase); err != nil || bundle != nil {
		t.Errorf("of no cluster: %d bytes, %v", len(bundle), err)
	}
	shared := map[string]string{"cluster.json": "{}", "ssh_key": "canary-private-key", "keys/known_hosts": "host"}
	own := map[string]string{"lock": "", "tofu/main.tf": "#", "terraform.tfstate": "{}", "terraform.tfstate.backup": "{}", ".half123456": ""}
	for _, files := range []map[string]string{shared, own} {
		for name, content := range files {
			put(t, here, name, content)
		}
	}
	bundle, err := here.Pack("c1", bundlePassphrase)
	if err != nil || bytes.Contains(bundle, []byte("canary")) {
		t.Fatal(err, "or the key is in the clear")
	}
	put(t, there, "lock", "theirs")
	put(t, there, "ssh_key", "old")
	put(t, there, "left", "over")
	if err := there.Unpack("c1", bundle, bundlePassphrase+"!"); !errors.Is(err, ErrPassphrase) {
		t.Errorf("another passphrase: %v", err)
	}
	if got := read(there, "ssh_key"); got != "old" {
		t.Errorf("another passphrase has changed ssh_key to %q", got)
	}
	if err := there.Unpack("c1", bundle, bundlePassphrase); err != nil {
		t.Fatal(err)
	}
	for name, content := range shared {
		if got := read(there, name); got != content {
			t.Errorf("%s is %q", name, got)
		}
		if info, err := os.Stat(there.Path("c1", name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	for name, want := range map[string]string{"lock": "theirs", "left": "", "tofu/main.tf": "", "terraform.tfstate": ""} {
		if got := read(there, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestHostileBundles: what is no bundle of ours changes nothing, whoever has written it.
func TestHostileBundles(t *testing.T) {
	store := bundleStore(t)
	put(t, store, "cluster.json", "as it was")
	for name, bundle := range map[string][]byte{
		"empty": nil, "noise": []byte("noise"), "no record": sealed(t, "ssh_key"),
		"above": sealed(t, "cluster.json", "../evil"), "absolute": sealed(t, "cluster.json", "/tmp/evil"),
		"of this machine": sealed(t, "cluster.json", "tofu/main.tf"), "hidden": sealed(t, "cluster.json", ".ssh/x"),
	} {
		if err := store.Unpack("c1", bundle, bundlePassphrase); err == nil {
			t.Errorf("%s: it was unpacked", name)
		}
		if got := read(store, "cluster.json"); got != "as it was" {
			t.Fatalf("%s: the record is %q", name, got)
		}
	}
}

// sealed is an encrypted archive of files of those names.
func sealed(t *testing.T, names ...string) []byte {
	t.Helper()
	recipient, err := age.NewScryptRecipient(bundlePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	var out bytes.Buffer
	encrypted, err := age.Encrypt(&out, recipient)
	if err != nil {
		t.Fatal(err)
	}
	zipped := gzip.NewWriter(encrypted)
	archive := tar.NewWriter(zipped)
	for _, name := range names {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 1, Typeflag: tar.TypeReg}))
		_, writeErr := archive.Write([]byte("x"))
		err = errors.Join(err, writeErr)
	}
	if err := errors.Join(err, archive.Close(), zipped.Close(), encrypted.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func bundleStore(t *testing.T) *Store {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "clusters"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func put(t *testing.T, store *Store, name, content string) {
	t.Helper()
	if err := store.Write("c1", name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func read(store *Store, name string) string {
	raw, _ := os.ReadFile(store.Path("c1", name))
	return strings.TrimSpace(string(raw))
}
