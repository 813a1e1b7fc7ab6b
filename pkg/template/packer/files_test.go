package packer_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/remote"
	"hive-test/pkg/template"
	"hive-test/pkg/template/packer"
)

// written has the files of a layer with all that a layer can have.
func written(t *testing.T, era packer.Era) (dir string) {
	t.Helper()
	own := t.TempDir()
	for name, mode := range map[string]os.FileMode{"hive": 0o700, "tool it's": 0o755, "d/inner": 0o600} {
		path := filepath.Join(own, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+name+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	layer := template.Layer{
		Name: "x", Packages: []string{"jq"}, Hive: true,
		Downloads: []template.Download{{Name: "a.img", URL: "http://mirror/a.img", SHA256: strings.Repeat("0", 64)}},
		Files: []template.File{
			{Path: filepath.Join(own, "tool it's"), To: "bin/tool it's"}, {Path: filepath.Join(own, "d"), To: "/opt/d"},
		},
		Upstream: template.Upstream{Path: filepath.Join(own, "d/inner")},
		Scripts:  []template.Script{{Name: "mine.sh", Text: "echo mine\n"}},
	}
	actions, err := packer.Actions(layer, hive.Options{Source: cluster.Source{Binary: filepath.Join(own, "hive")}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.GenerateKey(filepath.Join(own, "key")); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(own, "key"))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "files")
	files := packer.Files{
		Era: era, Actions: actions, InstallerKey: string(key), InstallerPublicKey: "ssh-ed25519 AAAA me\n",
		Variables: map[string]any{
			"proxmox_url": "https://pve1:8006/api2/json", "proxmox_node": "pve1", "template_name": "hive-x-1", "ssh_username": "ubuntu",
			"clone_vm": "cloud", "template_description": "Template of hive-test\nsecond line",
		},
	}
	if err := files.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func eras() []packer.Era { return []packer.Era{packer.Old, packer.Plugin} }

// TestSyntax: each file is parsed, and each variable that is used or set is one that is declared.
func TestSyntax(t *testing.T) {
	for _, era := range eras() {
		dir := written(t, era)
		parser, declared, used := hclparse.NewParser(), map[string]bool{}, map[string]bool{}
		var kinds []string
		paths, _ := filepath.Glob(filepath.Join(dir, "*.pkr.hcl"))
		for _, path := range paths {
			file, diagnostics := parser.ParseHCLFile(path)
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			for _, block := range file.Body.(*hclsyntax.Body).Blocks {
				kinds = append(kinds, strings.Join(append([]string{block.Type}, block.Labels...), " "))
				if block.Type == "variable" {
					declared[block.Labels[0]] = true
				}
				_ = hclsyntax.VisitAll(block.Body, func(node hclsyntax.Node) hcl.Diagnostics {
					if expression, ok := node.(*hclsyntax.ScopeTraversalExpr); ok && expression.Traversal.RootName() == "var" {
						used[expression.Traversal[1].(hcl.TraverseAttr).Name] = true
					}
					return nil
				})
			}
		}
		for name := range used {
			if !declared[name] {
				t.Errorf("%s: var.%s is declared nowhere", era, name)
			}
		}
		for name := range declared {
			if !used[name] {
				t.Errorf("%s: variable %s is used nowhere", era, name)
			}
		}
		var set map[string]any
		raw, err := os.ReadFile(filepath.Join(dir, "hive-test.auto.pkrvars.json"))
		if err != nil || json.Unmarshal(raw, &set) != nil {
			t.Fatal(err)
		}
		for name := range set {
			if !declared[name] {
				t.Errorf("%s: %s is set and declared nowhere", era, name)
			}
		}
		if named := slices.Contains(kinds, "packer"); named != (era == packer.Plugin) {
			t.Errorf("%s: the block packer, which 1.6 does not know, is there: %t", era, named)
		}
		for _, want := range []string{"source proxmox-clone layer", "source proxmox-iso layer", "build"} {
			if !slices.Contains(kinds, want) {
				t.Errorf("%s: there is no %s, only %q", era, want, kinds)
			}
		}
	}
}

// TestStepsRun: what is put into place is there, as it was, and steps run in their order.
func TestStepsRun(t *testing.T) {
	dir := written(t, packer.Plugin)
	steps, err := filepath.Glob(filepath.Join(dir, "put/steps/*.sh"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range steps {
		names = append(names, filepath.Base(path))
		if out, err := exec.Command("bash", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", path, out)
		}
	}
	want := []string{
		"001-wait-cloud-init.sh", "002-os-essentials.sh", "003-download-a.img.sh", "004-put-tool-it-s.sh", "005-put-d.sh",
		"006-put-Makefile.sh", "007-upstream.sh", "008-mine.sh", "009-put-hive.sh", "010-install-binary.sh", "011-versions.sh",
	}
	if !slices.Equal(names, want) {
		t.Errorf("steps %q, not %q", names, want)
	}
	// The two that put files below the home are run as the VM would, with the files where they are there.
	home := t.TempDir()
	for _, name := range []string{want[3], want[8]} {
		text, err := os.ReadFile(filepath.Join(dir, "put/steps", name))
		if err != nil {
			t.Fatal(err)
		}
		here := strings.ReplaceAll(string(text), "/tmp/hive-test-template", filepath.Join(dir, "put"))
		command := exec.Command("bash", "-c", here)
		command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", name, out)
		}
	}
	for path, mode := range map[string]os.FileMode{"bin/tool it's": 0o755, "hive/bin/hive.uploaded": 0o755} {
		if info, err := os.Stat(filepath.Join(home, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// TestOnlyItsOwnerReads: what is written may hold what others are not to see.
func TestOnlyItsOwnerReads(t *testing.T) {
	dir := written(t, packer.Plugin)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if info, statErr := entry.Info(); err == nil && statErr == nil && !strings.Contains(path, "/put/files/") && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (packer.Files{Era: packer.Plugin}).Write(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("what is there is written over: %v", err)
	}
}

// TestValid: the Packer of this machine takes the files of its syntax, and finds them formatted.
func TestValid(t *testing.T) {
	program, err := packer.Find(t.Context(), packer.FindOptions{Env: os.Environ()})
	if err != nil {
		t.Skip("there is no Packer here:", err)
	}
	dir := written(t, program.Era())
	run := func(args ...string) {
		t.Helper()
		command := exec.Command(program.Path, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "PROXMOX_USERNAME=a@pve", "PROXMOX_PASSWORD=b")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("packer %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("fmt", "-check", ".")
	if program.Era() == packer.Plugin {
		if exec.Command(program.Path, "init", dir).Run() != nil {
			t.Skip("its plugin for Proxmox VE can be fetched from here by nobody")
		}
	}
	run("validate", "-only=proxmox-clone.layer", ".")
	run("validate", "-only=proxmox-iso.layer", ".")
}
