package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// taskPolls are the pauses of a wait for one task: the poll starts fast and slows down.
var taskPolls = wait.Backoff{First: 40 * time.Millisecond, Max: time.Second, Factor: 1.5}

const (
	// maxTaskWait bounds the wait for one task.
	maxTaskWait = 30 * time.Minute
	// maxManagerWait bounds the wait for what was asked of the HA manager, which looks at its requests every ten
	// seconds.
	maxManagerWait = 5 * time.Minute
)

// TaskError is a task that ended with anything but OK or warnings.
type TaskError struct {
	UPID, Type, ID, Hypervisor string
	ExitStatus                 string
	Log                        []string // all lines
}

// Error names the task, its exit status and, where they say more than that, its last log lines.
func (e *TaskError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s of VM %s on %s failed: %s", e.Type, e.ID, e.Hypervisor, e.ExitStatus)
	for _, line := range e.tail(3) {
		b.WriteString("\n  " + line)
	}
	return b.String()
}

// Is matches the sentinels that the exit status stands for: a deletion of what is gone is ErrNotFound.
func (e *TaskError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return absent(e.ExitStatus)
	case ErrForbidden:
		return strings.Contains(e.ExitStatus, "Permission check failed")
	}
	return matchText(e.ExitStatus, target)
}

// Hint says how to mend what a user can mend.
func (e *TaskError) Hint() string {
	switch {
	case errors.Is(e, ErrLocked):
		return fmt.Sprintf(
			"wait for what holds the lock; if nothing does any more, on %s: qm unlock %s", e.Hypervisor, e.ID,
		)
	case strings.Contains(e.ExitStatus, "/etc/pve/") && strings.Contains(e.ExitStatus, "Permission denied"):
		return "the hypervisors have no quorum: bring the others back, then repeat it (pvecm status)"
	}
	return ""
}

func (e *TaskError) tail(n int) []string {
	var lines []string
	for _, line := range e.Log {
		if line != "" && !strings.HasPrefix(line, "TASK ERROR") {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}

// taskPath is a path below a task. The '!' of a token's UPID may stay as it is (observed on PVE 8.4).
func taskPath(upid, leaf string) (string, error) {
	parts := strings.Split(upid, ":")
	if len(parts) < 8 || parts[0] != "UPID" {
		return "", fmt.Errorf("proxmox answered with %q where a task id was expected", upid)
	}
	return "/nodes/" + url.PathEscape(parts[1]) + "/tasks/" + url.PathEscape(upid) + "/" + leaf, nil
}

// run sends a request that starts a task and waits for the task to end well. Where the task has only asked the HA
// manager to start or stop a VM, it waits until that was done.
func (c *Client) run(ctx context.Context, method, path string, query url.Values, body any) error {
	var upid string
	if err := c.call(ctx, method, path, query, body, &upid); err != nil {
		return err
	}
	if err := c.WaitTask(ctx, upid); err != nil {
		return err
	}
	parts := strings.Split(upid, ":")
	switch parts[5] { // PVE::API2::Qemu: the tasks of a VM that the HA manager has
	case "hastop":
		return c.awaitManager(ctx, parts[1], parts[6], "stopped")
	case "hastart":
		return c.awaitManager(ctx, parts[1], parts[6], "running")
	}
	return nil
}

// awaitManager waits until a VM has a status that the HA manager may have been asked for.
func (c *Client) awaitManager(ctx context.Context, hypervisor, vmid, want string) error {
	path := "/nodes/" + url.PathEscape(hypervisor) + "/qemu/" + url.PathEscape(vmid) + "/status/current"
	ctx, cancel := context.WithTimeoutCause(
		ctx, maxManagerWait, fmt.Errorf("it is not %s after %s", want, maxManagerWait),
	)
	defer cancel()
	if _, err := c.awaitStatus(ctx, path, want); err != nil {
		return progress.WithHint(fmt.Errorf(
			"waiting for the HA manager to have VM %s on %s %s: %w", vmid, hypervisor, want, err,
		),
			"look at what it does on any hypervisor: ha-manager status")
	}
	return nil
}

// runAgain is run for what may be done twice: it tries again what fails for a passing reason.
func (c *Client) runAgain(ctx context.Context, method, path string, query url.Values) error {
	return retry(ctx, func() error { return c.run(ctx, method, path, query, nil) })
}

// WaitTask waits until the task has ended. One that ended with warnings ended well: they are told to Options.Warn. Any
// other exit status than OK is a *TaskError with the task's log; the end of ctx, or half an hour, ends the wait with an
// error that names the task. A node that cannot be reached for a while is asked again.
func (c *Client) WaitTask(ctx context.Context, upid string) error {
	path, err := taskPath(upid, "status")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTaskWait, fmt.Errorf("the task still runs after %s", maxTaskWait))
	defer cancel()
	end, err := c.awaitStatus(ctx, path, "stopped")
	if err != nil {
		return fmt.Errorf("waiting for task %s: %w", upid, err)
	}
	if end.ExitStatus == "OK" {
		return nil
	}
	log := c.logOrReason(ctx, upid)
	parts := strings.Split(upid, ":")
	if warned(end.ExitStatus) {
		c.report(warning{upid, strings.Join(warningsIn(log), "; ")})
		return nil
	}
	return &TaskError{
		UPID: upid, Hypervisor: parts[1], Type: parts[5], ID: parts[6], ExitStatus: end.ExitStatus, Log: log,
	}
}

// warningsIn are the warnings of a task's log, each once, or all of it where none is marked as one.
func warningsIn(log []string) []string {
	var found []string
	for _, line := range log {
		if text, ok := strings.CutPrefix(line, "WARN: "); ok && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	if len(found) == 0 {
		return log
	}
	return found
}

// logOrReason is a task's log, or why it cannot be read.
func (c *Client) logOrReason(ctx context.Context, upid string) []string {
	log, err := c.TaskLog(ctx, upid)
	if err != nil {
		return []string{"the task's log cannot be read: " + err.Error()}
	}
	return log
}

// warned reports whether a task went well with warnings, which PVE::RESTEnvironment counts.
func warned(exitStatus string) bool { return strings.HasPrefix(exitStatus, "WARNINGS: ") }

// warning is what a task that went well has warned of.
type warning struct{ upid, text string }

// report tells Options.Warn of warnings, of those of one kind of task with the same text at once.
func (c *Client) report(warnings ...warning) {
	var order []string
	which := map[string][]string{}
	for _, w := range warnings {
		c.mu.Lock()
		known := c.reported[w.upid]
		c.reported[w.upid] = true
		c.mu.Unlock()
		if known {
			continue
		}
		parts := strings.Split(w.upid, ":")
		kind := parts[5] + "\n" + w.text
		if which[kind] == nil {
			order = append(order, kind)
		}
		which[kind] = append(which[kind], "VM "+parts[6]+" on "+parts[1])
	}
	for _, kind := range order {
		task, text, _ := strings.Cut(kind, "\n")
		c.warn(fmt.Sprintf("task %s of %s went well, with warnings: %s", task, strings.Join(which[kind], ", "), text))
	}
}

// ReportWarnings tells Options.Warn of the tasks of these VMs that have ended well with warnings, began since then by
// this machine's clock, and were not told of before: those that another program has started. Each hypervisor is asked
// once, and the tasks found for their logs.
func (c *Client) ReportWarnings(ctx context.Context, hypervisors []string, vmids []int, since time.Time) error {
	skew, _ := c.Skew()
	found := make([][]warning, len(hypervisors))
	err := each(len(hypervisors), func(i int) error {
		tasks, err := c.listTasks(ctx, hypervisors[i], url.Values{"errors": {"1"}, "limit": {"500"}}, since.Add(skew))
		for _, t := range slices.Backward(tasks) { // the oldest first
			parts := strings.Split(t.UPID, ":")
			if vmid, convErr := strconv.Atoi(parts[min(6, len(parts)-1)]); convErr != nil ||
				!slices.Contains(vmids, vmid) || !warned(t.Status) {
				continue
			}
			found[i] = append(found[i], warning{t.UPID, strings.Join(warningsIn(c.logOrReason(ctx, t.UPID)), "; ")})
		}
		return err
	})
	c.report(slices.Concat(found...)...)
	return err
}

// status is what a task and a VM tell of themselves alike. A task that has ended is stopped.
type status struct {
	Status     string `json:"status"`
	ExitStatus string `json:"exitstatus"`
}

// awaitStatus asks at a path until the status there is the one that is wanted.
func (c *Client) awaitStatus(ctx context.Context, path, want string) (status, error) {
	var got status
	var last error
	for range taskPolls.Tries(ctx) {
		got = status{}
		err := c.get(ctx, path, nil, &got)
		switch {
		case err == nil && got.Status == want:
			return got, nil
		case err != nil && (ctx.Err() != nil || !errors.Is(err, ErrUnreachable)):
			return got, errors.Join(err, last)
		}
		last = err
	}
	return got, errors.Join(context.Cause(ctx), last)
}

// TaskLog returns the lines of a task's log.
func (c *Client) TaskLog(ctx context.Context, upid string) ([]string, error) {
	path, err := taskPath(upid, "log")
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if err := c.get(ctx, path, url.Values{"limit": {"5000"}}, &raw); err != nil {
		return nil, err
	}
	type line struct {
		Text string `json:"t"`
	}
	var lines []line
	if err := json.Unmarshal(raw, &lines); err != nil {
		// An unknown task's log is an object with the reason as its text (observed on PVE 8.4).
		var one line
		if json.Unmarshal(raw, &one) == nil && one.Text != "" {
			return nil, fmt.Errorf("log of task %s: %s", upid, one.Text)
		}
		return nil, fmt.Errorf("log of task %s: %w", upid, err)
	}
	log := make([]string, len(lines))
	for i, l := range lines {
		log[i] = l.Text
	}
	return log, nil
}

// Stop switches the VM off at once and waits for that, be it that the HA manager does it. A VM that is off already is
// no error. Refusals, such as a config lock, come as *TaskError.
func (c *Client) Stop(ctx context.Context, hypervisor string, vmid int) error {
	return c.runAgain(ctx, http.MethodPost, vmPath(hypervisor, vmid, "/status/stop"), nil)
}

// Delete destroys the VM with its disks, jobs and backups' references, and waits for that. A running or protected VM
// is refused with an *APIError, a locked one or a template in use with a *TaskError; a VM that is not there matches
// ErrNotFound. That it went well does not prove that its disks are gone: Leftovers finds those that stayed.
func (c *Client) Delete(ctx context.Context, hypervisor string, vmid int) error {
	query := url.Values{"purge": {"1"}, "destroy-unreferenced-disks": {"1"}}
	return c.runAgain(ctx, http.MethodDelete, vmPath(hypervisor, vmid, ""), query)
}
