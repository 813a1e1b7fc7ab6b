// Package packer is the adapter to HashiCorp's Packer: it writes the files of a build, finds the program, and runs it.
package packer

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hive-test/pkg/hive"
	"hive-test/pkg/remote"
	"hive-test/pkg/template"
)

//go:embed files
var embedded embed.FS

// Era is a syntax of Packer's files.
type Era string

// Before 1.7 Packer has the builders for Proxmox VE inside, and logs in by password alone; since then they are a plugin, which
// `packer init` fetches.
const (
	Old    Era = "1.6"
	Plugin Era = "plugin"
)

// There is where the files are on the VM while it is made.
const there = "/tmp/hive-test-template"

// Files are what a build is made of.
type Files struct {
	Era Era
	// Actions are done on the VM, in order.
	Actions []hive.Action
	// Variables are those of variables.pkr.hcl that are known, by name: strings, numbers and booleans.
	Variables map[string]any
	// InstallerPublicKey is let in by the installer of an ISO, in the form of authorized_keys, and InstallerKey is the other half;
	// empty: there are no files for an installer.
	InstallerKey, InstallerPublicKey string
}

// ErrNotEmpty means that a directory holds something already, which is not written over.
var ErrNotEmpty = errors.New("is not empty: name a directory that is, or is not there")

// Write writes all files below dir, which must be empty or not there (ErrNotEmpty): only its owner can read them.
func (f Files) Write(dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s %w", dir, ErrNotEmpty)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, below := range []string{"put/steps", "put/files", "http"} {
		if err := os.MkdirAll(filepath.Join(dir, below), 0o700); err != nil {
			return err
		}
	}
	variables, err := json.MarshalIndent(f.Variables, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		f.fixed(dir), write(dir, "hive-test.auto.pkrvars.json", string(variables)+"\n"), f.steps(dir), f.installer(dir),
	)
}

// fixed writes what is the same for each layer.
func (f Files) fixed(dir string) error {
	generalise, err := template.Text(template.ScriptGeneralise)
	if err != nil {
		return err
	}
	failures := []error{write(dir, "put/generalise.sh", generalise)}
	for _, from := range []string{"files", "files/" + string(f.Era)} {
		entries, err := embedded.ReadDir(from)
		failures = append(failures, err)
		for _, entry := range entries {
			if entry.IsDir() {
				continue
			}
			text, err := embedded.ReadFile(path.Join(from, entry.Name()))
			to := entry.Name()
			if strings.HasSuffix(to, ".sh") {
				to = "put/" + to
			}
			failures = append(failures, err, write(dir, to, string(text)))
		}
	}
	return errors.Join(failures...)
}

// steps writes a script for each action, and the files that they put into place.
func (f Files) steps(dir string) error {
	for i, action := range f.Actions {
		text, err := step(i, action)
		if err == nil && action.From != "" {
			err = copyAll(action.From, filepath.Join(dir, "put", file(i, action)))
		}
		if err == nil {
			err = write(dir, fmt.Sprintf("put/steps/%03d-%s.sh", i+1, fileName(action.Name)), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", action.Name, err)
		}
	}
	return nil
}

// file is where a file is until it is put into place, below the directory of the files.
func file(i int, action hive.Action) string {
	return fmt.Sprintf("files/%03d-%s", i+1, fileName(filepath.Base(action.From)))
}

// fileName is a name without what a shell, or a file system, would take for something else.
func fileName(name string) string {
	return strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._+-", c) {
			return c
		}
		return '-'
	}, name), "-.")
}

// step is the script of an action.
func step(i int, action hive.Action) (string, error) {
	if action.From == "" {
		exports, err := remote.Exports(action.Env)
		return exports + action.Script, err
	}
	to := action.To
	home := `"$HOME"/`
	if strings.HasPrefix(to, "/") {
		home = ""
	}
	target := home + remote.Quote(strings.TrimPrefix(to, "~/"))
	lines := []string{
		"set -euo pipefail", "to=" + target, `mkdir -p -- "$(dirname -- "$to")"`,
		"cp -a -- " + remote.Quote(path.Join(there, file(i, action))) + ` "$to"`,
	}
	if action.Mode != 0 {
		lines = append(lines, fmt.Sprintf(`chmod %#o -- "$to"`, action.Mode.Perm()))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// installer writes what Ubuntu's installer asks for at http/.
func (f Files) installer(dir string) error {
	if f.InstallerKey == "" {
		return nil
	}
	user := cmp.Or(fmt.Sprint(f.Variables["ssh_username"]), "ubuntu")
	data, err := json.MarshalIndent(map[string]any{"autoinstall": map[string]any{
		"version": 1, "packages": []string{"qemu-guest-agent"},
		"ssh":     map[string]any{"install-server": true, "allow-pw": false},
		"storage": map[string]any{"layout": map[string]any{"name": "direct"}},
		"user-data": map[string]any{"users": []any{map[string]any{
			"name": user, "shell": "/bin/bash", "sudo": "ALL=(ALL) NOPASSWD:ALL", "lock_passwd": true,
			"ssh_authorized_keys": []string{strings.TrimSpace(f.InstallerPublicKey)},
		}}},
	}}, "", "  ")
	// JSON is YAML, too.
	return errors.Join(
		err, write(dir, "installer_key", f.InstallerKey), write(dir, "http/user-data", "#cloud-config\n"+string(data)+"\n"),
		write(dir, "http/meta-data", ""),
	)
}

// Actions returns what makes a layer on a VM, in order: the steps of configuring that it has, its files and scripts, and what notes
// the versions in a file. What they need of files that are made for it is below dir, which the caller removes.
func Actions(layer template.Layer, options hive.Options, dir string) ([]hive.Action, error) {
	done, err := options.Actions(dir, layer.Hive)
	if err != nil {
		return nil, err
	}
	const beforeInstall = 2 // cloud-init, and the system
	list := done[:beforeInstall:beforeInstall]
	for _, d := range layer.Downloads {
		if d.Path != "" {
			list = append(list, hive.Action{Name: "put " + d.Name, From: d.Path, To: "~/.hive-test-template/" + d.Name})
		}
		action, err := ours(template.ScriptDownload, "download "+d.Name, map[string]string{
			"TEMPLATE_NAME": d.Name, "TEMPLATE_URL": d.URL, "TEMPLATE_SHA256": d.SHA256,
		})
		if err != nil {
			return nil, err
		}
		list = append(list, action)
	}
	for _, f := range layer.Files {
		list = append(list, hive.Action{Name: "put " + filepath.Base(f.Path), From: f.Path, To: f.To})
	}
	if layer.Upstream.Named() {
		made, err := upstream(layer.Upstream)
		if err != nil {
			return nil, err
		}
		list = append(list, made...)
	}
	for _, s := range layer.Scripts {
		list = append(list, hive.Action{Name: strings.TrimSuffix(s.Name, ".sh"), Script: s.Text})
	}
	list = append(list, done[beforeInstall:]...)
	note, err := ours(template.ScriptVersions, "versions", map[string]string{"TEMPLATE_PACKAGES": strings.Join(layer.Packages, " ")})
	note.Script = "exec >" + there + "/versions\n" + note.Script
	return append(list, note), err
}

// upstream runs the targets of hive's own Makefile.
func upstream(u template.Upstream) (list []hive.Action, err error) {
	env := map[string]string{"HIVE_REPO": u.Repo, "HIVE_REF": u.Ref}
	if u.Path != "" {
		env["TEMPLATE_MAKEFILE"] = "yes"
		list = append(list, hive.Action{Name: "put Makefile", From: u.Path, To: "~/.hive-test-template/upstream/Makefile", Mode: 0o600})
	}
	run, err := ours(template.ScriptUpstream, "upstream", env)
	return append(list, run), err
}

// ours is a script of package template.
func ours(script, name string, env map[string]string) (hive.Action, error) {
	text, err := template.Text(script)
	return hive.Action{Name: name, Script: text, Env: maps.Clone(env)}, err
}

func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

// copyAll copies a file, or a directory with all that is in it; who may run a file is kept.
func copyAll(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	return copyFile(from, to, info.Mode().Perm())
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}
