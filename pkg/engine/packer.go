package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/template"
	"hive-test/pkg/template/packer"
)

// Builders are what can make the VM of a template.
const (
	BuilderBuiltIn = "built-in" // hive-test itself, over SSH
	BuilderPacker  = "packer"
)

// Builders returns their names.
func Builders() []string { return []string{BuilderBuiltIn, BuilderPacker} }

// packerRun has Packer build one layer.
type packerRun struct {
	program packer.Program
	layer   template.Layer
	options hive.Options
	// credentials returns variables that the program alone gets.
	credentials func(context.Context) (map[string]string, error)
}

// packerFor finds the program that a build asks for, before anything is made; nil: it asks for none.
func (e *Engine) packerFor(ctx context.Context, request BuildTemplateRequest) (*packer.Program, error) {
	switch request.Builder {
	case "", BuilderBuiltIn:
		return nil, nil
	case BuilderPacker:
	default:
		return nil, usage(fmt.Errorf("there is no builder %q: use %s", request.Builder, strings.Join(Builders(), " or ")))
	}
	program, err := packer.Find(ctx, packer.FindOptions{
		Explicit: request.Settings.PackerBin, Env: e.Environ, CacheDir: filepath.Join(e.CacheDir, "packer"),
	})
	if err != nil {
		return nil, Error{ExitConfig, progress.WithHint(err, "install Packer, name it with --packer-bin, or use --builder built-in")}
	}
	return &program, nil
}

// Build writes the files and runs the program. What an earlier run has left there goes.
func (p packerRun) Build(
	ctx context.Context, dir string, variables map[string]any, env map[string]string, line func(string),
) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	files := packer.Files{Era: p.program.Era(), Variables: variables}
	if err := writePacker(p.layer, p.options, dir, files); err != nil {
		return "", fmt.Errorf("writing Packer's files: %w", err)
	}
	child, err := p.credentials(ctx)
	if err != nil {
		return "", err
	}
	maps.Copy(child, env)
	if err := p.program.Build(ctx, dir, child, line); err != nil {
		return "", err
	}
	return packer.Versions(dir)
}

// writePacker writes the files of a layer below dir.
func writePacker(layer template.Layer, options hive.Options, dir string, files packer.Files) (err error) {
	parts, err := os.MkdirTemp("", "hive-test-packer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parts)) }()
	if files.Actions, err = packer.Actions(layer, options, parts); err != nil {
		return err
	}
	return files.Write(dir)
}

// buildWith lists the phases of a build by the builder that was asked for; from are the copies of the parent's template.
func (s *session) buildWith(r *lifecycle.Job, program *packer.Program, copies []template.Template, identity *template.Identity) []phase.Entry {
	layer := s.template.layer
	if program == nil {
		return lifecycle.BuildTemplate(r, s.keep(), layer, identity)
	}
	var from *template.Template
	if own, ok := template.On(copies, placement.Of(s.Record.Nodes.Leader()).Hypervisor); ok {
		from = &own
	}
	run := packerRun{program: *program, layer: layer, options: s.hiveOptions(), credentials: s.packerCredentials}
	return lifecycle.BuildTemplateWithPacker(r, s.keep(), run, layer, from, identity)
}

// ExportPackerRequest is what ExportPacker is asked for.
type ExportPackerRequest struct {
	Request        // Name is the layer's
	Dir     string // that is not there, or is empty
	Syntax  string // one of PackerSyntaxes
}

// PackerSyntaxes returns the syntaxes of Packer's files that can be written, the newest first.
func PackerSyntaxes() []string { return []string{string(packer.Plugin), string(packer.Old)} }

// ExportPacker writes files from which Packer makes a template of a layer without hive-test, and returns what that will be. Nothing is
// asked of Proxmox VE.
func (e *Engine) ExportPacker(ctx context.Context, request ExportPackerRequest) (identity template.Identity, err error) {
	layers, err := layersOf(request.Settings)
	if err != nil {
		return identity, err
	}
	layer, err := template.FindLayer(layers, request.Name)
	if err != nil {
		return identity, usage(err)
	}
	s, err := e.open(ctx, templateVerb, request.about(builderName(layer)))
	if err != nil {
		return identity, err
	}
	defer s.close()
	s.template = templateRun{"hive-test template export-packer", layer}
	s.Record = &cluster.Record{Name: s.Name, Spec: s.Settings.Spec()}
	options := s.hiveOptions()
	if hasPassword(options.Repo) {
		return identity, usage(progress.WithHint(
			errors.New("the repository's URL has a password, which files that are passed on may not hold"), "name it without one",
		))
	}
	if identity, err = s.identityFor(ctx, layer); err != nil {
		return identity, err
	}
	private, public, err := newKey()
	if err != nil {
		return identity, err
	}
	err = writePacker(layer, options, request.Dir, packer.Files{
		Era: packer.Era(request.Syntax), Variables: s.packerVariables(identity), InstallerKey: private, InstallerPublicKey: public,
	})
	if errors.Is(err, packer.ErrNotEmpty) || errors.Is(err, hive.ErrBuiltHere) {
		err = usage(err)
	}
	return identity, err
}

// packerCredentials are the variables that Packer alone gets.
func (s *session) packerCredentials(ctx context.Context) (map[string]string, error) {
	variables, hidden, err := s.Settings.CredentialsOf(ctx, config.CredentialsPacker)
	s.Secrets.Learn(hidden...)
	return variables, err
}

// onHostsOfParent keeps the VM that Packer makes where a copy of its parent's template is, and returns the copies.
func (s *session) onHostsOfParent(ctx context.Context) ([]template.Template, error) {
	list, _, err := s.templates(ctx, s.Record.Template.Version)
	if err != nil {
		return nil, err
	}
	copies := template.Find(list, s.Record.Template.Version)
	if can, _ := whoCanClone(placement.Hypervisors(s.Record.Spec), copies); len(can) > 0 {
		err = s.onlyOn(can)
	}
	return copies, err
}

// identityFor is what a template says of itself that somebody else builds of a layer, from a VM that is not known here.
func (s *session) identityFor(ctx context.Context, layer template.Layer) (template.Identity, error) {
	inputs, err := s.templateInputs(ctx, layer, new(cluster.TemplateUsed))
	if layer.Parent == "" {
		delete(inputs, "parent")
		inputs["image"] = s.Record.Spec.OSImage
	}
	return template.NewIdentity(layer.Name, inputs, "packer", time.Now()), err
}

// packerVariables are those that are known from the settings.
func (s *session) packerVariables(identity template.Identity) map[string]any {
	spec, settings := s.Record.Spec, s.Settings
	variables := map[string]any{
		"proxmox_insecure": settings.Proxmox.Insecure, "template_name": identity.Version,
		"template_description": identity.Description(), "cores": spec.CPUCores, "memory": spec.MemoryMB, "cpu_type": cmp.Or(spec.CPUType, cluster.DefaultCPUType),
		"ssh_username": spec.SSHUser, "bridge": spec.ManagementBridge, "proxmox_pool": settings.Proxmox.Pool,
		"disk_size": fmt.Sprintf("%dG", spec.DiskSizeGB),
	}
	if settings.Proxmox.Endpoint != "" {
		variables["proxmox_url"] = strings.TrimSuffix(strings.TrimSuffix(settings.Proxmox.Endpoint, "/"), "/api2/json") + "/api2/json"
	}
	if hosts := placement.Hypervisors(spec); len(hosts) > 0 {
		first := hosts[0].WithDefaults()
		variables["proxmox_node"], variables["storage"] = first.Name, first.Datastore
	}
	return variables
}

// newKey makes a pair of SSH keys, and returns their texts.
func newKey() (private, public string, err error) {
	dir, err := os.MkdirTemp("", "hive-test-packer-")
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "key")
	if err := remote.GenerateKey(path); err != nil {
		return "", "", err
	}
	half, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	other, err := os.ReadFile(path + ".pub")
	return string(half), string(other), err
}
