package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// loaded loads a config file with some variables.
func loaded(t *testing.T, text string, pairs ...string) Settings {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), text)
	s, err := Load(LoadOptions{WorkDir: dir, Env: env(pairs...)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReferences(t *testing.T) {
	s := loaded(t, `
ssh_user: {env: USER_OF_NODES}
template: env:TEMPLATE
proxmox:
  endpoint: env:PVE
  token: {command: [sh, -c, "echo root@pam!ci=$0", topsecret]}
  pool: file:pool
suite_run: env:Test
repo: file:///srv/hive.git
os_image: file:iso/debian.img
fault: env:x
`, "PVE=https://pve1:8006", "USER_OF_NODES=someone", "TEMPLATE=dev")
	if s.Run != "env:Test" || s.Repo != "file:///srv/hive.git" || s.OSImage != "file:iso/debian.img" || s.Fault != "env:x" {
		t.Errorf("values that begin like a reference were taken for one: %q %q %q %q", s.Run, s.Repo, s.OSImage, s.Fault)
	}
	if s.Proxmox.Endpoint != "" || !s.Proxmox.Token.Empty() {
		t.Error("they were read, and nobody had asked")
	}
	shown := map[string]string{}
	for _, v := range s.Values() {
		shown[v.Key] = v.Value
	}
	for key, want := range map[string]string{
		"proxmox.endpoint": "env:PVE", "proxmox.token": "command: sh …", "proxmox.pool": "file:pool", "ssh_user": "env:USER_OF_NODES",
	} {
		if shown[key] != want {
			t.Errorf("%s is shown as %q, want %q", key, shown[key], want)
		}
	}
	read, hidden, err := s.WithReferences(t.Context(), "up")
	if err == nil || !strings.Contains(err.Error(), "proxmox.pool ("+s.File+":7): file:pool: there is no such file") {
		t.Errorf("%v", err)
	}
	if read.Proxmox.Endpoint != "https://pve1:8006" || read.SSHUser != "someone" || read.Template != "dev" {
		t.Errorf("%q %q %q", read.Proxmox.Endpoint, read.SSHUser, read.Template)
	}
	if diff := cmp.Diff([]string{"https://pve1:8006"}, hidden); diff != "" {
		t.Errorf("a value of 8 characters is hidden, a shorter one is part of other words: %s", diff)
	}
	if s.Proxmox.Endpoint != "" {
		t.Error("the settings themselves were changed")
	}
	if got := s.WithToken(t.Context()).Proxmox.Token.Reveal(); got != "root@pam!ci=topsecret" {
		t.Errorf("the token is %q", got)
	}
}

// A verb reads what it uses, and no other.
func TestAVerbReadsWhatItUses(t *testing.T) {
	s := loaded(t, "management_bridge: env:NOT_SET\nproxmox: {endpoint: 'env:NEITHER'}\n")
	for verb, fails := range map[string]int{"up": 2, "down": 1, "status": 0, "settings": 0, "runs": 0} {
		_, _, err := s.WithReferences(t.Context(), verb)
		if got := strings.Count(fmt.Sprint(err), "is not set"); got != fails {
			t.Errorf("%s: %d cannot be read, want %d: %v", verb, got, fails, err)
		}
	}
	s.Sim = true
	if _, _, err := s.WithReferences(t.Context(), "down"); err != nil {
		t.Errorf("a simulated cluster needs no endpoint: %v", err)
	}
}

// What a reference stands for is checked like what stands there.
func TestWhatAReferenceStandsForIsChecked(t *testing.T) {
	s := loaded(t, "proxmox: {pool: 'env:POOL'}\n", "POOL=no pool!")
	if _, _, err := s.WithReferences(t.Context(), "up"); err == nil || !strings.Contains(err.Error(), "is no name of a pool") {
		t.Errorf("%v", err)
	}
	s = loaded(t, "proxmox: {token: 'env:NONE', token_file: /nowhere}\n")
	s = s.WithToken(t.Context())
	if err := s.Proxmox.TokenErr; err == nil || !strings.Contains(err.Error(), "proxmox.token ("+s.File+":1): env:NONE: the variable is not set") ||
		!strings.Contains(progress.HintOf(err), "export NONE=") {
		t.Errorf("%v", err)
	}
}

func TestReferencesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"proxmox: {endpoint: 'env:A-B'}":                 "name of a variable",
		"proxmox: {endpoint: {env: [A]}}":                "env: it must be a string, not a list",
		"proxmox: {endpoint: {vault: x}}":                "one of env, file, command, sops and age",
		"proxmox: {endpoint: {env: A, file: b}}":         "one of env, file, command, sops and age",
		"proxmox: {endpoint: {command: pass x}}":         "list of the program and its arguments",
		"proxmox: {endpoint: 'sops:a.yaml'}":             "has many values",
		"proxmox: {token: {command: []}}":                "names no program",
		"keep: {env: A}":                                 "it must be a string, not a mapping",
		"node_count: env:A":                              "whole number",
		"ssh: {proxy_jump: {env: A}}":                    "it must be a string, not a mapping",
		"credentials: x":                                 "mapping of tofu, state, packer to variables",
		"credentials: {vault: {A: b}}":                   `"vault" is none of tofu, state, packer`,
		"credentials: {tofu: topsecret}":                 "mapping of variables to values, not a text",
		"credentials: {tofu: {A-B: c}}":                  "no name of a variable",
		"credentials: {tofu: {A: [topsecret]}}":          "a string or a reference, not a list",
		"credentials: {tofu: {A: }}":                     "it has no value",
		"credentials: {tofu: {A: b, A: topsecret}}":      "already",
		"credentials: {tofu: {TF_VAR_x: topsecret}}":     "it is no credential",
		"credentials: {tofu: {PATH: topsecret}}":         "it is no credential",
		"credentials: {packer: {PROXMOX_TOKEN: secret}}": "set proxmox.endpoint and proxmox.token",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, FileName), text+"\n")
		_, err := Load(LoadOptions{WorkDir: dir, Env: env()})
		if err == nil && want == "already" { // the YAML parser or this package says it
			t.Errorf("%s was taken", text)
		} else if want != "already" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), FileName+":1: ")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.Contains(fmt.Sprint(err), "topsecret") {
			t.Errorf("%s: a value is shown: %v", text, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	s := loaded(t, `
credentials:
  tofu: {ARM_CLIENT_SECRET: "env:ARM", ARM_TENANT_ID: plain-tenant, ARM_USE_MSI: "true", BOTH: of-tofu}
  state: {TF_HTTP_PASSWORD: {env: STATE}, BOTH: of-state}
  packer: {OF_PACKER: {command: [echo, packed]}}
`, "ARM=armsecret", "STATE=statesecret")
	got, hidden, err := s.CredentialsOf(t.Context(), CredentialsTofu, CredentialsState)
	want := map[string]string{
		"ARM_CLIENT_SECRET": "armsecret", "ARM_TENANT_ID": "plain-tenant", "ARM_USE_MSI": "true", "TF_HTTP_PASSWORD": "statesecret",
		"BOTH": "of-state",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if all := strings.Join(hidden, " "); !strings.Contains(all, "armsecret") || !strings.Contains(all, "statesecret") || strings.Contains(all, "true") {
		t.Errorf("hidden are %q", hidden)
	}
	if got, _, err := s.CredentialsOf(t.Context(), CredentialsPacker); len(got) != 1 || got["OF_PACKER"] != "packed" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	asJSON, _ := json.Marshal(s)
	if shown := fmt.Sprintf("%v %+v %#v %s %v", s, s, s, asJSON, s.Values()); strings.Contains(shown, "plain-tenant") || strings.Contains(shown, "armsecret") {
		t.Errorf("a credential is shown: %s", shown)
	}
	for _, v := range s.Values() {
		if want := "packer: OF_PACKER, state: TF_HTTP_PASSWORD BOTH, tofu: ARM_CLIENT_SECRET ARM_TENANT_ID ARM_USE_MSI BOTH"; v.Key == "credentials" && v.Value != want {
			t.Errorf("shown as %q", v.Value)
		}
	}
	s = loaded(t, "credentials: {tofu: {A: 'env:NONE', B: 'file:nowhere'}}\n")
	if _, _, err := s.CredentialsOf(t.Context(), CredentialsTofu); err == nil ||
		!strings.Contains(err.Error(), "credentials.tofu.A ("+s.File+":1): env:NONE: the variable is not set") ||
		!strings.Contains(err.Error(), "credentials.tofu.B") {
		t.Errorf("%v", err)
	}
}
