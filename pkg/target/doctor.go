package target

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
)

// Examine makes all checks that the record calls for, of what it takes to make its machines: under named, for a cluster
// of that name, else for any. What is wrong with the way to Proxmox VE is a finding, too. Found are findings of before.
func (t *Target) Examine(ctx context.Context, named bool, found []deploy.Finding) []deploy.Finding {
	for _, problem := range placement.ValidateSpec(t.Record.Spec) {
		found = append(found, incomplete(problem.Error(), "change that setting; `hive-test help settings` lists them"))
	}
	f, problems := t.patient()
	found = append(found, problems...)
	if len(deploy.Failed(found)) > 0 {
		f.Client = nil // it could only be used wrongly
	}
	request := *t.Record
	if !named {
		request.Name = ""
	}
	return append(found, f.Findings(ctx, &request)...)
}

// patient is the fleet for findings: what is wrong with the way to Proxmox VE is a finding, too.
func (t *Target) patient() (*proxmox.Fleet, []deploy.Finding) {
	target := t.place()
	options := api.Options{
		Endpoint: target.Endpoint, Token: t.token(), CAFile: target.CAFile, Fingerprint: target.Fingerprint,
		Insecure: target.Insecure, Timeout: t.Settings.Proxmox.CallTimeout,
	}
	f := proxmox.New(proxmox.Options{IDBase: t.Settings.Proxmox.VMIDBase, Checks: t.checks(false)})
	problems := options.Problems()
	if ids := t.Settings.Proxmox.VMIDRange; ids != "" {
		var err error
		if f.IDRange, err = api.ParseIDRange(ids); err != nil {
			problems = append(problems, deploy.Finding{
				ID: "settings", Title: "settings are complete", Status: deploy.Fail, Detail: err.Error(),
				Fix: "set proxmox.vmid_range to 20000-29999",
			})
		}
	}
	f.Client, _ = api.New(options) // nil where it cannot be: problems say why
	return f, problems
}

// healthLasts is how long up relies on a doctor that found nothing.
const healthLasts = time.Minute

// healthFile is where a doctor that found nothing leaves word, by everything that it looked at; empty: nowhere.
func (t *Target) healthFile() string {
	dir := t.Program.CacheDir
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "doctor", cluster.Hash(t.Record.Spec, t.Record.Target, t.token(), t.Settings.ForDoctor()))
}

// RememberHealth lets an up within the next minute rely on that nothing was found. Where this cannot be written, up
// looks again.
func (t *Target) RememberHealth() {
	file := t.healthFile()
	if file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = renameio.WriteFile(file, nil, 0o600)
}

// healthy tells whether a doctor has found nothing within the last minute. It is asked once: what is made then may fill
// what was free before.
func (t *Target) healthy() bool {
	file := t.healthFile()
	if file == "" {
		return false
	}
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	_ = os.Remove(file)
	age := time.Since(info.ModTime())
	return age >= 0 && age < healthLasts
}

// RoleScript is the shell commands that give the settings' token, or one to be made, its rights on a Proxmox VE of that
// major version.
func RoleScript(major int, settings config.Settings) string {
	return api.RoleScript(major, api.TokenID(settings.Proxmox.Token.Reveal()))
}
