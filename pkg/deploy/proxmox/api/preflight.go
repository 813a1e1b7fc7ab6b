package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// PreflightRequest says what is about to be made.
type PreflightRequest struct {
	Spec     cluster.Spec
	Nodes    cluster.Nodes // reserved ids and hypervisors; empty: not chosen yet, every hypervisor of Spec is looked at
	Pool     string        // where the VMs go, if anywhere
	OwnIDs   []int         // ids of Nodes that exist and are this cluster's: not required to be free, nor counted again
	Anew     bool          // these may be made anew: what that takes is looked at on their hypervisors, too
	TokenID  string        // user@realm!name, for the texts of fixes
	Endpoint string        // for the texts of fixes

	Name cluster.Name // of the cluster; empty: not known, VMs that others have by its name are not looked for
	// OwnerID is that of the cluster: VMs that carry it are its own, among Nodes or not. Simulated says that commands
	// that are advised need --sim.
	OwnerID   string
	Simulated bool
	IDRange   IDRange // where ids are to be chosen from while Nodes is empty; zero: DefaultIDRange
	IDBase    int     // or where they begin
	// CPUOvercommit is how many virtual CPUs may run for each CPU of a hypervisor; 0: DefaultCPUOvercommit.
	CPUOvercommit int
	// Login tries, over SSH, what the provider will run on a hypervisor, whose snippets are below the directory
	// snippets. It returns what is wrong and how to mend it, or nothing. nil: SSH is not looked at.
	Login func(ctx context.Context, h placement.Hypervisor, snippets string) (problem, fix string)
	// More are checks of what is not Proxmox VE's; they run at the same time.
	More []Check
	// LiveOnly looks only at what may have changed since all was well a moment ago: ids and leftovers.
	LiveOnly bool
}

// DefaultCPUOvercommit is how many virtual CPUs may run for each CPU of a hypervisor.
const DefaultCPUOvercommit = 8

// Check looks at one thing.
type Check = func(ctx context.Context) []deploy.Finding

// Preflight looks for everything that would make creating the cluster fail, in parallel, and reports all of it at once.
// If the API cannot be used at all, that is the only finding besides those of More, since nothing else could be judged.
// It changes nothing; without an API it makes the checks of More only. It asks for each listing once, and never for
// single VMs but templates and those that others seem to have by the cluster's name.
func Preflight(ctx context.Context, c API, req PreflightRequest) []deploy.Finding {
	more := make([][]deploy.Finding, len(req.More))
	var wait sync.WaitGroup
	for i, check := range req.More {
		wait.Go(func() { more[i] = check(ctx) })
	}
	findings := onAPI(ctx, c, req)
	wait.Wait()
	return slices.Concat(append(more, findings)...)
}

// checks are what is looked at, in the order of the report.
func (p *preflight) checks() []func() []deploy.Finding {
	if p.req.LiveOnly {
		return []func() []deploy.Finding{p.ids, p.leftovers}
	}
	return []func() []deploy.Finding{
		p.access, p.clock, p.hypervisors, p.quorum, p.privileges, p.tags, p.pool, p.image, p.template, p.datastore,
		p.snippets, p.ssh, p.bridges,
		p.ids, p.cpu, p.memory, p.disk, p.leftovers,
	}
}

func onAPI(ctx context.Context, c API, req PreflightRequest) []deploy.Finding {
	notRun := deploy.Finding{
		ID: deploy.NotRun, Title: "further checks of Proxmox VE", Status: deploy.Skip,
		Detail: "not run: its API cannot be used",
	}
	if c == nil {
		return []deploy.Finding{notRun}
	}
	p := &preflight{ctx: ctx, api: c, req: req}
	if err := p.load(); err != nil {
		return []deploy.Finding{accessFinding(err, req), notRun}
	}
	checks := p.checks()
	results := make([][]deploy.Finding, len(checks))
	_ = each(len(checks), func(i int) error { results[i] = checks[i](); return nil })
	return slices.Concat(results...)
}

// accessFinding names the cause of an API that cannot be used: a wrong token, a wrong CA and a wrong address differ.
func accessFinding(err error, req PreflightRequest) deploy.Finding {
	f := deploy.Finding{Status: deploy.Fail, Detail: err.Error()}
	switch {
	case errors.Is(err, ErrUnauthorized):
		f.ID, f.Title = "pve-token", "API token is accepted"
		f.Detail = fmt.Sprintf("Proxmox refuses the API token %s: %s", req.TokenID, err)
		f.Fix = "check PROXMOX_VE_API_TOKEN (user@realm!name=secret); list tokens on a hypervisor with: pveum user token list " +
			tokenUser(req.TokenID) +
			"; the exact cause is in its syslog: journalctl -u pvedaemon -u pveproxy"
	case errors.Is(err, ErrTLS):
		f.ID, f.Title, f.Fix = "pve-tls", "server certificate is trusted", tlsFix(err, req.Endpoint)
	default:
		f.ID, f.Title = "pve-endpoint", "Proxmox API answers"
		f.Fix = endpointFix(req.Endpoint)
		if TimedOut(err) {
			f.Fix += "; " + CallTimeoutFix
		}
	}
	return f
}

func tokenUser(id string) string { user, _ := splitToken(id); return user }

// preflight is what the checks share: answers that several of them need are asked for once.
type preflight struct {
	ctx     context.Context
	api     API
	req     PreflightRequest
	version Version

	hosts     []Hypervisor
	hostsErr  error
	vms       []VM
	vmsErr    error
	privs     map[string]map[string]bool
	privsErr  error
	status    ClusterStatus
	statusErr error
	token     TokenInfo
	tokenErr  error
	targets   []target
	namedOnly bool          // nodes are not chosen yet
	slowest   time.Duration // of the answers that all checks need
}

// target is a hypervisor that nodes land on.
type target struct {
	spec     placement.Hypervisor
	nodes    cluster.Nodes // that are still to be made there; none: those that are there may be made anew
	host     Hypervisor
	known    bool // Proxmox knows it
	usable   bool // and it is online and answers
	storages []Storage
	err      error // of reading its storages

	bridges    []string
	bridgesErr error
}

// load asks for everything that several checks need, each of it once. Its error is of an API that cannot be used.
func (p *preflight) load() error {
	var failure error
	calls := []func(){
		func() { p.version, failure = p.api.Version(p.ctx) },
		func() { p.hosts, p.hostsErr = p.api.Hypervisors(p.ctx) },
		func() { p.vms, p.vmsErr = p.api.VMs(p.ctx) },
		func() { p.privs, p.privsErr = p.api.Permissions(p.ctx) },
		func() { p.status, p.statusErr = p.api.ClusterStatus(p.ctx) },
		func() { p.token, p.tokenErr = p.api.Token(p.ctx) },
	}
	if p.req.LiveOnly {
		calls = calls[:3]
	}
	took := make([]time.Duration, len(calls))
	_ = each(len(calls), func(i int) error {
		begun := time.Now()
		calls[i]()
		took[i] = time.Since(begun)
		return nil
	})
	p.slowest = slices.Max(took)
	if failure != nil {
		return failure
	}
	p.namedOnly = len(p.req.Nodes) == 0
	p.targets = p.plan()
	_ = each(len(p.targets), func(i int) error {
		t := &p.targets[i]
		if !t.usable || p.req.LiveOnly {
			return nil
		}
		var both sync.WaitGroup
		both.Go(func() { t.bridges, t.bridgesErr = p.api.Bridges(p.ctx, t.spec.Name) })
		t.storages, t.err = p.api.Storages(p.ctx, t.spec.Name)
		both.Wait()
		// One slow answer is not a broken hypervisor: a storage that hangs holds up the list of all.
		t.usable = !errors.Is(t.err, ErrUnreachable) || TimedOut(t.err) && !TimedOut(t.bridgesErr)
		return nil
	})
	return nil
}

// plan says which nodes land where.
func (p *preflight) plan() []target {
	specs := map[string]placement.Hypervisor{}
	var order []string
	for _, h := range placement.Hypervisors(p.req.Spec) {
		specs[h.Name] = h
		order = append(order, h.Name)
	}
	placed, anew := map[string]cluster.Nodes{}, map[string]bool{}
	for _, n := range p.req.Nodes {
		at := placement.Of(n)
		if _, found := specs[at.Hypervisor]; !found {
			specs[at.Hypervisor] = placement.Hypervisor{Name: at.Hypervisor}
			order = append(order, at.Hypervisor)
		}
		if !slices.Contains(p.req.OwnIDs, at.VMID) {
			placed[at.Hypervisor] = append(placed[at.Hypervisor], n)
		} else if p.req.Anew {
			anew[at.Hypervisor] = true
		}
	}
	if p.namedOnly {
		for i := range p.req.Spec.NodeCount {
			if len(order) > 0 {
				name := order[i%len(order)]
				placed[name] = append(placed[name], cluster.Node{
					Index: i + 1, Placement: placement.VM{Hypervisor: name}.Document(),
				})
			}
		}
	}
	var targets []target
	for _, name := range order {
		if len(placed[name]) == 0 && !anew[name] {
			continue // nothing lands there, so its state does not matter
		}
		t := target{spec: specs[name].WithDefaults(), nodes: placed[name]}
		for _, h := range p.hosts {
			if h.Name == name {
				t.host, t.known, t.usable = h, true, h.Online
			}
		}
		targets = append(targets, t)
	}
	return targets
}

// usable are the targets whose storages and networks can be judged.
func (p *preflight) usable() []target {
	return slices.DeleteFunc(slices.Clone(p.targets), func(t target) bool { return !t.usable })
}

// complete reports whether all VMs exist, and stay.
func (p *preflight) complete() bool { return !p.namedOnly && len(p.targets) == 0 }

// judged are the targets that a check looks at. Of the others it says that it does not: why is told of them as
// hypervisors.
func (p *preflight) judged(c *check) []target {
	c.needless = p.complete()
	for _, t := range p.targets {
		if !t.usable {
			c.addOn(t.spec.Name, deploy.Skip, "", "not checked on {each}, which cannot be used")
		}
	}
	return p.usable()
}

func (t target) storage(name string) (Storage, bool) {
	for _, s := range t.storages {
		if s.Name == name {
			return s, true
		}
	}
	return Storage{}, false
}

func (t target) storageNames(kind string) string {
	var names []string
	for _, s := range t.storages {
		if kind == "" || s.Holds(kind) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// check collects the findings of one check: what fails or warns, or one pass if nothing does.
type check struct {
	id, title string
	findings  []found
	needless  bool // it is about VMs that are to be made, and none are
}

// found is a finding whose texts hold {host}, or {each} for "each of several", where the name of the hypervisor goes,
// so that what is wrong on several of them in the same way is said once.
type found struct {
	deploy.Finding
	hosts []string
}

func (c *check) add(status deploy.Status, fix, format string, args ...any) {
	c.addOn("", status, fix, format, args...)
}

// addOn adds what is wrong on one hypervisor.
func (c *check) addOn(host string, status deploy.Status, fix, format string, args ...any) {
	f := deploy.Finding{ID: c.id, Title: c.title, Status: status, Detail: fmt.Sprintf(format, args...), Fix: fix}
	for i := range c.findings {
		if host != "" && c.findings[i].Finding == f {
			c.findings[i].hosts = append(c.findings[i].hosts, host)
			return
		}
	}
	c.findings = append(c.findings, found{f, []string{host}})
}

// unknown is a check that could not be made: the run may still work, so it warns.
func (c *check) unknown(what string, err error) {
	if errors.Is(err, deploy.ErrTimeUp) || TimedOut(err) {
		c.unmade(what, err)
		return
	}
	fix := ""
	if errors.Is(err, ErrForbidden) {
		fix = "give the API token the privilege that the text names"
	}
	c.add(deploy.Warn, fix, "%s cannot be checked: %s", what, err)
}

// unmade is a check for which no time was left, its own or that of all: of what it is about nothing is known, neither
// good nor bad.
func (c *check) unmade(what string, why error) {
	f := deploy.Finding{
		ID: c.id, Title: c.title, Status: deploy.Warn, Detail: fmt.Sprintf("not checked: %s: %s", what, why),
		Fix: "check again, or allow more time with --timeout", Unmade: true,
	}
	if TimedOut(why) {
		f.Fix = CallTimeoutFix
	}
	if !slices.ContainsFunc(c.findings, func(other found) bool { return other.Finding == f }) {
		c.findings = append(c.findings, found{Finding: f})
	}
}

// skip is a check that is not made, with the reason.
func (c *check) skip(format string, args ...any) { c.add(deploy.Skip, "", format, args...) }

func (c *check) done(pass string, args ...any) []deploy.Finding {
	switch {
	case len(c.findings) > 0:
	case c.needless:
		c.skip("nothing is to be made there")
	default:
		c.add(deploy.Pass, "", pass, args...)
	}
	findings := make([]deploy.Finding, len(c.findings))
	for i, f := range c.findings {
		names := strings.Join(f.hosts, ", ")
		each := names
		if len(f.hosts) > 1 {
			each = "each of " + names
		}
		fill := strings.NewReplacer("{host}", names, "{each}", each)
		f.Detail, f.Fix = fill.Replace(f.Detail), fill.Replace(f.Fix)
		findings[i] = f.Finding
	}
	return findings
}

func count(nodes int) string { return progress.Count(nodes, "node") }

// needs is the verb that goes with count.
func needs(n int) string {
	if n == 1 {
		return "needs"
	}
	return "need"
}
