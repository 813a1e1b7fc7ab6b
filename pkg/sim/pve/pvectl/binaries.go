package pvectl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/renameio/v2"
)

// hivePart is this program's part as hive in a program of its own, which is built beside it. It is a third as large,
// which is felt where ten nodes get it.
const hivePart = "hive-sim-hive"

// binaries are copies of this program under the names by which it plays its parts.
type binaries struct {
	self   string // the simulator itself
	hive   string // uploaded to nodes as hive
	mirror string // a provider mirror that holds the provider double
}

// installBinaries puts copies of the program into the simulator's directory. They lie in a directory that is named by
// the programs' checksum: a program that is built anew must change neither the checksum of the provider that existing
// clusters have locked, nor the programs of running hosts. Where no hivePart was built, this program itself plays hive.
func (o *options) installBinaries(self string) (binaries, error) {
	hive := filepath.Join(filepath.Dir(self), hivePart)
	if _, err := os.Stat(hive); err != nil {
		hive = self
	}
	sum, err := checksum(self, hive)
	if err != nil {
		return binaries{}, err
	}
	dir := filepath.Join(o.dir, "bin", sum[:16])
	b := binaries{
		self: filepath.Join(dir, "hive-sim"), hive: filepath.Join(dir, "hive"), mirror: filepath.Join(dir, "mirror"),
	}
	links := map[string]string{b.hive: b.self}
	if hive != self {
		part := filepath.Join(dir, hivePart) // under its own name too: the copy of this program looks for it
		if hive != part {
			if err := copyFile(hive, part); err != nil {
				return b, err
			}
		}
		links[b.hive] = part
	}
	for _, registry := range []string{"registry.opentofu.org", "registry.terraform.io"} {
		links[filepath.Join(b.mirror, registry, "bpg/proxmox", providerVersion,
			runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-proxmox_v"+providerVersion)] = b.self
		links[filepath.Join(b.mirror, registry, "hashicorp/aws", awsVersion,
			runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-aws_v"+awsVersion)] = b.self
	}
	if self != b.self {
		if err := copyFile(self, b.self); err != nil {
			return b, err
		}
	}
	for to, from := range links {
		if err := link(from, to); err != nil {
			return b, err
		}
	}
	return b, nil
}

// checksum is that of one program, or of two.
func checksum(self, hive string) (string, error) {
	h := sha256.New()
	for _, file := range slices.Compact([]string{self, hive}) {
		if err := hashFile(h, file); err != nil {
			return "", fmt.Errorf("read this program: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(h io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(h, f)
	return err
}

// copyFile copies a program unless the target exists, which then is the same by its directory's name.
func copyFile(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := renameio.NewPendingFile(to, renameio.WithPermissions(0o755))
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	defer func() { _ = out.Cleanup() }()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	if err := out.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return nil
}

// link gives a file a second name, or copies it where that cannot be.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("install %s: %w", to, err)
	}
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return copyFile(from, to)
}
