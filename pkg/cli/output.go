package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/cluster"
	"hive-test/pkg/engine"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// outputSchema is the version of the shapes that -o json prints: within it fields may be added, never renamed.
const outputSchema = 1

// printJSON writes one document to stdout.
func printJSON(w io.Writer, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(progress.DisarmJSON(raw), '\n'))
	return err
}

// printYAML writes the same document as YAML, with the JSON names.
func printYAML(w io.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	out, err := yaml.Marshal(plain)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// printAs writes value in a structured format; ok is false for formats that are tables.
func printAs(w io.Writer, format string, value any) (ok bool, err error) {
	switch format {
	case "json":
		return true, printJSON(w, value)
	case "yaml":
		return true, printYAML(w, value)
	}
	return false, nil
}

// statusJSON is the shape of `status NAME -o json`.
type statusJSON struct {
	Schema  int              `json:"schema"`
	Cluster string           `json:"cluster"`
	Phase   string           `json:"phase"`
	State   string           `json:"state"`
	OwnerID string           `json:"owner_id"`
	Created time.Time        `json:"created"`
	Expires *time.Time       `json:"expires"`
	Held    bool             `json:"held"`
	Formed  bool             `json:"formed"`
	Reasons []string         `json:"reasons,omitempty"`
	Notes   []string         `json:"notes,omitempty"` // worth knowing, and no faults
	Nodes   []nodeStatusJSON `json:"nodes"`

	Interrupted *engine.Interruption `json:"interrupted,omitempty"`

	clusterReasons []string // those of Reasons that are no node's
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
}

func statusOf(s engine.Status) statusJSON {
	p, state := s.Record.Current()
	out := statusJSON{
		Schema: outputSchema, Cluster: s.Record.Name.String(), Phase: string(p), State: string(state),
		OwnerID: s.Record.Owner.ID, Created: s.Record.Owner.Created, Expires: engine.Expiry(s.Record.Owner), Held: s.Record.Owner.Held,
		Formed: s.Formed, Reasons: s.Reasons(), Notes: s.Notes(), Nodes: []nodeStatusJSON{}, clusterReasons: s.ClusterReasons,
	}
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, nodeOf(n))
	}
	if s.Interrupted != nil {
		out.Interrupted, out.State = s.Interrupted, engine.StateInterrupted
	}
	return out
}

func nodeOf(n lifecycle.NodeStatus) nodeStatusJSON {
	out := nodeStatusJSON{
		Name: n.Name, Index: n.Index, VMID: n.VMID, Hypervisor: n.Hypervisor, Power: n.Power.Power, Agent: n.Power.Agent,
		ManagementMAC: n.ManagementMAC, DataMAC: n.DataMAC, SSH: n.SSH,
		Health: healthJSON{n.Health.Code, n.Health.Status}, Peers: n.Health.Peers, Ready: n.Health.Ready,
		Gateway: n.Health.Gateway, InstanceTypes: n.Health.InstanceTypes, Error: n.Health.Error,
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
func printStatus(w io.Writer, s statusJSON, wide bool) error {
	formed := "formed"
	if !s.Formed {
		formed = "not formed"
	}
	fmt.Fprintf(w, "cluster %s: %s %s, %s%s\n", s.Cluster, s.Phase, s.State, formed, s.limits())
	if wide {
		fmt.Fprintf(w, "owner id %s\n", s.OwnerID)
	}
	if s.Interrupted != nil {
		fmt.Fprintln(w, s.Interrupted)
	}
	header := []string{"NODE", "VMID", "HYPERVISOR", "POWER", "AGENT", "MANAGEMENT", "DATA", "SSH", "HEALTH", "PEERS"}
	if wide {
		header = append(header, "READY", "GATEWAY", "TYPES", "MAC", "DATA MAC")
	}
	rows := [][]string{header}
	for _, n := range s.Nodes {
		row := []string{
			n.Name, strconv.Itoa(n.VMID), dash(n.Hypervisor), n.Power, n.Agent, dash(n.Management), dash(n.Data),
			sshWord(n.SSH), healthWord(n.Health), peersWord(n.Peers),
		}
		if wide {
			row = append(row, dash(n.Ready), strconv.Itoa(n.Gateway), strconv.Itoa(n.InstanceTypes), dash(n.ManagementMAC), dash(n.DataMAC))
		}
		rows = append(rows, row)
	}
	if err := tabbed(w, rows); err != nil {
		return err
	}
	for _, reason := range s.Reasons {
		fmt.Fprintf(w, "  - %s\n", progress.Disarm(oneLine(reason)))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w, "  %s\n", progress.Disarm(oneLine(note)))
	}
	return nil
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

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
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

func healthWord(h healthJSON) string {
	switch {
	case h.Code == 0:
		return "no answer"
	case h.Status == "":
		return fmt.Sprintf("HTTP %d", h.Code)
	}
	return h.Status
}

// tabbed writes rows as an aligned table. A cell may come from a node: it is a piece of one line of text, and nothing
// else.
func tabbed(w io.Writer, rows [][]string) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, progress.Disarm(text.String()))
	return err
}

// oneLine is text as a part of a line of ours.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(progress.Clean(text))
}

// checkFormat checks -o against what a verb can print.
func checkFormat(got string, allowed ...string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return usage(fmt.Errorf("-o %s is not possible here: use one of %s", got, strings.Join(allowed, ", ")))
}
