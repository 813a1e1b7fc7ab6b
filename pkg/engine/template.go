package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	"hive-test/pkg/report"
	"hive-test/pkg/state"
	"hive-test/pkg/template"
	"hive-test/pkg/template/packer"
)

// templateVerb is the verb of runs that build or verify templates.
const templateVerb = "template"

// templateRun is what a run of templates is about.
type templateRun struct {
	command string // that the user gave; empty: it is no such run
	layer   template.Layer
}

// asItIs reports whether a template is looked at or copied, whatever it would be made of now.
func (t templateRun) asItIs() bool { return t.command != "" && t.layer.Name == "" }

// limitedAs is the phase whose limit holds for a phase.
func limitedAs(phase string) string {
	switch cluster.Phase(phase) {
	case lifecycle.PhaseBuild, lifecycle.PhaseVerify, lifecycle.PhaseCopy:
		return string(cluster.PhaseConfigure)
	}
	return phase
}

// BuildTemplateRequest is what BuildTemplate is asked for.
type BuildTemplateRequest struct {
	Request          // Name is the layer's
	IfChanged bool   // build nothing where the promoted one was made of the same
	NoPromote bool   // leave the one that is in use in its place
	NoVerify  bool   // look at no clones; what is not verified is not promoted either
	Builder   string // one of Builders; empty: BuilderBuiltIn
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
	layer, err := buildable(request.Request)
	if err != nil {
		return built, err
	}
	program, err := e.packerFor(ctx, request)
	if err != nil {
		return built, err
	}
	if err := e.endEarlierBuild(ctx, request.about(builderName(layer))); err != nil {
		return built, err
	}
	one := request.about(builderName(layer))
	one.Settings = builderSettings(one.Settings, layer)
	built.Outcome, err = e.do(ctx, templateVerb, one, func(s *session) error {
		s.template = templateRun{"hive-test template build " + layer.Name, layer}
		return s.buildTemplate(ctx, &built, program, request.IfChanged)
	})
	if errors.Is(err, errUnchanged) {
		built.Unchanged = true
		return built, nil
	}
	if err != nil || request.NoVerify {
		return built, err
	}
	verified, err := e.VerifyTemplate(ctx, request.about(built.Identity.Version))
	if err != nil || request.NoPromote {
		built.Identity = verified.Identity
		return built, err
	}
	built.Identity, err = e.PromoteTemplate(ctx, request.about(built.Identity.Version))
	return built, err
}

// buildable is the layer that a request names, of which a template can be made.
func buildable(request Request) (template.Layer, error) {
	layers, err := layersOf(request.Settings)
	if err != nil {
		return template.Layer{}, err
	}
	layer, err := template.FindLayer(layers, request.Name)
	if err != nil {
		return layer, usage(progress.WithHint(err, "others are described in the config file, below templates"))
	}
	if layer.Hive {
		return layer, checkHive(request.Settings, request.Settings.Hive.Layout)
	}
	return layer, nil
}

// about is the same request about something of another name.
func (r Request) about(name string) Request {
	r.Name = name
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

// endEarlierBuild removes what a run of that name on a template has left that did not come to its end.
func (e *Engine) endEarlierBuild(ctx context.Context, request Request) error {
	name, store, err := e.storeOf(request.Name, request.Settings)
	if err != nil {
		return err
	}
	record, err := store.Load(name)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err == nil && record.Builds == "" {
		return usage(progress.WithHint(
			fmt.Errorf("cluster %s has the name that the builder of this template would have", name),
			"hive-test down "+name.String(),
		))
	}
	_, err = e.Down(ctx, DownRequest{Request: request})
	return err
}

// buildTemplate makes the cluster of one node, and a template of that.
func (s *session) buildTemplate(ctx context.Context, built *BuiltTemplate, program *packer.Program, ifChanged bool) error {
	var copies []template.Template // of the parent
	check := func() error {
		s.Record.Builds = s.template.layer.Name
		identity, err := s.newIdentity(ctx)
		if err != nil {
			return err
		}
		built.Identity = identity
		if program != nil {
			built.Identity.Builder += ",packer-" + program.Version
		}
		if err := s.nameTemplate(ctx, &built.Identity, ifChanged); err != nil || program == nil || s.Record.Template == nil {
			return err
		}
		copies, err = s.onHostsOfParent(ctx)
		return err
	}
	return s.provision(ctx, deploy.Allowed{}, check, func(r *lifecycle.Job) []phase.Entry {
		return s.buildWith(r, program, copies, &built.Identity)
	})
}

// newIdentity is that of a template of the run's layer which is built now.
func (s *session) newIdentity(ctx context.Context) (template.Identity, error) {
	inputs, err := s.templateInputs(ctx, s.template.layer, s.Record.Template)
	return template.NewIdentity(s.template.layer.Name, inputs, s.Record.Owner.Who(), time.Now()), err
}

// nameTemplate gives what is to be built a version that no other has. With ifChanged it is errUnchanged where the template of
// that layer that is in use was made of the same.
func (s *session) nameTemplate(ctx context.Context, identity *template.Identity, ifChanged bool) error {
	list, away, err := s.templates(ctx, identity.Layer)
	if err != nil {
		return err
	}
	s.warnOfAway(away)
	if used := template.Find(list, identity.Layer); ifChanged && len(used) > 0 &&
		len(differences(used[0].Inputs, identity.Inputs)) == 0 {
		*identity = used[0].Identity
		return errUnchanged
	}
	first := identity.Version
	if len(away) > 0 { // of those, nobody can tell their versions
		identity.Version += identity.Built.Format("-150405")
	}
	for n := 2; slices.ContainsFunc(list, func(t template.Template) bool { return t.Version == identity.Version }); n++ {
		identity.Version = fmt.Sprintf("%s-%d", first, n)
	}
	return nil
}

// templates returns those that are there, as the deployer of the session's record finds them, and those that may be meant by a name and
// cannot be read now.
func (s *session) templates(ctx context.Context, name string) (list []template.Template, away []deploy.Template, err error) {
	deployer, err := s.Deployer()
	if err != nil {
		return nil, nil, err
	}
	if deployer.Templates == nil {
		return nil, nil, usage(errors.New("hosts that are there are made of no templates"))
	}
	all, err := deployer.Templates.Templates(ctx)
	list, away = template.Read(all), template.Away(all, name)
	return list, away, err
}

// templateInputs is all that a template of a layer depends on, as it is now. Parent is the template below it; nil: it is made of
// the image. What is not known from here is empty.
func (s *session) templateInputs(
	ctx context.Context, layer template.Layer, parent *cluster.TemplateUsed,
) (template.Inputs, error) {
	inputs := layer.Inputs()
	if parent != nil {
		inputs["parent"] = parent.Version
	} else {
		inputs["image"] = s.Record.Spec.OSImage
		if content := s.imageContent(ctx); content != "" {
			inputs[imageContent] = content
		}
	}
	for _, name := range []string{template.ScriptGeneralise, template.ScriptDownload} {
		text, err := template.Text(name)
		if err != nil {
			return nil, err
		}
		inputs["script "+name] = template.HashOf(text)
	}
	if upstream := upstreamInput(layer.Upstream); upstream != "" {
		inputs[upstreamMakefile] = upstream
	}
	options := s.hiveOptions()
	options.Packages = s.Record.Packages // those of the layer are told of by name
	steps, err := options.Inputs()
	if err != nil {
		return nil, err
	}
	inputs[template.StepInput(hive.StepOS)] = steps.Steps[hive.StepOS]
	if layer.Hive {
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
	parsed, err := url.Parse(repo)
	if err != nil {
		return ""
	}
	parsed.User = nil
	return parsed.String()
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
	return withUpstream(template.Layers(added), settings), nil
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
	list, away, err := s.templates(ctx, spec.TemplateName)
	if err != nil {
		return err
	}
	copies := template.Find(list, spec.TemplateName)
	if len(copies) == 0 {
		return Error{ExitConfig, awayError(away, noTemplate(list, spec.TemplateName))}
	}
	s.warnOfAway(away)
	hosts := placement.Hypervisors(*spec)
	for i, h := range hosts {
		if own, ok := template.On(copies, h.Name); ok && h.TemplateVMID == 0 {
			hosts[i].TemplateVMID = own.VM.VMID
		}
	}
	spec.Template, spec.Hosts = copies[0].VM.VMID, placement.Hosts(hosts)
	if _, lacking := whoCanClone(hosts, copies); spec.Clone == cluster.CloneAuto && len(lacking) == 0 {
		spec.Clone = cluster.CloneLinked
	}
	used := copies[0].Identity
	s.Record.Template = usedOf(used)
	return s.checkFresh(ctx, list, used)
}

// whoCanClone tells the names of the hypervisors that can clone a template where it is from those of the others, of all that new nodes go to.
func whoCanClone(hosts []placement.Hypervisor, copies []template.Template) (can, lacking []string) {
	for _, h := range hosts {
		if h.Avoid {
			continue
		}
		if _, ok := template.On(copies, h.Name); ok {
			can = append(can, h.Name)
		} else {
			lacking = append(lacking, h.Name)
		}
	}
	return can, lacking
}

// usedOf is a template as a cluster keeps it.
func usedOf(i template.Identity) *cluster.TemplateUsed {
	return &cluster.TemplateUsed{Layer: i.Layer, Version: i.Version, Steps: i.Steps()}
}

// checkFresh tells of a template that would be made of something else now, or that is too old: a warning, or, where fresh ones
// are required, an error.
func (s *session) checkFresh(ctx context.Context, list []template.Template, used template.Identity) error {
	if s.template.asItIs() {
		return nil
	}
	reasons, err := s.staleness(ctx, list, used)
	if err != nil || len(reasons) == 0 {
		return err
	}
	what := fmt.Sprintf("template %s is stale: %s", used.Version, strings.Join(reasons, "; "))
	again := "hive-test template build " + used.Layer + " makes a fresh one"
	if s.Settings.RequireFreshTemplate {
		return Error{ExitConfig, progress.WithHint(errors.New(what), again)}
	}
	progress.Warn(s.Sink, what, again)
	return nil
}

// staleness says why a template is not what it would be if it were built now; nothing where it is, or nobody can tell.
func (s *session) staleness(ctx context.Context, list []template.Template, used template.Identity) ([]string, error) {
	var reasons []string
	if age, limit := time.Since(used.Built), s.Settings.TemplateMaxAge; limit > 0 && age > limit {
		reasons = append(reasons, fmt.Sprintf(
			"it was built %s ago (--template-max-age %s)", progress.FormatLimit(age.Truncate(time.Hour)), progress.FormatLimit(limit),
		))
	}
	layers, err := layersOf(s.Settings)
	if err != nil {
		return nil, err
	}
	layer, err := template.FindLayer(layers, used.Layer)
	if err != nil { // of somebody else's settings
		return reasons, nil
	}
	var parent *cluster.TemplateUsed
	if layer.Parent != "" {
		if copies := template.Find(list, layer.Parent); len(copies) > 0 {
			parent = usedOf(copies[0].Identity)
		}
	}
	now, err := s.templateInputs(ctx, layer, parent)
	if err != nil {
		return nil, err
	}
	for _, d := range differences(used.Inputs, now) {
		if s.comparable(d) {
			reasons = append(reasons, d.String())
		}
	}
	return reasons, nil
}

// comparable reports whether a difference says something: where no program is named now, a cluster takes the template's, and of a
// branch of a repository it is not known from here which program it is.
func (s *session) comparable(d template.Difference) bool {
	switch d.Input {
	case template.StepInput(hive.StepInstall), "hive":
		return s.hiveOptions().Named() && d.Now != ""
	case "parent":
		return d.Now != "" && d.Was != "" // of one that Packer alone has made nobody knows
	case upstreamMakefile:
		return d.Now != ""
	}
	return true
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
		promoted.Promoted = time.Now().UTC().Truncate(time.Millisecond)
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
	if force {
		if err := protection("template rm --force", request.Name, request.Settings, nil); err != nil {
			return gone, err
		}
	}
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
		return deleteAll(ctx, keeper, copies)
	})
	return gone, err
}

// DistributeTemplate makes a copy of a template on each hypervisor that cannot clone it as it is. It returns all copies.
func (e *Engine) DistributeTemplate(ctx context.Context, request Request) ([]template.Template, error) {
	found, err := e.FindTemplate(ctx, request)
	if err != nil {
		return nil, err
	}
	from := found[0]
	one := request.about(builderName(template.Layer{Name: from.Layer}))
	if err := e.endEarlierBuild(ctx, one); err != nil {
		return nil, err
	}
	one.Settings = builderSettings(one.Settings, template.Layer{Parent: from.Version})
	_, err = e.do(ctx, templateVerb, one, func(s *session) error {
		s.template = templateRun{command: "hive-test template distribute " + from.Version}
		check := func() error {
			s.Record.Builds = from.Layer
			return s.onHostsWithout(found)
		}
		return s.provision(ctx, deploy.Allowed{}, check, func(r *lifecycle.Job) []phase.Entry {
			return lifecycle.CopyTemplate(r, from)
		})
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return nil, err
	}
	return e.FindTemplate(ctx, request.about(from.Version))
}

// onHostsWithout wants one node on each hypervisor that cannot clone a template where it is. It is errUnchanged where all can.
func (s *session) onHostsWithout(copies []template.Template) error {
	_, lacking := whoCanClone(placement.Hypervisors(s.Record.Spec), copies)
	if len(lacking) == 0 {
		progress.Infof(s.Sink, "no copy is needed: %s", whyNone(copies))
		return errUnchanged
	}
	s.Record.Spec.NodeCount, s.Record.Spec.PlaceBy = len(lacking), ""
	return s.onlyOn(lacking)
}

// onlyOn keeps new VMs on these hypervisors.
func (s *session) onlyOn(names []string) error {
	hosts := placement.Hypervisors(s.Record.Spec)
	others := slices.DeleteFunc(placement.Names(hosts), func(name string) bool { return slices.Contains(names, name) })
	hosts, err := placement.Avoid(hosts, others)
	s.Record.Spec.Hosts = placement.Hosts(hosts)
	return err
}

// PruneTemplates deletes the templates that nobody needs, unless it is a dry run, and returns them.
func (e *Engine) PruneTemplates(ctx context.Context, request Request, dryRun bool) ([]template.Template, error) {
	var needless []template.Template
	err := e.onTemplates(ctx, request, func(ctx context.Context, keeper deploy.Templater, all []template.Template) error {
		if needless = template.Prunable(all); dryRun {
			return nil
		}
		return deleteAll(ctx, keeper, needless)
	})
	return needless, err
}

// deleteAll deletes templates, all that it can.
func deleteAll(ctx context.Context, keeper deploy.Templater, list []template.Template) error {
	var failures []error
	for _, t := range list {
		failures = append(failures, keeper.DeleteTemplate(ctx, t.VM))
	}
	return errors.Join(failures...)
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

// onTemplates opens the way to the templates of a Proxmox VE and lets work use them. Those that may be meant and cannot be read are
// warned of.
func (e *Engine) onTemplates(
	ctx context.Context, request Request, work func(context.Context, deploy.Templater, []template.Template) error,
) error {
	s, err := e.open(ctx, templateVerb, request.about(templateVerb))
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
	s.warnOfAway(template.Away(list, request.Name))
	return work(ctx, keeper, template.Read(list))
}

// VerifiedTemplate is what came of verifying one.
type VerifiedTemplate struct {
	Outcome
	Identity template.Identity
}

// VerifyTemplate looks at clones of each copy of a template: whether each is a machine of its own, and has what was recorded. What is found
// is noted in the template.
func (e *Engine) VerifyTemplate(ctx context.Context, request Request) (VerifiedTemplate, error) {
	copies, err := e.FindTemplate(ctx, request)
	if err != nil {
		return VerifiedTemplate{}, err
	}
	identity := copies[0].Identity
	verified := VerifiedTemplate{Identity: identity}
	two := request.about("verify-" + identity.Layer)
	if err := e.endEarlierBuild(ctx, two); err != nil {
		return verified, err
	}
	two.Settings.NodeCount, two.Settings.HostsFile, two.Settings.Template = 2, "", identity.Version
	verified.Outcome, err = e.do(ctx, templateVerb, two, func(s *session) error {
		s.template = templateRun{command: "hive-test template verify " + identity.Version}
		check := func() error {
			s.Record.Builds, s.Record.Spec.KeepHostKeys = identity.Layer, true
			return s.onEachCopy(copies)
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

// noteSaving tells, of a run that has made and configured a cluster of clones, how much less time that took than the last time
// without a template, on as many nodes.
func (s *session) noteSaving(outcomes []phase.Outcome) {
	if s.verb != "full" || s.Record.Template == nil {
		return
	}
	seconds := map[string]float64{}
	for _, o := range outcomes {
		if o.Status == progress.Passed {
			seconds[o.Name] = o.Seconds
		}
	}
	now, passed := preparing(seconds)
	cold, run := s.lastCold()
	if !passed || run == "" {
		return
	}
	use := progress.TemplateUse{Version: s.Record.Template.Version, Seconds: now, ColdSeconds: cold, ColdRun: run}
	s.Sink.Emit(progress.Event{Kind: progress.Note, Message: use.String(), Template: &use})
}

// preparing is what up and configure took together, where both have passed.
func preparing(seconds map[string]float64) (total float64, passed bool) {
	up, made := seconds[string(cluster.PhaseUp)]
	configure, configured := seconds[string(cluster.PhaseConfigure)]
	return up + configure, made && configured
}

// lastCold finds the last full that has made as many nodes in the same place without a template; an empty run: there is none.
func (s *session) lastCold() (seconds float64, run string) {
	names, _ := s.Store.Remembered() // without it there is nothing to compare with
	var last time.Time
	for _, name := range names {
		for _, past := range pastReports(s.Store, name) {
			total, passed := preparing(lastSeconds([]pastReport{past}))
			if past.Verb != "full" || !passed || len(past.Nodes) != len(s.Record.Nodes) || past.Started.Before(last) ||
				settingOf(past.Report, "template") != "" || settingOf(past.Report, "sim") != fmt.Sprint(s.Settings.Sim) {
				continue
			}
			seconds, run, last = total, string(name)+"/"+past.run, past.Started
		}
	}
	return seconds, run
}

// settingOf is a setting that was given to a run of before.
func settingOf(r report.Report, key string) string {
	for _, setting := range r.Settings {
		if setting.Key == key {
			return setting.Value
		}
	}
	return map[string]string{"sim": "false"}[key]
}
