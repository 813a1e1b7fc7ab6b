package simhive

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Colours that hive's tables have even when nothing looks at them.
const (
	colourHeader = "\x1b[1;36m"
	colourReady  = "\x1b[32m"
	colourBad    = "\x1b[31m"
	colourOff    = "\x1b[0m"
)

// nodesCommand is `get nodes`: every configured node, Ready if its daemon answers through NATS. It asks the own node's
// NATS and no other.
func (p *program) nodesCommand() *cobra.Command {
	c := &cobra.Command{Use: "nodes", Short: "Display cluster nodes"}
	c.Run = func(c *cobra.Command, _ []string) {
		timeout, _ := c.Flags().GetDuration("timeout")
		file, _ := c.Flags().GetString("config")
		for _, other := range []string{p.setting("config"), p.defaultLayout().config(p.settings.configName())} {
			if file == "" {
				file = other
			}
		}
		p.outcome = p.getNodes(file, timeout)
	}
	return c
}

func (p *program) getNodes(file string, timeout time.Duration) error {
	if err := p.injected("get"); err != nil {
		return err
	}
	config, _, err := p.readConfig(file)
	if err != nil {
		return fmt.Errorf("Error: failed to load config: %w", err)
	}
	o, err := p.busOf(config.self(), "get", nil, nil)
	if err != nil {
		return fmt.Errorf("Error: failed to connect to NATS: %w", err)
	}
	l, _, err := dialBus(context.Background(), o.address, o)
	if err != nil {
		return fmt.Errorf("Error: failed to connect to NATS: %w", err)
	}
	defer l.close()
	statuses := p.statuses(&bus{options: o, link: l, log: p.logf}, timeout)
	for _, line := range renderTable(p.tableHeader(), p.tableRows(config, statuses)) {
		p.say("%s", line)
	}
	return nil
}

// statuses asks all daemons. The real one waits the whole time even when all have answered.
func (p *program) statuses(b *bus, timeout time.Duration) map[string]nodeStatus {
	end := time.Now().Add(p.settings.scaled(timeout))
	found := map[string]nodeStatus{}
	for _, text := range b.gather(context.Background(), statusTopic, timeout) {
		var one nodeStatus
		if json.Unmarshal(text, &one) == nil {
			found[one.Node] = one
		}
	}
	time.Sleep(time.Until(end))
	return found
}

func (p *program) tableHeader() []string {
	if p.settings.spx() {
		return []string{"NAME", "STATUS", "ROLES", "IP", "REGION", "AZ", "UPTIME", "VMs", "SERVICES"}
	}
	return []string{"NAME", "STATUS", "IP", "REGION", "AZ", "UPTIME", "VMs", "SERVICES"}
}

func (p *program) tableRows(config nodeConfig, statuses map[string]nodeStatus) [][]string {
	names := slices.Sorted(maps.Keys(config.Nodes))
	rows := make([][]string, len(names))
	for i, name := range names {
		entry := config.Nodes[name]
		row := nodeStatus{
			Node: name, Status: "NotReady", Host: entry.Host, Region: entry.Region, AZ: entry.AZ,
			Services: entry.services(),
		}
		guests := "-"
		if heard, ok := statuses[name]; ok {
			row, guests = heard, "0"
		}
		rows[i] = p.tableRow(row, guests)
	}
	return rows
}

func (p *program) tableRow(s nodeStatus, guests string) []string {
	row := []string{s.Node, s.Status}
	if p.settings.spx() {
		row = append(row, "server")
	}
	uptime := formatUptime(time.Duration(s.Uptime) * time.Second)
	return append(row, s.Host, s.Region, s.AZ, uptime, guests, strings.Join(s.Services, ","))
}

// formatUptime shows days and hours, hours and minutes, or minutes.
func formatUptime(d time.Duration) string {
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case d <= 0:
		return "-"
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
	return fmt.Sprintf("%dm", minutes)
}

// renderTable pads the cells, joins them by bars and colours header and status.
func renderTable(header []string, rows [][]string) []string {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	lines := []string{renderRow(header, widths, func(int, string) string { return colourHeader })}
	for _, row := range rows {
		lines = append(lines, renderRow(row, widths, statusColour))
	}
	return lines
}

func renderRow(row []string, widths []int, colour func(int, string) string) string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = fmt.Sprintf("%-*s", widths[i], cell)
		if c := colour(i, cell); c != "" {
			cells[i] = c + cells[i] + colourOff
		}
	}
	return strings.Join(cells, " | ")
}

func statusColour(column int, cell string) string {
	switch {
	case column != 1:
		return ""
	case cell == "Ready":
		return colourReady
	default:
		return colourBad
	}
}
