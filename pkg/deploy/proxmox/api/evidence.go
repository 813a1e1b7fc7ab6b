package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Task is a task as the list of a hypervisor shows it.
type Task struct {
	UPID    string    `json:"upid"`
	Type    string    `json:"type"`
	User    string    `json:"user"`
	Started time.Time `json:"started"`
	Status  string    `json:"status"`        // OK, or why it failed; empty while it runs
	Log     []string  `json:"log,omitempty"` // as TaskLogs reads it
}

// Caller is who has started the task, such as root@pam or, by a token, root@pam!ci.
func (t Task) Caller() string {
	parts := strings.Split(t.UPID, ":")
	if len(parts) < 8 {
		return t.User
	}
	return parts[7]
}

// Tasks lists the tasks of one VM on a hypervisor that began since then, the newest first, at most limit. Others' tasks
// are left out without Sys.Audit.
func (c *Client) Tasks(ctx context.Context, hypervisor string, vmid int, since time.Time, limit int) ([]Task, error) {
	return c.listTasks(
		ctx, hypervisor, url.Values{"vmid": {strconv.Itoa(vmid)}, "limit": {strconv.Itoa(limit)}, "source": {"all"}},
		since,
	)
}

func (c *Client) listTasks(ctx context.Context, hypervisor string, query url.Values, since time.Time) ([]Task, error) {
	var rows []struct {
		UPID   string `json:"upid"`
		Type   string `json:"type"`
		User   string `json:"user"`
		Start  number `json:"starttime"`
		Status text   `json:"status"`
	}
	if !since.IsZero() {
		query.Set("since", strconv.FormatInt(since.Unix(), 10))
	}
	if err := c.get(ctx, "/nodes/"+url.PathEscape(hypervisor)+"/tasks", query, &rows); err != nil {
		return nil, err
	}
	tasks := make([]Task, len(rows))
	for i, r := range rows {
		tasks[i] = Task{
			UPID: r.UPID, Type: r.Type, User: r.User, Started: time.Unix(int64(r.Start.int()), 0).UTC(),
			Status: string(r.Status),
		}
	}
	slices.SortStableFunc(tasks, func(a, b Task) int { return b.Started.Compare(a.Started) })
	return tasks, nil
}

// Config returns what a VM is configured with, as lines "key: value" in order of the keys.
func (c *Client) Config(ctx context.Context, hypervisor string, vmid int) (string, error) {
	return c.lines(ctx, vmPath(hypervisor, vmid, "/config"))
}

// Status returns the live state of a VM, as lines "key: value" in order of the keys.
func (c *Client) Status(ctx context.Context, hypervisor string, vmid int) (string, error) {
	return c.lines(ctx, vmPath(hypervisor, vmid, "/status/current"))
}

func (c *Client) lines(ctx context.Context, path string) (string, error) {
	values := map[string]json.RawMessage{}
	if err := c.get(ctx, path, nil, &values); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var plain string
		if json.Unmarshal(values[key], &plain) != nil {
			plain = string(values[key])
		}
		fmt.Fprintf(&b, "%s: %s\n", key, plain)
	}
	return b.String(), nil
}

// ExecResult is how a command in a guest has ended.
type ExecResult struct {
	ExitCode int
	Signal   int // 0: none
	Stdout   []byte
	Stderr   []byte
}

// Exec runs a shell line in a guest through its agent, as root, and waits for its end. It needs VM.Monitor on PVE 8 and
// VM.GuestAgent.Unrestricted on PVE 9. A line, for PVE 8.4 answers 596 where a program does not exist (observed). When
// ctx ends, the command goes on in the guest: bound it there.
func (c *Client) Exec(ctx context.Context, hypervisor string, vmid int, line string) (ExecResult, error) {
	var begun struct {
		PID number `json:"pid"`
	}
	body := map[string]any{"command": []string{"/bin/sh", "-c", line}}
	if err := c.call(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/agent/exec"), nil, body, &begun); err != nil {
		return ExecResult{}, fmt.Errorf("running a command in VM %d: %w", vmid, err)
	}
	query := url.Values{"pid": {strconv.Itoa(begun.PID.int())}}
	for range taskPolls.Tries(ctx) {
		var status struct {
			Exited   number `json:"exited"`
			ExitCode number `json:"exitcode"`
			Signal   number `json:"signal"`
			Out      string `json:"out-data"`
			Err      string `json:"err-data"`
		}
		if err := c.get(ctx, vmPath(hypervisor, vmid, "/agent/exec-status"), query, &status); err != nil {
			return ExecResult{}, fmt.Errorf("reading a command's output in VM %d: %w", vmid, err)
		}
		if status.Exited.bool() {
			return ExecResult{
					status.ExitCode.int(), status.Signal.int(), fromLatin1(status.Out), fromLatin1(status.Err),
				},
				nil
		}
	}
	return ExecResult{}, fmt.Errorf("waiting for a command in VM %d: %w", vmid, context.Cause(ctx))
}

// fromLatin1 undoes that PVE passes each byte of a guest's as the code point of the same number (observed on PVE 8.4).
func fromLatin1(s string) []byte {
	data := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			data = append(data, string(r)...)
			continue
		}
		data = append(data, byte(r))
	}
	return data
}

// TaskLogs returns the last tasks of a VM that began since then, with their logs, the newest first.
func (c *Client) TaskLogs(
	ctx context.Context, hypervisor string, vmid int, since time.Time, limit int,
) ([]Task, error) {
	tasks, err := c.Tasks(ctx, hypervisor, vmid, since, limit)
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if tasks[i].Log, err = c.TaskLog(ctx, tasks[i].UPID); err != nil {
			tasks[i].Log = []string{fmt.Sprintf("its log cannot be read: %v", err)}
			if ctx.Err() != nil {
				return tasks[:i+1], errors.Join(err, context.Cause(ctx))
			}
		}
	}
	return tasks, nil
}

// TaskText returns tasks with their logs as text.
func TaskText(tasks []Task) string {
	var b strings.Builder
	for _, task := range tasks {
		status := cmp.Or(task.Status, "running")
		fmt.Fprintf(
			&b, "== %s %s by %s: %s\n%s\n", task.Started.Format(time.RFC3339), task.Type, task.User, status, task.UPID,
		)
		for _, line := range task.Log {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
