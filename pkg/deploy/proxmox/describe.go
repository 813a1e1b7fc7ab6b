package proxmox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// toldTasks is how many of a VM's last tasks are kept, and toldSlack how far the hypervisor's clock may be behind.
const (
	toldTasks = 20
	toldSlack = time.Minute
)

// Describe reads a VM's configuration, state and tasks, those as text and for programs. Of a VM that is not ours it
// tells nothing but that.
func (f *Fleet) Describe(ctx context.Context, r *cluster.Record, node cluster.Node) []deploy.Diagnostic {
	at := placement.Of(node)
	told := []deploy.Diagnostic{{What: "config"}, {What: "status"}, {What: "tasks"}}
	if _, begun := r.Phases[cluster.PhaseUp]; !begun {
		return nil
	}
	err := f.mine(ctx, r, node)
	if err != nil && !errors.Is(err, api.ErrNotFound) {
		for i := range told {
			told[i].Err = err
		}
		return told
	}
	read := []func(context.Context, string, int) (string, error){f.Client.Config, f.Client.Status}
	for i, ask := range read {
		if told[i].Err = err; err == nil {
			told[i].Text, told[i].Err = ask(ctx, at.Hypervisor, at.VMID)
		}
	}
	// The tasks of a VM that is gone, or was never made, say why. Those of an earlier one with the same id are not
	// ours.
	since := r.Owner.Created.Add(-toldSlack)
	tasks, err := f.Client.TaskLogs(ctx, at.Hypervisor, at.VMID, since, toldTasks)
	told[2].Text, told[2].Err = api.TaskText(tasks), err
	if len(tasks) > 0 {
		raw, err := json.Marshal(tasks)
		told = append(told, deploy.Diagnostic{What: "tasks.json", Text: string(raw) + "\n", Err: err})
	} else if err == nil {
		told[2].Err = fmt.Errorf("%s has no tasks of VM %d that the token may see", at.Hypervisor, at.VMID)
	}
	return told
}

// Warnings asks each hypervisor of the record once. It is given up where that takes long: nothing depends on it.
func (f *Fleet) Warnings(ctx context.Context, r *cluster.Record, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	hypervisors, vmids := placesOf(r)
	_ = f.Client.ReportWarnings(ctx, hypervisors, vmids, since) // the requests are in debug.log
}

// Running asks each hypervisor of the record once, and the tasks found for their logs.
func (f *Fleet) Running(ctx context.Context, r *cluster.Record) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	hypervisors, vmids := placesOf(r)
	tasks := f.Client.Running(ctx, hypervisors, vmids)
	running := map[string]string{}
	for _, node := range r.Nodes {
		if words := tasks[placement.Of(node).VMID]; words != "" {
			running[node.Name] = words
		}
	}
	return running
}

// placesOf returns the hypervisors and the VM ids of a record's nodes.
func placesOf(r *cluster.Record) (hypervisors []string, vmids []int) {
	for _, node := range r.Nodes {
		at := placement.Of(node)
		vmids = append(vmids, at.VMID)
		if !slices.Contains(hypervisors, at.Hypervisor) {
			hypervisors = append(hypervisors, at.Hypervisor)
		}
	}
	return hypervisors, vmids
}

// mine is nil if the node's VM is ours.
func (f *Fleet) mine(ctx context.Context, r *cluster.Record, node cluster.Node) error {
	at := placement.Of(node)
	one := *r
	one.Nodes = cluster.Nodes{node}
	state := f.states(ctx, &one)[0]
	switch {
	case state.err != nil:
		return state.err
	case !state.ours:
		return fmt.Errorf("VM %d on %s is not ours: %s", at.VMID, at.Hypervisor, state.why)
	}
	return nil
}

// asked are the lines that a guest's agent is asked to run, each bounded within the guest.
var asked = []string{
	"cloud-init status --long", "ip address", "ip route", "ss -ltn", "ps -eo user,pid,etime,rss,args", "df -h",
	"free -m", "date",
	"journalctl --no-pager -b -n 300", "journalctl --no-pager -b -1 -n 300",
	"tail -c 65536 /var/log/cloud-init-output.log",
}

// DescribeGuest asks the guest's agent, by commands where the token may run them, else by files.
func (f *Fleet) DescribeGuest(ctx context.Context, r *cluster.Record, node cluster.Node) []deploy.Diagnostic {
	told := deploy.Diagnostic{What: "agent"}
	if told.Err = f.mine(ctx, r, node); told.Err == nil {
		told.Text, told.Err = f.run(ctx, node)
	}
	if errors.Is(told.Err, api.ErrForbidden) && told.Text == "" {
		text, err := f.readFiles(ctx, node)
		told.Text, told.Err = text, errors.Join(told.Err, err)
	}
	return []deploy.Diagnostic{told}
}

func (f *Fleet) run(ctx context.Context, node cluster.Node) (string, error) {
	at := placement.Of(node)
	var b strings.Builder
	for _, line := range asked {
		result, err := f.Client.Exec(ctx, at.Hypervisor, at.VMID, "timeout 8 "+line)
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "== %s: exit code %d\n%s%s\n", line, result.ExitCode, result.Stdout, result.Stderr)
	}
	return b.String(), nil
}

// readFiles is what file-read alone gives, which a token on Proxmox VE 9 has without being allowed to run commands.
func (f *Fleet) readFiles(ctx context.Context, node cluster.Node) (string, error) {
	at := placement.Of(node)
	var b strings.Builder
	var failure error
	for _, path := range []string{
		"/run/cloud-init/status.json", "/run/cloud-init/result.json", "/var/log/cloud-init-output.log", "/proc/meminfo",
		"/proc/net/tcp",
	} {
		raw, err := f.Client.ReadFile(ctx, at.Hypervisor, at.VMID, path)
		if err != nil {
			failure = errors.Join(failure, err)
			continue
		}
		fmt.Fprintf(&b, "== %s\n%s\n", path, raw)
	}
	return b.String(), failure
}
