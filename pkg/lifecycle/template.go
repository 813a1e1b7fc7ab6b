package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/template"
)

// PhaseBuild is the phase that makes a template of a cluster's one node.
const PhaseBuild cluster.Phase = "build"

// How long one download and one script of a layer may take.
const templateScriptTime = 40 * time.Minute

// BuildTemplate makes a cluster of one node, installs a layer there and makes a template of it, which is the cluster's no
// longer. What is left of the cluster is removed, whatever happens in between; the node of a build that failed stays where
// keep says so. Identity is filled in with what was found on the node.
func BuildTemplate(r *Job, keep Keep, layer template.Layer, identity *template.Identity) []phase.Entry {
	return withEnd(r, ofBuilder(keep), Up(r), collectOnFailure{Phase: &build{Job: r, layer: layer, identity: identity}, run: r})
}

// ofBuilder is what becomes of a builder's nodes: what was built is no node any more.
func ofBuilder(keep Keep) Keep {
	if keep == KeepAlways {
		return KeepOnFailure
	}
	return keep
}

// build installs a layer on the one node and makes a template of it.
type build struct {
	*Job
	layer    template.Layer
	identity *template.Identity
}

// Name is the phase's name.
func (b *build) Name() string { return string(PhaseBuild) }

// Run builds.
func (b *build) Run(ctx context.Context) error {
	if b.Deploy.Templates == nil {
		return errors.New("no templates can be made of hosts that were there")
	}
	if err := b.configure(ctx, "", hive.StepOS); err != nil {
		return err
	}
	if err := b.steps(ctx, PhaseBuild, b.installing()...); err != nil {
		return err
	}
	if b.layer.Hive {
		if err := b.configure(ctx, hive.StepInstall, hive.StepInstall); err != nil {
			return err
		}
	}
	return b.steps(
		ctx, PhaseBuild,
		step{"note the versions", b.versions},
		step{"take away what is the node's own", b.generalise},
		step{"shut the node down", b.shutDown},
		step{"make a template of it", b.seal},
	)
}

// installing are the steps that put onto the node what the layer has.
func (b *build) installing() []step {
	list := []step{{"put files onto the node", b.files}}
	if b.layer.Upstream.Named() {
		list = append(list, step{"install what hive's Makefile says", b.upstream})
	}
	return append(list, step{"run the layer's scripts", b.scripts})
}

// upstream runs the targets of hive's own Makefile. It comes after the downloads, which the targets leave as they are.
func (b *build) upstream(ctx context.Context, sink progress.Sink) error {
	env := map[string]string{"HIVE_REPO": b.layer.Upstream.Repo, "HIVE_REF": b.layer.Upstream.Ref}
	if path := b.layer.Upstream.Path; path != "" {
		host, err := b.host()
		if err != nil {
			return err
		}
		if _, err := host.Upload(ctx, path, "~/.hive-test-template/upstream/Makefile", 0o600); err != nil {
			return fmt.Errorf("putting hive's Makefile onto the node: %w", err)
		}
		env["TEMPLATE_MAKEFILE"] = "yes"
	}
	_, err := b.script(ctx, sink, template.ScriptUpstream, env)
	return err
}

// configure does steps of configuring on the node.
func (b *build) configure(ctx context.Context, from, until string) error {
	handle, err := b.hive(b.sink(PhaseBuild))
	if err != nil {
		return err
	}
	return handle.Configure(ctx, hive.StepSelection{From: from, Until: until})
}

// files puts downloads and files of the layer onto the node.
func (b *build) files(ctx context.Context, sink progress.Sink) error {
	host, err := b.host()
	if err != nil {
		return err
	}
	for _, d := range b.layer.Downloads {
		from := d.URL
		if d.Path != "" {
			from = d.Path
			if _, err := host.Upload(ctx, d.Path, "~/.hive-test-template/"+d.Name, 0o600); err != nil {
				return fmt.Errorf("putting %s onto the node: %w", d.Path, err)
			}
		}
		sink.Emit(progress.Event{Kind: progress.Info, Node: host.Name(), Message: d.Name + " from " + from})
		_, err := b.script(ctx, sink, template.ScriptDownload, map[string]string{
			"TEMPLATE_NAME": d.Name, "TEMPLATE_URL": d.URL, "TEMPLATE_SHA256": d.SHA256,
		})
		if err != nil {
			return fmt.Errorf("download %s: %w", d.Name, err)
		}
	}
	for _, f := range b.layer.Files {
		if _, err := host.CopyTo(ctx, []string{f.Path}, f.To); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	return nil
}

// scripts runs the layer's own scripts, in order.
func (b *build) scripts(ctx context.Context, sink progress.Sink) error {
	for _, script := range b.layer.Scripts {
		if _, err := b.run(ctx, sink, script.Name, script.Text, nil); err != nil {
			return fmt.Errorf("script %s: %w", script.Name, err)
		}
	}
	return nil
}

// host is the one node.
func (b *build) host() (*remote.Host, error) {
	group, err := b.group()
	if err != nil {
		return nil, err
	}
	return group[0], nil
}

// script runs a script of package template on the node.
func (b *build) script(ctx context.Context, sink progress.Sink, name string, env map[string]string) (remote.Result, error) {
	text, err := template.Text(name)
	if err != nil {
		return remote.Result{}, err
	}
	return b.run(ctx, sink, name, text, env)
}

// run runs a script on the node, and tells what it writes as it comes.
func (b *build) run(
	ctx context.Context, sink progress.Sink, name, text string, env map[string]string,
) (remote.Result, error) {
	host, err := b.host()
	if err != nil {
		return remote.Result{}, err
	}
	return host.Run(ctx, remote.Command{
		Name: filepath.Base(name), Script: text, Env: env, Timeout: templateScriptTime, Lasts: true,
		OnLine: func(_, line string) {
			sink.Emit(progress.Event{Kind: progress.Output, Node: host.Name(), Message: line})
		},
	})
}

// versions notes what is on the node.
func (b *build) versions(ctx context.Context, sink progress.Sink) error {
	result, err := b.script(ctx, sink, template.ScriptVersions, map[string]string{
		"TEMPLATE_PACKAGES": strings.Join(b.layer.Packages, " "),
	})
	if err != nil {
		return err
	}
	b.identity.Versions = template.ParseVersions(string(result.Stdout))
	return nil
}

// generalise makes the disk one of nobody.
func (b *build) generalise(ctx context.Context, sink progress.Sink) error {
	_, err := b.script(ctx, sink, template.ScriptGeneralise, nil)
	return err
}

// shutDown has the guest write all that it holds.
func (b *build) shutDown(ctx context.Context, _ progress.Sink) error {
	return b.Deploy.Templates.ShutDown(ctx, b.Record, b.Record.Nodes.Leader())
}

// seal makes the template, and forgets the node: what is left of the cluster is removed without it.
func (b *build) seal(ctx context.Context, sink progress.Sink) error {
	b.identity.Built = b.Now().UTC().Truncate(time.Second)
	err := b.Deploy.Templates.ToTemplate(ctx, b.Record, b.Record.Nodes.Leader(), marksOf(*b.identity, b.identity.Description()))
	if err != nil {
		return err
	}
	progress.Infof(sink, "template %s is made", b.identity.Version)
	return b.change(ctx, func() { b.Record.Nodes = nil })
}

// marksOf is what every copy of a template is called, and says of itself.
func marksOf(i template.Identity, description string) deploy.Marks {
	return deploy.Marks{Name: i.Version, Description: description, Tags: []string{"hive-" + i.Layer}}
}

// PhaseCopy is the phase that makes copies of a template.
const PhaseCopy cluster.Phase = "copy"

// CopyTemplate makes a copy of a template where each node of the record is placed, and removes what is left of the cluster,
// whatever happens in between: copies that were made to the end are the cluster's no longer.
func CopyTemplate(r *Job, from template.Template) []phase.Entry {
	return withEnd(r, KeepNever, collectOnFailure{Phase: &copies{Job: r, from: from}, run: r})
}

// copies makes copies of a template.
type copies struct {
	*Job
	from template.Template
}

// Name is the phase's name.
func (c *copies) Name() string { return string(PhaseCopy) }

// Run makes the machines, as up does, but starts none: what is on the disk stays as it is.
func (c *copies) Run(ctx context.Context) error {
	list := []step{{"copy the template", c.copy}}
	if c.Deploy.Lease != nil {
		list = slices.Insert(list, 0, step{"claim the VM ids", func(ctx context.Context, sink progress.Sink) error {
			return c.Deploy.Lease.Acquire(ctx, c.Record, c.Before, sink)
		}})
	}
	return c.recorded(ctx, cluster.PhaseUp, "", func(ctx context.Context) error { return c.steps(ctx, PhaseCopy, list...) })
}

func (c *copies) copy(ctx context.Context, sink progress.Sink) error {
	failures := make([]error, len(c.Record.Nodes))
	var all sync.WaitGroup
	for i, node := range c.Record.Nodes {
		all.Go(func() {
			host := placement.Of(node).Hypervisor
			sink.Emit(progress.Event{Kind: progress.Info, Node: node.Name, Message: "copying to " + host})
			if failures[i] = c.copyTo(ctx, node); failures[i] != nil {
				failures[i] = progress.WithNodes(fmt.Errorf("%s: %w", host, failures[i]), node.Name)
				return
			}
			sink.Emit(progress.Event{Kind: progress.Info, Node: node.Name, Message: host + " has it"})
		})
	}
	all.Wait()
	var unmade cluster.Nodes
	for i, node := range c.Record.Nodes {
		if failures[i] != nil {
			unmade = append(unmade, node)
		}
	}
	err := c.change(ctx, func() { c.Record.Nodes = unmade })
	return errors.Join(append(failures, err)...)
}

func (c *copies) copyTo(ctx context.Context, node cluster.Node) error {
	if err := c.Deploy.Templates.CopyTemplate(ctx, c.Record, node, c.from.VM); err != nil {
		return err
	}
	return c.Deploy.Templates.ToTemplate(ctx, c.Record, node, marksOf(c.from.Identity, c.from.VM.Description))
}

// PhaseVerify is the phase that looks at clones of a template.
const PhaseVerify cluster.Phase = "verify"

// FaultyError says what is wrong with a template.
type FaultyError struct {
	Version string
	Faults  []template.Fault
}

func (e *FaultyError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	return fmt.Sprintf("template %s has %s: %s", e.Version, progress.Count(len(texts), "fault"), strings.Join(texts, "; "))
}

// VerifyTemplate makes a cluster of clones of a template, looks at them, and removes the cluster, whatever happens in between.
func VerifyTemplate(r *Job, keep Keep, identity template.Identity) []phase.Entry {
	return withEnd(r, keep, Up(r), collectOnFailure{Phase: &verify{Job: r, identity: identity}, run: r})
}

// verify looks at clones of a template.
type verify struct {
	*Job
	identity template.Identity
	clones   []template.Clone
}

// Name is the phase's name.
func (v *verify) Name() string { return string(PhaseVerify) }

// Run looks at the clones, once cloud-init has made of each what it is.
func (v *verify) Run(ctx context.Context) error {
	handle, err := v.hive(v.sink(PhaseVerify))
	if err != nil {
		return err
	}
	if err := handle.Configure(ctx, hive.StepSelection{Until: hive.StepCloudInit}); err != nil {
		return err
	}
	return v.steps(ctx, PhaseVerify, step{"look at the clones", v.look}, step{"compare them", v.compare})
}

// look asks all clones what they are.
func (v *verify) look(ctx context.Context, _ progress.Sink) error {
	public, err := os.ReadFile(v.Record.PublicKeyPath())
	if err != nil {
		return err
	}
	key := strings.Fields(string(public))
	if len(key) < 2 {
		return fmt.Errorf("%s is no public key", v.Record.PublicKeyPath())
	}
	checks, err := v.ask(ctx, template.ScriptCheck, map[string]string{"TEMPLATE_KEY": key[1]})
	if err != nil {
		return err
	}
	versions, err := v.ask(ctx, template.ScriptVersions, map[string]string{"TEMPLATE_PACKAGES": v.packages()})
	if err != nil {
		return err
	}
	for i, node := range v.Record.Nodes {
		clone := template.Clone{Name: node.Name, On: placement.Of(node).Hypervisor, Versions: template.ParseVersions(versions[i])}
		clone.ParseCheck(checks[i])
		v.clones = append(v.clones, clone)
	}
	return nil
}

// packages are those whose versions were noted.
func (v *verify) packages() string {
	var names []string
	for name := range v.identity.Versions {
		if name, ok := strings.CutPrefix(name, "package-"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// ask runs a script on all clones at once, and returns what each has printed.
func (v *verify) ask(ctx context.Context, name string, env map[string]string) ([]string, error) {
	group, err := v.group()
	if err != nil {
		return nil, err
	}
	text, err := template.Text(name)
	if err != nil {
		return nil, err
	}
	results, err := group.Run(ctx, remote.Command{Name: name, Script: text, Env: env})
	printed := make([]string, len(results))
	for i, result := range results {
		printed[i] = string(result.Stdout)
	}
	return printed, err
}

func (v *verify) compare(context.Context, progress.Sink) error {
	if faults := v.identity.Faults(v.clones); len(faults) > 0 {
		return &FaultyError{v.identity.Version, faults}
	}
	return nil
}
