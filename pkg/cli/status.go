package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/engine"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "what is recorded, what the hypervisors say and what the nodes answer, side by side; no name lists all",
		Long: `status shows, per node, what is recorded, what its hypervisor says and what it answers itself. It exits 0 only if
the cluster is formed: every node answers as itself, is running, sees all the others and serves signed calls. The last
lines are the commands that come next: they go on with what was interrupted, start or make VMs that are stopped or gone,
put hive on nodes that lack it, heal faults that were applied, and start its services that are dead.
Without a name it lists the clusters that are here.

With --watch it looks again and again. On a terminal the table is drawn anew in its place; elsewhere the first look is
told in a line per node, and from then on each change, with its time (-o json: a document per change, one a line). It ends
with Ctrl-C, or when the cluster is gone (exit 0), or with --timeout, as status would then.`,
		Example: `  hive-test status
  hive-test status dev1 -o wide
  hive-test status dev1 --watch --interval 5s`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	watch := cmd.Flags().Bool("watch", false, "look again and again, and show what changes")
	interval := cmd.Flags().Duration("interval", watchInterval, "pause between two looks of --watch")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		switch {
		case !*watch && cmd.Flags().Changed("interval"):
			return usage(errors.New("--interval is for --watch"))
		case *watch && len(args) == 0:
			return usage(errors.New("--watch needs the name of a cluster"))
		case *interval < shortestInterval:
			return usage(fmt.Errorf("--interval %s is too short: give %s or more", *interval, shortestInterval))
		case *watch:
			return a.watch(ctx, args[0], *interval, settings)
		case len(args) == 0:
			return a.list(ctx, settings)
		}
		return a.status(ctx, args[0], settings)
	})
	return cmd
}

func (a *app) status(ctx context.Context, name string, settings config.Settings) error {
	a.signals.looking()
	return a.work(settings, func(e *engine.Engine) error {
		status, err := e.Status(ctx, a.request(name, settings))
		if err != nil {
			return err
		}
		if err := a.unlessUnread(a.printStatus(statusOf(status), settings)); err != nil {
			return err
		}
		if !status.Formed {
			return engine.Error{Code: engine.ExitUnhealthy}
		}
		return nil
	})
}

func (a *app) printStatus(document statusJSON, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	return printStatus(a.page(a.Stdout, settings), document, settings.Output == "wide")
}

// listJSON is the shape of `status -o json`.
type listJSON struct {
	Schema   int              `json:"schema"`
	Clusters []engine.Summary `json:"clusters"`
}

func (a *app) list(ctx context.Context, settings config.Settings) error {
	var clusters []engine.Summary
	err := a.work(settings, func(e *engine.Engine) (err error) {
		clusters, err = e.Clusters(ctx, settings)
		return err
	})
	if err != nil {
		return err
	}
	document := listJSON{Schema: outputSchema, Clusters: clusters}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	if len(clusters) == 0 {
		fmt.Fprintf(a.Stderr, "no clusters in %s\n", settings.ClustersDir)
	}
	return document.print(a.page(a.Stdout, settings), settings.Output == "wide")
}

// listColumns are those of the list of clusters. On a narrow terminal OWNER goes first, then CREATED, LOCKED BY, EXPIRES.
func listColumns() []column {
	return []column{
		{name: "NAME", least: 16},
		{name: "PHASE"},
		{name: "STATE", color: stateColor},
		{name: "NODES", right: true},
		{name: "CREATED", drop: 2},
		{name: "EXPIRES", drop: 4},
		{name: "OWNER", drop: 1},
		{name: "LOCKED BY", least: 16, drop: 3},
	}
}

// nodesIn is how many nodes a cluster has, where that is known here.
func nodesIn(c engine.Summary) string {
	if c.State == engine.StateElsewhere {
		return "-"
	}
	return strconv.Itoa(c.Nodes)
}

// print writes the table for people.
func (d listJSON) print(p page, wide bool) error {
	columns := listColumns()
	if wide {
		p, columns = p.complete(), append(columns, column{name: "OWNER ID"})
	}
	var rows [][]string
	for _, c := range d.Clusters {
		rows = append(rows, []string{
			c.Name, dash(c.Phase), dash(c.State), nodesIn(c), made(c), ends(c), dash(c.Owner),
			dash(c.LockedBy), dash(c.OwnerID),
		}[:len(columns)])
	}
	if err := p.table(columns, rows); err != nil {
		return err
	}
	for _, c := range d.Clusters {
		if c.Interrupted == nil {
			continue
		}
		if err := p.line(fmt.Sprintf("%s: %s", c.Name, c.Interrupted), "  "); err != nil {
			return err
		}
	}
	return nil
}

// made is when the cluster was made, for people; unknown where its record is damaged.
func made(c engine.Summary) string {
	if c.Created.IsZero() {
		return "-"
	}
	return c.Created.Local().Format(time.DateTime)
}

// ends is when the cluster expires, for people.
func ends(c engine.Summary) string {
	switch {
	case c.Held:
		return "held"
	case c.Expires == nil:
		return "-"
	}
	return c.Expires.Local().Format(time.DateTime)
}

// statusJSON is the shape of `status NAME -o json`.
type statusJSON struct {
	Schema  int              `json:"schema"`
	Cluster string           `json:"cluster"`
	Phase   string           `json:"phase,omitempty"` // as the four below, of no cluster that is gone
	State   string           `json:"state,omitempty"`
	Owner   string           `json:"owner,omitempty"` // the user and the host that made the cluster
	OwnerID string           `json:"owner_id,omitempty"`
	Created time.Time        `json:"created,omitzero"`
	Expires *time.Time       `json:"expires" jsonschema:"nullable"`
	Held    bool             `json:"held"`
	Formed  bool             `json:"formed"`
	Reasons []string         `json:"reasons,omitempty"`
	Notes   []string         `json:"notes,omitempty"` // worth knowing, and no faults
	Nodes   []nodeStatusJSON `json:"nodes"`
	Next    []string         `json:"next"` // the commands that come next

	Snapshots []snapshotJSON `json:"snapshots,omitempty"` // the oldest first

	Interrupted *engine.Interruption `json:"interrupted,omitempty"`

	clusterReasons []string // those of Reasons that are no node's
	members        int      // of a hive that is healthy, and not formed of all nodes
	ill            bool     // hive was formed of all nodes, and is not healthy
}

type healthJSON struct {
	Code   int    `json:"code"`
	Status string `json:"status"`
}

type nodeStatusJSON struct {
	Name          string     `json:"name"`
	Index         int        `json:"index"`
	VMID          int        `json:"vmid"`
	Hypervisor    string     `json:"hypervisor"`
	Power         string     `json:"power"`
	Agent         string     `json:"agent"`
	Management    string     `json:"management"`
	Data          string     `json:"data"`
	ManagementMAC string     `json:"management_mac"`
	DataMAC       string     `json:"data_mac"`
	SSH           string     `json:"ssh"`
	Health        healthJSON `json:"health"`
	Peers         int        `json:"peers"`
	Ready         string     `json:"ready"`
	Gateway       int        `json:"gateway"`
	InstanceTypes int        `json:"instance_types"`
	Error         string     `json:"error,omitempty"`

	Services []hive.Service `json:"services"`

	outside bool // hive was formed without it
}

func statusOf(s engine.Status) statusJSON {
	p, state := s.Record.Current()
	out := statusJSON{
		Schema: outputSchema, Cluster: s.Record.Name.String(), Phase: string(p), State: string(state),
		Owner: s.Record.Owner.Who(), OwnerID: s.Record.Owner.ID, Created: s.Record.Owner.Created, Expires: engine.Expiry(s.Record.Owner),
		Held:   s.Record.Owner.Held,
		Formed: s.Formed, Reasons: s.Reasons(), Notes: s.Notes(), Nodes: []nodeStatusJSON{},
		Next: append([]string{}, s.Next...), clusterReasons: s.ClusterReasons,
		members: s.Members, ill: s.Ill(),
	}
	out.Snapshots = snapshotsOf("", len(s.Nodes), s.Snapshots).Snapshots
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, nodeOf(n))
	}
	if s.Interrupted != nil {
		out.Interrupted, out.State = s.Interrupted, engine.StateInterrupted
	}
	return out
}

func nodeOf(n lifecycle.NodeStatus) nodeStatusJSON {
	vm := placement.Of(n.Node)
	out := nodeStatusJSON{
		Name: n.Name, Index: n.Index, VMID: vm.VMID, Hypervisor: vm.Hypervisor, Power: n.Power.Power,
		Agent:         n.Power.Agent,
		ManagementMAC: vm.ManagementMAC, DataMAC: vm.DataMAC, SSH: n.SSH,
		Health: healthJSON{n.Health.Code, n.Health.Status}, Peers: n.Health.Peers, Ready: n.Health.Ready,
		Gateway: n.Health.Gateway, InstanceTypes: n.Health.InstanceTypes, Error: n.Health.Error, outside: n.Outside,
	}
	if out.Services = n.Health.Services; out.Services == nil {
		out.Services = []hive.Service{}
	}
	if n.Management.IsValid() {
		out.Management = n.Management.String()
	}
	if n.Data.IsValid() {
		out.Data = n.Data.String()
	}
	return out
}

// printStatus writes the table for people.
func printStatus(p page, s statusJSON, wide bool) error {
	columns := statusColumns()
	if wide {
		p, columns = p.complete(), append(columns, wideColumns()...)
	}
	lines := []string{fmt.Sprintf("cluster %s: %s %s, %s%s", s.Cluster, s.Phase, s.State, s.formed(), s.limits())}
	if wide {
		lines = append(lines, "owner id "+s.OwnerID)
	}
	if s.Interrupted != nil {
		lines = append(lines, s.Interrupted.String())
	}
	for _, line := range lines {
		if err := p.line(line, "  "); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, n := range s.Nodes {
		rows = append(rows, []string{
			n.Name, dash(strings.TrimPrefix(strconv.Itoa(n.VMID), "0")), dash(n.Hypervisor), n.Power, n.Agent,
			dash(n.Management), dash(n.Data),
			sshWord(n.SSH), healthWord(n), peersWord(n.Peers), dash(n.Ready), strconv.Itoa(n.Gateway),
			strconv.Itoa(n.InstanceTypes), dash(n.ManagementMAC), dash(n.DataMAC),
		}[:len(columns)])
	}
	if err := p.table(columns, rows); err != nil {
		return err
	}
	for _, reason := range s.Reasons {
		if err := p.line("  - "+reason, "  "); err != nil {
			return err
		}
	}
	if len(s.Snapshots) > 0 {
		if err := p.line("  "+snapshotLine(s.Snapshots), "  "); err != nil {
			return err
		}
	}
	for _, note := range s.Notes {
		if err := p.line("  "+note, "  "); err != nil {
			return err
		}
	}
	lead := "next: "
	for _, command := range s.Next {
		if err := p.line(lead+command, "  "); err != nil {
			return err
		}
		lead = "      "
	}
	return nil
}

// formed says for people whether the cluster is formed and healthy, and of how many of its nodes where not of all.
func (s statusJSON) formed() string {
	switch {
	case s.Formed:
		return "formed"
	case s.members > 0:
		return fmt.Sprintf("formed of %d of %s", s.members, progress.Count(len(s.Nodes), "node"))
	case s.ill:
		return "not healthy"
	}
	return "not formed"
}

// statusColumns are those of a cluster's nodes. On a narrow terminal AGENT goes first, then DATA, HYPERVISOR, VMID, PEERS,
// MANAGEMENT.
func statusColumns() []column {
	return []column{
		{name: "NODE", least: 16},
		{name: "VMID", right: true, drop: 4},
		{name: "HYPERVISOR", drop: 3},
		{name: "POWER", color: stateColor},
		{name: "AGENT", drop: 1},
		{name: "MANAGEMENT", drop: 6},
		{name: "DATA", drop: 2},
		{name: "SSH", color: stateColor},
		{name: "HEALTH", least: 12, color: stateColor},
		{name: "PEERS", right: true, drop: 5},
	}
}

// wideColumns follow with -o wide.
func wideColumns() []column {
	return []column{
		{name: "READY"},
		{name: "GATEWAY", right: true},
		{name: "TYPES", right: true},
		{name: "MAC"},
		{name: "DATA MAC"},
	}
}

// stateColor returns the color of a word for a state.
func stateColor(word string) progress.Color {
	switch word {
	case "running", "ok", "passed", "done", "healthy", "formed":
		return progress.Green
	case "stopped", "gone", "fails", "failed", "no answer", "degraded":
		return progress.Red
	case "interrupted", "paused", "unknown", "damaged", "unreadable", "unmade", "making", "no member":
		return progress.Yellow
	}
	if strings.HasSuffix(word, " dead") || strings.HasSuffix(word, " silent") { // a service of hive
		return progress.Red
	}
	return ""
}

// limits tells until when the cluster is meant to exist, where that is limited or it is held.
func (s statusJSON) limits() string {
	if s.Expires == nil && !s.Held {
		return ""
	}
	owner := cluster.Owner{Held: s.Held}
	if s.Expires != nil {
		owner.Expires = *s.Expires
	}
	return ", " + timeLeft(owner, time.Now())
}

func sshWord(s string) string {
	if s == "ok" || s == "unknown" {
		return s
	}
	return "fails"
}

func peersWord(peers int) string {
	if peers < 0 { // hive.PeersUnknown
		return "-"
	}
	return strconv.Itoa(peers)
}

// healthWord is a node's health in a word or two: what /health says, unless that is good and a service of hive is not.
func healthWord(n nodeStatusJSON) string {
	ill := slices.IndexFunc(n.Services, func(s hive.Service) bool {
		return s.State == hive.ServiceDead || s.State == hive.ServiceSilent
	})
	switch {
	case n.Health.Code == 0 && n.outside:
		return "no member"
	case n.Health.Code == 0 && n.Management == "":
		return "unknown"
	case n.Health.Code == 0:
		return "no answer"
	case n.Health.Status == "":
		return fmt.Sprintf("HTTP %d", n.Health.Code)
	case n.Health.Status == "running" && ill >= 0:
		return fmt.Sprintf("%s %s", n.Services[ill].Name, n.Services[ill].State)
	case n.Health.Status == "running" && n.Error != "":
		return "degraded"
	}
	return n.Health.Status
}
