package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// vm is one VM on one hypervisor.
type vm struct {
	*api
	node string
	id   int
}

func (v vm) path(leaf string) string {
	p := fmt.Sprintf("nodes/%s/qemu/%d", url.PathEscape(v.node), v.id)
	if leaf != "" {
		p += "/" + leaf
	}
	return p
}

// create sends the call that makes a VM. After a 5xx it is sent again, up to
// three times in all, and "already exists" is then taken for success: the call
// may have worked the first time. So an id that was taken before is adopted.
func (a *api) create(ctx context.Context, node string, f form) taskResult {
	path := fmt.Sprintf("nodes/%s/qemu", url.PathEscape(node))
	return a.run(ctx, taskPolicy(transient), contains("already exists"), func() (string, error) {
		upid, err := a.start(ctx, http.MethodPost, path, f.Values)
		return upid, prefixError("error creating VM", err)
	})
}

// clone copies v. attempts is the resource's clone.retries.
func (v vm) clone(ctx context.Context, attempts int, f form) taskResult {
	policy := retryPolicy{attempts: max(attempts, 1), delay: backoff(10 * time.Second), retryIf: transient}
	return v.run(ctx, policy, contains("already exists"), func() (string, error) {
		upid, err := v.start(ctx, http.MethodPost, v.path("clone"), f.Values)
		return upid, prefixError("error cloning VM", err)
	})
}

// prefixError adds what was done to an error of the API, but not to the one
// that tells of an answer without data.
func prefixError(what string, err error) error {
	if err == nil || errors.Is(err, errNoData) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (v vm) destroy(ctx context.Context, purge, unreferenced bool) taskResult {
	params := url.Values{"destroy-unreferenced-disks": {bit(unreferenced)}, "purge": {bit(purge)}}
	policy := taskPolicy(func(err error) bool { return transient(err) && !errors.Is(err, errMissing) })
	return v.run(ctx, policy, nil, func() (string, error) {
		// The slash at the end is the real provider's.
		upid, err := v.start(ctx, http.MethodDelete, v.path("")+"/", params)
		return upid, prefixError("error deleting VM", err)
	})
}

// config is GET config.
func (v vm) config(ctx context.Context) (guest, error) {
	var answer struct{ Data guest }
	if err := v.do(ctx, http.MethodGet, v.path("config"), nil, &answer); err != nil {
		return nil, fmt.Errorf("error retrieving VM %d: %w", v.id, err)
	}
	if answer.Data == nil {
		return nil, errNoData
	}
	return answer.Data, nil
}

type vmStatus struct {
	Status string `json:"status"`
	Lock   string `json:"lock"`
}

func (v vm) status(ctx context.Context) (vmStatus, error) {
	var answer struct{ Data *vmStatus }
	if err := v.do(ctx, http.MethodGet, v.path("status/current"), nil, &answer); err != nil {
		return vmStatus{}, fmt.Errorf("error retrieving VM status: %w", err)
	}
	if answer.Data == nil {
		return vmStatus{}, errNoData
	}
	return *answer.Data, nil
}

// update is PUT config, repeated where PVE could not get its lock in time.
func (v vm) update(ctx context.Context, f form) error {
	return taskPolicy(contains("got timeout")).do(ctx, func() error {
		return v.do(ctx, http.MethodPut, v.path("config"), f.Values, nil)
	})
}

// resize sets a disk's size in bytes.
func (v vm) resize(ctx context.Context, disk string, size int64) taskResult {
	params := url.Values{"disk": {disk}, "size": {strconv.FormatInt(size, 10)}}
	policy := taskPolicy(func(err error) bool { return contains("got timeout")(err) || contains("does not exist")(err) })
	policy.attempts = 5
	var result taskResult
	err := policy.do(ctx, func() error {
		upid, err := v.start(ctx, http.MethodPut, v.path("resize"), params)
		if err != nil {
			return prefixError("error moving VM disk", err) // sic: the real provider's text
		}
		result = v.wait(ctx, upid, 0)
		return result.err
	})
	if err != nil && result.err == nil {
		return taskResult{err: err}
	}
	return result
}

func (v vm) moveDisk(ctx context.Context, disk, store string) taskResult {
	upid, err := v.start(ctx, http.MethodPost, v.path("move_disk"), url.Values{
		"disk": {disk}, "storage": {store}, "delete": {"1"},
	})
	switch {
	case contains("you can't move to the same storage with same format")(err):
		return taskResult{}
	case err != nil:
		return taskResult{err: prefixError("error moving VM disk", err)}
	}
	return v.wait(ctx, upid, 0)
}

func (v vm) migrate(ctx context.Context, f form) taskResult {
	upid, err := v.start(ctx, http.MethodPost, v.path("migrate"), f.Values)
	if err != nil {
		return taskResult{err: prefixError("error migrating VM", err)}
	}
	return v.wait(ctx, upid, 0)
}

// toTemplate converts the VM; older PVE answers without a task.
func (v vm) toTemplate(ctx context.Context) taskResult {
	upid, err := v.start(ctx, http.MethodPost, v.path("template"), nil)
	switch {
	case errors.Is(err, errNoData):
		return taskResult{}
	case err != nil:
		return taskResult{err: fmt.Errorf("error converting VM %d to template: %w", v.id, err)}
	}
	return v.wait(ctx, upid, 0)
}

// boot starts the VM. Running already is success.
func (v vm) boot(ctx context.Context, seconds int) taskResult {
	var upid string
	err := taskPolicy(contains("got no worker upid")).do(ctx, func() (err error) {
		var answer struct{ Data *string }
		err = v.do(
			ctx, http.MethodPost, v.path("status/start"), url.Values{"timeout": {strconv.Itoa(seconds)}}, &answer,
		)
		switch {
		case contains("already running")(err):
			upid, err = "-", nil
		case err == nil && answer.Data != nil:
			upid = *answer.Data
		}
		return err
	})
	switch {
	case err != nil:
		return taskResult{err: fmt.Errorf("error starting VM: %w", err)}
	case upid == "":
		return taskResult{err: errNoData}
	case upid == "-":
		return taskResult{}
	}
	return v.wait(ctx, upid, 599)
}

func (v vm) shutdown(ctx context.Context, seconds int) taskResult {
	upid, err := v.start(ctx, http.MethodPost, v.path("status/shutdown"),
		url.Values{"forceStop": {"1"}, "timeout": {strconv.Itoa(seconds)}})
	if err != nil {
		return taskResult{err: prefixError("error shutting down VM", err)}
	}
	return v.wait(ctx, upid, 0)
}

func (v vm) stop(ctx context.Context) taskResult {
	upid, err := v.start(ctx, http.MethodPost, v.path("status/stop"), nil)
	if err != nil {
		return taskResult{err: prefixError("error stopping VM", err)}
	}
	return v.wait(ctx, upid, 0)
}

func (v vm) reboot(ctx context.Context, seconds int) taskResult {
	// Three seconds more than PVE's own limit, for what happens around the task.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+3)*time.Second)
	defer cancel()
	upid, err := v.start(ctx, http.MethodPost, v.path("status/reboot"), url.Values{"timeout": {strconv.Itoa(seconds)}})
	if err != nil {
		return taskResult{err: prefixError("error rebooting VM", err)}
	}
	result := v.wait(ctx, upid, 0)
	if result.err == nil {
		result.err = v.waitStatus(ctx, "running")
	}
	return result
}

// waitStatus asks at once and then every second.
func (v vm) waitStatus(ctx context.Context, want string) error {
	other := fmt.Errorf("unexpected status %q", want)
	err := pollPolicy(func(err error) bool { return errors.Is(err, other) }).do(ctx, func() error {
		s, err := v.status(ctx)
		if err == nil && s.Status != want {
			return other
		}
		return err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("timeout while waiting for VM %d to enter the status %q", v.id, want)
	case err != nil:
		return fmt.Errorf("error waiting for VM %d to enter the status %q: %w", v.id, want, err)
	}
	return nil
}

// waitUnlocked waits until no lock is held; a VM that is not there yet is
// waited for as well.
func (v vm) waitUnlocked(ctx context.Context) error {
	err := pollPolicy(nil).do(ctx, func() error {
		s, err := v.status(ctx)
		if err == nil && s.Lock != "" {
			return errors.New("still locked")
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("timeout while waiting for VM %d configuration to become unlocked", v.id)
	}
	return nil
}

// agentNIC is an interface as the guest agent reports it.
type agentNIC struct {
	Name string `json:"name"`
	MAC  string `json:"hardware-address"`
	IPs  []struct {
		Address string `json:"ip-address"`
		Type    string `json:"ip-address-type"`
	} `json:"ip-addresses"`
}

// ipWait says which addresses to wait for; skip asks the agent nothing.
type ipWait struct{ skip, v4, v6 bool }

// agentNICs asks the guest agent every second until one interface other than
// lo has a global address (of the kinds wanted). Only a 403 ends it early.
func (v vm) agentNICs(ctx context.Context, timeout time.Duration, want ipWait) ([]agentNIC, error) {
	if want.skip {
		return []agentNIC{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	notYet := errors.New("no ips yet")
	var answer struct {
		Data *struct {
			Result []agentNIC `json:"result"`
		}
	}
	err := pollPolicy(func(err error) bool { return errors.Is(err, notYet) }).do(ctx, func() error {
		answer.Data = nil
		err := v.do(ctx, http.MethodGet, v.path("agent/network-get-interfaces"), nil, &answer)
		if he, ok := errors.AsType[*httpError](err); ok && he.code == http.StatusForbidden {
			return fmt.Errorf("error retrieving VM network interfaces from agent: %w", err)
		}
		if err != nil || answer.Data == nil || !want.satisfied(answer.Data.Result) {
			return notYet
		}
		return nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil,
			fmt.Errorf("timeout while waiting for the QEMU agent on VM \"%d\" to publish the network interfaces", v.id)
	case err != nil:
		return nil, fmt.Errorf("error waiting for VM network interfaces: %w", err)
	}
	return answer.Data.Result, nil
}

func (w ipWait) satisfied(nics []agentNIC) bool {
	var v4, v6 bool
	for _, n := range nics {
		if n.Name == "lo" {
			continue
		}
		for _, a := range n.IPs {
			if ip := net.ParseIP(a.Address); ip.IsGlobalUnicast() {
				v4, v6 = v4 || ip.To4() != nil, v6 || ip.To4() == nil
			}
		}
	}
	if !w.v4 && !w.v6 {
		return v4 || v6
	}
	return (!w.v4 || v4) && (!w.v6 || v6)
}

// waitAgent waits for the guest agent to answer a ping.
func (v vm) waitAgent(ctx context.Context) error {
	err := pollPolicy(agentNotReady).do(ctx, func() error {
		return v.do(ctx, http.MethodPost, v.path("agent/ping"), nil, nil)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("timeout while waiting for the QEMU agent on VM %d to become ready", v.id)
	case err != nil:
		return fmt.Errorf("error waiting for QEMU agent on VM %d: %w", v.id, err)
	}
	return nil
}

func agentNotReady(err error) bool {
	he, ok := errors.AsType[*httpError](err)
	if !ok || he.code != http.StatusBadRequest && he.code != http.StatusInternalServerError {
		return false
	}
	msg := strings.ToLower(he.message)
	named := strings.Contains(msg, "qemu guest agent") && (strings.Contains(msg, "not running") ||
		strings.Contains(msg, "not available") || strings.Contains(msg, "not ready"))
	return he.code == http.StatusBadRequest || named || strings.Contains(msg, "got timeout")
}

// nodeOf finds the VM's hypervisor among the cluster's resources; errMissing
// if it is not listed, which is how a VM is taken to be gone.
func (a *api) nodeOf(ctx context.Context, id int) (string, error) {
	var answer struct {
		Data []struct {
			VMID int    `json:"vmid"`
			Node string `json:"node"`
		}
	}
	err := a.do(ctx, http.MethodGet, "cluster/resources", url.Values{"type": {"vm"}}, &answer)
	if err != nil {
		return "", fmt.Errorf("failed to get resources list of type (\"vm\") for cluster: %w", err)
	}
	if answer.Data == nil {
		return "", errNoData
	}
	for _, r := range answer.Data {
		if r.VMID == id {
			return r.Node, nil
		}
	}
	return "", errNotListed
}

var errNotListed = errors.New("unable to find VM identifier")

// poolOf looks through all pools for the VM.
func (a *api) poolOf(ctx context.Context, id int) (string, error) {
	var list struct {
		Data []struct {
			ID string `json:"poolid"`
		}
	}
	if err := a.do(ctx, http.MethodGet, "pools", nil, &list); err != nil {
		return "", fmt.Errorf("error listing pools: %w", err)
	}
	if list.Data == nil {
		return "", errNoData
	}
	names := make(map[string]bool, len(list.Data))
	for _, p := range list.Data {
		names[p.ID] = true
	}
	for _, name := range sortedKeys(names) {
		p, err := a.pool(ctx, name)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("failed to get details for pool %q: %w", name, err)
		}
		for _, m := range p.Members {
			if m.ID == fmt.Sprintf("qemu/%d", id) {
				return name, nil
			}
		}
	}
	return "", nil
}
