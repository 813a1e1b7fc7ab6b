package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
)

// taskResult is the outcome of a task: an error, or success with warnings.
type taskResult struct {
	warnings []string
	err      error
}

// diags reports the result under a summary such as "VM create".
func (r taskResult) diags(summary string) (ds diag.Diagnostics) {
	if r.err != nil {
		ds = append(ds, diag.Diagnostic{Severity: diag.Error, Summary: summary, Detail: r.err.Error()})
	}
	for _, w := range r.warnings {
		ds = append(ds, diag.Diagnostic{Severity: diag.Warning, Summary: summary, Detail: w})
	}
	return ds
}

// start sends a call that answers with a task id.
func (a *api) start(ctx context.Context, method, path string, params url.Values) (string, error) {
	var answer struct{ Data *string }
	if err := a.do(ctx, method, path, params, &answer); err != nil {
		return "", err
	}
	if answer.Data == nil {
		return "", errNoData
	}
	return *answer.Data, nil
}

// run starts a task by dispatch, waits for it, and repeats both as policy says:
// a task that failed is started again where its text looks like a passing
// trouble ("got timeout"). Where done is true for the error of a repeated
// dispatch, an earlier one is taken to have made the thing; the result is then
// that of the last task that was waited for. Observed on bpg/proxmox 0.111.1.
func (a *api) run(
	ctx context.Context, policy retryPolicy, done func(error) bool, dispatch func() (string, error),
) taskResult {
	var result taskResult
	again := false
	policy.onRetry = func(error) { again = true }
	err := policy.do(ctx, func() error {
		upid, err := dispatch()
		if err == nil {
			result = a.wait(ctx, upid, 0)
			return result.err
		}
		if again && done != nil && done(err) {
			return nil
		}
		return err
	})
	if err != nil && result.err == nil {
		return taskResult{err: err}
	}
	return result
}

var errRunning = errors.New("still running")

// wait asks for the task's status at once and then every second. A 400 is
// repeated without end: a new task may not be known yet. ignoreCode is a
// further status code that is repeated.
func (a *api) wait(ctx context.Context, upid string, ignoreCode int) taskResult {
	var status struct {
		Data *struct{ Status, ExitStatus string }
	}
	policy := pollPolicy(func(err error) bool {
		if he, ok := errors.AsType[*httpError](err); ok {
			return he.code == http.StatusBadRequest || ignoreCode != 0 && he.code == ignoreCode
		}
		return errors.Is(err, errRunning)
	})
	err := policy.do(ctx, func() error {
		status.Data = nil
		if err := a.do(ctx, http.MethodGet, taskPath(upid, "status"), nil, &status); err != nil {
			return fmt.Errorf("error retrieving task status: %w", err)
		}
		if status.Data == nil {
			return errNoData
		}
		if status.Data.Status == "running" {
			return errRunning
		}
		return nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return taskResult{err: fmt.Errorf("timeout while waiting for task %q to complete", upid)}
	case err != nil:
		return taskResult{err: fmt.Errorf("error while waiting for task %q to complete: %w", upid, err)}
	case status.Data.ExitStatus == "OK":
		return taskResult{}
	case strings.HasPrefix(status.Data.ExitStatus, "WARNINGS: ") && !strings.Contains(status.Data.ExitStatus, "ERROR"):
		return a.warned(ctx, upid, status.Data.ExitStatus)
	}
	return a.failed(ctx, upid, status.Data.ExitStatus)
}

func (a *api) warned(ctx context.Context, upid, exit string) taskResult {
	lines, err := a.taskLog(ctx, upid)
	if err != nil {
		return taskResult{warnings: []string{"task completed with warnings but the task log could not be retrieved"}}
	}
	if w := slices.Collect(filter(lines, isWarning)); len(w) > 0 {
		return taskResult{warnings: w}
	}
	return taskResult{warnings: []string{fmt.Sprintf("task %q completed with warnings (exit code: %s)", upid, exit)}}
}

func (a *api) failed(ctx context.Context, upid, exit string) taskResult {
	text := fmt.Sprintf("task %q failed to complete with exit code: %s", upid, exit)
	lines, err := a.taskLog(ctx, upid)
	if err != nil {
		return taskResult{err: errors.New(text)}
	}
	rest := slices.Collect(filter(lines, func(l string) bool { return !isWarning(l) }))
	if len(rest) > 0 {
		text += "\ntask log:\n  " + strings.Join(rest, "\n  ")
	}
	return taskResult{err: errors.New(text), warnings: slices.Collect(filter(lines, isWarning))}
}

func isWarning(line string) bool { return strings.Contains(line, "WARN:") }

func (a *api) taskLog(ctx context.Context, upid string) ([]string, error) {
	var answer struct {
		Data []struct {
			T string `json:"t"`
		}
	}
	if err := a.do(ctx, http.MethodGet, taskPath(upid, "log"), nil, &answer); err != nil {
		return nil, fmt.Errorf("error retrieving task log: %w", err)
	}
	if answer.Data == nil {
		return nil, errNoData
	}
	lines := make([]string, len(answer.Data))
	for i, l := range answer.Data {
		lines[i] = l.T
	}
	return lines, nil
}

// taskPath takes the node from the task id, its second part.
func taskPath(upid, leaf string) string {
	node := ""
	if parts := strings.Split(upid, ":"); len(parts) > 1 {
		node = parts[1]
	}
	return fmt.Sprintf("nodes/%s/tasks/%s/%s", url.PathEscape(node), url.PathEscape(upid), leaf)
}
