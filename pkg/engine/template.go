package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/template"
)

// templateVerb is the verb of runs that build or verify templates.
const templateVerb = "template"

// templateRun is what a run of templates is about.
type templateRun struct {
	command string // that the user gave; empty: it is no such run
	layer   template.Layer
}

// limitedAs is the phase whose limit holds for a phase.
func limitedAs(phase string) string {
	switch cluster.Phase(phase) {
	case lifecycle.PhaseBuild, lifecycle.PhaseVerify:
		return string(cluster.PhaseConfigure)
	}
	return phase
}

// BuildTemplateRequest is what BuildTemplate is asked for.
type BuildTemplateRequest struct {
	Request        // Name is the layer's
	IfChanged bool // build nothing where the promoted one was made of the same
	NoPromote bool // leave the one that is in use in its place
	NoVerify  bool // look at no clones; what is not verified is not promoted either
}

// BuiltTemplate is what came of building one.
type BuiltTemplate struct {
	Outcome
	Identity  template.Identity
	Unchanged bool // nothing was built
}

// errUnchanged ends a build before anything is made.
var errUnchanged = errors.New("the template was made of the same")

// BuildTemplate makes a template of a layer, verifies it with clones and promotes it. Where that fails, what is in use stays.
func (e *Engine) BuildTemplate(ctx context.Context, request BuildTemplateRequest) (BuiltTemplate, error) {
	var built BuiltTemplate
	layers, err := layersOf(request.Settings)
	if err != nil {
		return built, err
	}
	layer, err := template.FindLayer(layers, request.Name)
	if err != nil {
		return built, usage(progress.WithHint(err, "others are described in the config file, below templates"))
	}
	if layer.Hive {
		if err := checkHive(request.Settings, request.Settings.Hive.Layout); err != nil {
			return built, err
		}
	}
	if err := e.endEarlierBuild(ctx, request.Request, builderName(layer)); err != nil {
		return built, err
	}
	one := request.Request
	one.Name = builderName(layer)
	one.Settings = builderSettings(one.Settings, layer)
	built.Outcome, err = e.do(ctx, templateVerb, one, func(s *session) error {
		s.template = templateRun{"hive-test template build " + layer.Name, layer}
		return s.buildTemplate(ctx, &built, request.IfChanged)
	})
	if errors.Is(err, errUnchanged) {
		built.Unchanged = true
		return built, nil
	}
	if err != nil || request.NoVerify {
		return built, err
	}
	verified, err := e.VerifyTemplate(ctx, one.of(request.Settings, built.Identity.Version))
	if err != nil || request.NoPromote {
		built.Identity = verified.Identity
		return built, err
	}
	built.Identity, err = e.PromoteTemplate(ctx, one.of(request.Settings, built.Identity.Version))
	return built, err
}

// of is the request about a template.
func (r Request) of(settings config.Settings, version string) Request {
	r.Name, r.Settings = version, settings
	return r
}

// builderName is the name of the cluster whose one node becomes a template of a layer. Two builds of one layer have the same,
// and so keep each other away.
func builderName(layer template.Layer) string { return "template-" + layer.Name }

// builderSettings are those of a cluster whose one node becomes a template of a layer.
func builderSettings(settings config.Settings, layer template.Layer) config.Settings {
	settings.NodeCount, settings.HostsFile = 1, ""
	settings.Template, settings.Clone = layer.Parent, "" // a linked clone would need what it is built on for ever
	settings.Proxmox.VMIDRange, settings.Proxmox.VMIDBase = settings.Proxmox.TemplateRange, 0
	return settings
}

// endEarlierBuild removes what a build of the layer has left that did not come to its end.
func (e *Engine) endEarlierBuild(ctx context.Context, request Request, name string) error {
	_, store, err := e.storeOf(name, request.Settings)
	if err != nil {
		return err
	}
	parsed := cluster.Name(name)
	record, err := store.Load(parsed)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err == nil && record.Builds == "" {
		return usage(progress.WithHint(
			fmt.Errorf("cluster %s has the name that the builder of this template would have", name),
			"hive-test down "+name,
		))
	}
	request.Name = name
	_, err = e.Down(ctx, DownRequest{Request: request})
	return err
}

// buildTemplate makes the cluster of one node, and a template of that.
func (s *session) buildTemplate(ctx context.Context, built *BuiltTemplate, ifChanged bool) error {
	check := func() error {
		s.Record.Builds = s.template.layer.Name
		inputs, err := s.templateInputs()
		if err != nil {
			return err
		}
		built.Identity = template.NewIdentity(s.template.layer.Name, inputs, s.Record.Owner.Who(), time.Now())
		return s.nameTemplate(ctx, &built.Identity, ifChanged)
	}
	return s.provision(ctx, deploy.Allowed{}, check, func(r *lifecycle.Job) []phase.Entry {
		return lifecycle.BuildTemplate(r, s.keep(), s.template.layer, &built.Identity)
	})
}

// nameTemplate gives what is to be built a version that no other has. With ifChanged it is errUnchanged where the template of
// that layer that is in use was made of the same.
func (s *session) nameTemplate(ctx context.Context, identity *template.Identity, ifChanged bool) error {
	list, err := s.templates(ctx)
	if err != nil {
		return err
	}
	if used := template.Find(list, identity.Layer); ifChanged && len(used) > 0 &&
		len(used[0].Inputs.Differences(identity.Inputs)) == 0 {
		*identity = used[0].Identity
		return errUnchanged
	}
	first := identity.Version
	for n := 2; slices.ContainsFunc(list, func(t template.Template) bool { return t.Version == identity.Version }); n++ {
		identity.Version = fmt.Sprintf("%s-%d", first, n)
	}
	return nil
}

// templates returns those that are there, as the deployer of the session's record finds them.
func (s *session) templates(ctx context.Context) ([]template.Template, error) {
	deployer, err := s.Deployer()
	if err != nil {
		return nil, err
	}
	if deployer.Templates == nil {
		return nil, usage(errors.New("hosts that are there are made of no templates"))
	}
	list, err := deployer.Templates.Templates(ctx)
	return template.Read(list), err
}

// templateInputs is all that the template depends on, as it is now.
func (s *session) templateInputs() (template.Inputs, error) {
	inputs := s.template.layer.Inputs()
	if used := s.Record.Template; used != nil {
		inputs["parent"] = used.Version
	} else {
		inputs["image"] = s.Record.Spec.OSImage
	}
	for _, name := range []string{template.ScriptGeneralise, template.ScriptDownload} {
		text, err := template.Text(name)
		if err != nil {
			return nil, err
		}
		inputs["script "+name] = template.HashOf(text)
	}
	options := s.hiveOptions()
	options.Packages = s.Record.Packages // those of the layer are told of by name
	steps, err := options.Inputs()
	if err != nil {
		return nil, err
	}
	inputs[template.StepInput(hive.StepOS)] = steps.Steps[hive.StepOS]
	if s.template.layer.Hive {
		inputs[template.StepInput(hive.StepInstall)] = steps.Steps[hive.StepInstall]
		inputs["hive"] = sourceText(options.Source)
	}
	return inputs, nil
}

// sourceText says for people where hive comes from.
func sourceText(source cluster.Source) string {
	switch {
	case source.Repo != "":
		return "repository " + hiddenPassword(source.Repo) + " at " + source.Ref
	case source.Binary != "":
		return "program " + filepath.Base(source.Binary)
	case source.Tarball != "":
		return "release " + filepath.Base(source.Tarball)
	case source.SourceDir != "":
		return "source " + filepath.Base(source.SourceDir)
	}
	return "none"
}

// hiddenPassword is a repository's URL without what no description may show.
func hiddenPassword(repo string) string {
	if !hasPassword(repo) {
		return repo
	}
	scheme, rest, _ := strings.Cut(repo, "://")
	_, host, _ := strings.Cut(rest, "@")
	return scheme + "://" + host
}

// LayerNames returns the names of the layers that can be built.
func LayerNames(settings config.Settings) []string {
	var added []template.Layer
	for _, l := range settings.Layers {
		added = append(added, template.Layer{Name: l.Name})
	}
	var names []string
	for _, layer := range template.Layers(added) {
		names = append(names, layer.Name)
	}
	return names
}

// layersOf returns the layers that can be built, with what their files hold.
func layersOf(settings config.Settings) ([]template.Layer, error) {
	var added []template.Layer
	var failures []error
	for _, l := range settings.Layers {
		layer := template.Layer{Name: l.Name, Parent: l.On, Packages: l.Packages, Hive: l.Hive}
		for _, d := range l.Downloads {
			layer.Downloads = append(layer.Downloads, template.Download{Name: d.Name(), URL: d.URL, Path: d.File, SHA256: d.SHA256})
		}
		for _, f := range l.Files {
			sum, err := hashOfFiles(f.From)
			failures = append(failures, err)
			layer.Files = append(layer.Files, template.File{Path: f.From, To: f.To, SHA256: sum})
		}
		for _, path := range l.Scripts {
			text, err := os.ReadFile(path)
			failures = append(failures, err)
			layer.Scripts = append(layer.Scripts, template.Script{Name: filepath.Base(path), Text: string(text)})
		}
		added = append(added, layer)
	}
	if err := errors.Join(failures...); err != nil {
		return nil, Error{ExitConfig, fmt.Errorf("templates: %w", err)}
	}
	return template.Layers(added), nil
}

// hashOfFiles is the SHA-256 of a file, or of all files of a directory with their names.
func hashOfFiles(path string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q\n", below)
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		_, err = io.Copy(sum, file)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// findTemplate takes, for a cluster that is about to be made, the template that is asked for by its name: the copy that each
// hypervisor can clone.
func (s *session) findTemplate(ctx context.Context) error {
	spec := &s.Record.Spec
	if spec.TemplateName == "" {
		return nil
	}
	list, err := s.templates(ctx)
	if err != nil {
		return err
	}
	copies := template.Find(list, spec.TemplateName)
	if len(copies) == 0 {
		return Error{ExitConfig, noTemplate(list, spec.TemplateName)}
	}
	hosts := placement.Hypervisors(*spec)
	for i, h := range hosts {
		if own, ok := template.On(copies, h.Name); ok && h.TemplateVMID == 0 {
			hosts[i].TemplateVMID = own.VM.VMID
		}
	}
	spec.Template, spec.Hosts = copies[0].VM.VMID, placement.Hosts(hosts)
	used := copies[0].Identity
	s.Record.Template = &cluster.TemplateUsed{Layer: used.Layer, Version: used.Version, Steps: used.Steps()}
	return nil
}

// noTemplate says that there is no template of that name to clone, and what there is.
func noTemplate(list []template.Template, name string) error {
	layer := strings.TrimPrefix(name, "hive-")
	if unpromoted := template.Newest(list, layer); len(unpromoted) > 0 {
		return progress.WithHint(
			fmt.Errorf("no template of layer %s is promoted", layer),
			"hive-test template promote "+unpromoted[0].Version,
		)
	}
	return progress.WithHint(
		fmt.Errorf("there is no template %s", name), "hive-test template list shows those that there are; template build makes one",
	)
}

// notBuilding refuses to work on a cluster whose one node is to become a template.
func (s *session) notBuilding() error {
	if s.Record.Builds == "" {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %s is the builder of template %s", s.Name, s.Record.Builds),
		fmt.Sprintf("hive-test template build %s begins anew, hive-test down %s removes it", s.Record.Builds, s.Name),
	))
}

// ListTemplates returns the templates that there are of a layer, of all where it is empty: the newest first.
func (e *Engine) ListTemplates(ctx context.Context, request Request) ([]template.Template, error) {
	var list []template.Template
	err := e.onTemplates(ctx, request, func(_ context.Context, _ deploy.Templater, all []template.Template) error {
		list = template.Newest(all, strings.TrimPrefix(request.Name, "hive-"))
		return nil
	})
	return list, err
}

// FindTemplate returns the copies of the template that a version or a layer names: of a layer the one that was promoted last, or
// else the newest.
func (e *Engine) FindTemplate(ctx context.Context, request Request) ([]template.Template, error) {
	var copies []template.Template
	err := e.onTemplates(ctx, request, func(_ context.Context, _ deploy.Templater, all []template.Template) (err error) {
		copies, err = known(all, request.Name)
		return err
	})
	return copies, err
}

// known returns the copies of a template.
func known(all []template.Template, name string) ([]template.Template, error) {
	copies := template.Find(all, name)
	if newest := template.Newest(all, strings.TrimPrefix(name, "hive-")); len(copies) == 0 && len(newest) > 0 {
		copies = template.Find(all, newest[0].Version)
	}
	if len(copies) == 0 {
		return nil, Error{ExitNotFound, progress.WithHint(
			fmt.Errorf("there is no template %s", name), "hive-test template list shows those that there are",
		)}
	}
	return copies, nil
}

// PromoteTemplate has clusters use a template that is verified, by the name of its layer.
func (e *Engine) PromoteTemplate(ctx context.Context, request Request) (template.Identity, error) {
	var promoted template.Identity
	err := e.onTemplates(ctx, request, func(ctx context.Context, keeper deploy.Templater, all []template.Template) error {
		copies, err := known(all, request.Name)
		if err != nil {
			return err
		}
		promoted = copies[0].Identity
		if !promoted.Verified {
			return Error{ExitConfig, progress.WithHint(
				fmt.Errorf("template %s is not verified", promoted.Version), "hive-test template verify "+promoted.Version,
			)}
		}
		promoted.Promoted = time.Now().UTC().Truncate(time.Second)
		return describe(ctx, keeper, copies, promoted)
	})
	return promoted, err
}

// describe has all copies of a template say what it is now.
func describe(ctx context.Context, keeper deploy.Templater, copies []template.Template, now template.Identity) error {
	var failures []error
	for _, t := range copies {
		failures = append(failures, keeper.DescribeTemplate(ctx, t.VM, template.Redescribe(t.VM.Description, now)))
	}
	return errors.Join(failures...)
}

// RemoveTemplate deletes all copies of a version, unless clones need their disks, or it is in use and not forced.
func (e *Engine) RemoveTemplate(ctx context.Context, request Request, force bool) (template.Identity, error) {
	var gone template.Identity
	err := e.onTemplates(ctx, request, func(ctx context.Context, keeper deploy.Templater, all []template.Template) error {
		copies := slices.DeleteFunc(all, func(t template.Template) bool { return t.Version != request.Name })
		if len(copies) == 0 {
			return Error{ExitNotFound, progress.WithHint(
				fmt.Errorf("there is no template of version %s", request.Name), "hive-test template list shows those that there are",
			)}
		}
		gone = copies[0].Identity
		if err := removable(all, copies, force); err != nil {
			return err
		}
		var failures []error
		for _, t := range copies {
			failures = append(failures, keeper.DeleteTemplate(ctx, t.VM))
		}
		return errors.Join(failures...)
	})
	return gone, err
}

// removable is an error where something hangs on a template.
func removable(all, copies []template.Template, force bool) error {
	for _, t := range copies {
		if len(t.VM.Clones) > 0 {
			return Error{ExitConfig, fmt.Errorf(
				"linked clones need the disk of template %s: VM %s; remove their clusters first", t.Version,
				strings.Trim(fmt.Sprint(t.VM.Clones), "[]"),
			)}
		}
	}
	if used := template.Find(all, copies[0].Layer); !force && len(used) > 0 && used[0].Version == copies[0].Version {
		return Error{ExitConfig, progress.WithHint(
			fmt.Errorf("template %s is the one of layer %s that is in use", used[0].Version, used[0].Layer),
			"promote another one first, or add --force",
		)}
	}
	return nil
}

// onTemplates opens the way to the templates of a Proxmox VE and lets work use them.
func (e *Engine) onTemplates(
	ctx context.Context, request Request, work func(context.Context, deploy.Templater, []template.Template) error,
) error {
	request.Name = templateVerb
	s, err := e.open(templateVerb, request)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	keeper, err := s.Templates(ctx)
	if err != nil {
		return s.cutShort(ctx, err)
	}
	list, err := keeper.Templates(ctx)
	if err != nil {
		return s.cutShort(ctx, err)
	}
	return work(ctx, keeper, template.Read(list))
}

// VerifiedTemplate is what came of verifying one.
type VerifiedTemplate struct {
	Outcome
	Identity template.Identity
}

// VerifyTemplate looks at two clones of a template: whether each is a machine of its own, and has what was recorded. What is found is
// noted in the template.
func (e *Engine) VerifyTemplate(ctx context.Context, request Request) (VerifiedTemplate, error) {
	copies, err := e.FindTemplate(ctx, request)
	if err != nil {
		return VerifiedTemplate{}, err
	}
	identity := copies[0].Identity
	verified := VerifiedTemplate{Identity: identity}
	two := request
	two.Name = "verify-" + identity.Layer
	if err := e.endEarlierBuild(ctx, request, two.Name); err != nil {
		return verified, err
	}
	two.Settings.NodeCount, two.Settings.HostsFile, two.Settings.Template = 2, "", identity.Version
	two.Settings.OSImage = placement.DefaultImage
	verified.Outcome, err = e.do(ctx, templateVerb, two, func(s *session) error {
		s.template = templateRun{command: "hive-test template verify " + identity.Version}
		check := func() error {
			s.Record.Builds, s.Record.Spec.KeepHostKeys = identity.Layer, true
			return s.onHostsOf(copies)
		}
		return s.provision(ctx, deploy.Allowed{}, check, func(r *lifecycle.Job) []phase.Entry {
			return lifecycle.VerifyTemplate(r, s.keep(), identity)
		})
	})
	faulty, isFaulty := errors.AsType[*lifecycle.FaultyError](err)
	if err != nil && !isFaulty {
		return verified, err
	}
	verified.Identity.Verified = faulty == nil
	if verified.Identity.Verified == identity.Verified {
		return verified, err
	}
	return verified, errors.Join(err, e.onTemplates(
		ctx, request, func(ctx context.Context, keeper deploy.Templater, all []template.Template) error {
			return describe(ctx, keeper, template.Find(all, identity.Version), verified.Identity)
		},
	))
}

// onHostsOf keeps new VMs on the hypervisors that can clone a template where it is, if any can.
func (s *session) onHostsOf(copies []template.Template) error {
	hosts := placement.Hypervisors(s.Record.Spec)
	var others []string
	for _, h := range hosts {
		if _, ok := template.On(copies, h.Name); !ok {
			others = append(others, h.Name)
		}
	}
	if len(others) == len(hosts) {
		return nil
	}
	hosts, err := placement.Avoid(hosts, others)
	s.Record.Spec.Hosts = placement.Hosts(hosts)
	return err
}
