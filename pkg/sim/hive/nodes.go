package simhive

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
)

// Colours that hive's tables have even when nothing looks at them.
const (
	colourHeader = "\x1b[1;36m"
	colourReady  = "\x1b[32m"
	colourBad    = "\x1b[31m"
	colourOff    = "\x1b[0m"
)

// getNodes prints every configured node, Ready if its daemon answers over the network and is running.
func (p *program) getNodes(args []string) error {
	flags := pflag.NewFlagSet("get nodes", pflag.ContinueOnError)
	flags.SetOutput(p.stderr)
	timeout := flags.Duration("timeout", 3*time.Second, "how long to wait for answers")
	file := flags.String("config", filepath.Join(p.home, "hive", "config", "hive.toml"), "the node's configuration")
	p.settings.addFlags(flags)
	if err := p.parse(flags, args); err != nil {
		return err
	}
	if err := p.injected("get"); err != nil {
		return err
	}
	config, _, err := readConfig(layout{ConfigDir: filepath.Dir(*file)})
	if err != nil {
		return err
	}
	client := peerClient(config.self().ClusterIP, *timeout)
	defer client.CloseIdleConnections()
	if _, err := askPeer(context.Background(), client, config, config.self()); err != nil {
		return fmt.Errorf("Error: failed to connect to NATS: no servers available for connection")
	}
	for _, line := range renderTable(p.tableHeader(), p.tableRows(config, client)) {
		p.say("%s", line)
	}
	return nil
}

func (p *program) tableHeader() []string {
	if p.settings.spx() {
		return []string{"NAME", "STATUS", "ROLES", "IP", "REGION", "AZ", "UPTIME", "VMs", "SERVICES"}
	}
	return []string{"NAME", "STATUS", "IP", "REGION", "AZ", "UPTIME", "VMs", "SERVICES"}
}

func (p *program) tableRows(config nodeConfig, client *http.Client) [][]string {
	names := config.names()
	rows := make([][]string, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() {
			m := config.Nodes[name]
			answer, err := askPeer(context.Background(), client, config, m)
			rows[i] = p.tableRow(m, answer, err == nil && answer.Status == "running")
		})
	}
	wait.Wait()
	return rows
}

func (p *program) tableRow(m member, answer peerAnswer, ready bool) []string {
	status, uptime, guests := "NotReady", "-", "-"
	if ready {
		status, uptime, guests = "Ready", formatUptime(time.Duration(answer.Uptime)*time.Second), "0"
	}
	row := []string{m.Name, status}
	if p.settings.spx() {
		row = append(row, "server")
	}
	return append(row, m.BindIP, m.Region, m.AZ, uptime, guests, strings.Join(m.Services, ","))
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
