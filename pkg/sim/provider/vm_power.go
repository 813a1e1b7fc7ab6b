package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
)

// power starts and stops a VM and remembers whether it stopped it.
type power struct {
	vm
	d       data
	stopped bool // by this operation
	warned  bool
}

func (p *power) start(ctx context.Context) diag.Diagnostics {
	return p.change(ctx, "start", "running", p.boot)
}

// halt stops the VM without asking the guest.
func (p *power) halt(ctx context.Context) diag.Diagnostics {
	return p.change(ctx, "stop", "stopped", func(ctx context.Context, _ int) taskResult { return p.vm.stop(ctx) })
}

func (p *power) shutDown(ctx context.Context) diag.Diagnostics {
	return p.change(ctx, "shutdown", "stopped", p.shutdown)
}

// change does a task and waits for what it leads to, both within the time that the resource gives it.
func (p *power) change(
	ctx context.Context, task, status string, do func(ctx context.Context, seconds int) taskResult,
) diag.Diagnostics {
	seconds := p.d.num("timeout_" + task + "_vm")
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	ds := do(ctx, seconds).diags("VM " + task)
	if ds.HasError() {
		return ds
	}
	return append(ds, diag.FromErr(p.waitStatus(ctx, status))...)
}

// lives tells whether the VM is on, and if so whether it has an agent.
func (p *power) lives(ctx context.Context) (on, agent bool, err error) {
	s, err := p.status(ctx)
	if err != nil || s.Status == "stopped" {
		return false, false, err
	}
	g, err := p.config(ctx)
	if err != nil {
		return false, false, err
	}
	return true, g.agentEnabled(), nil
}

// ensureStopped shuts a VM with an agent down and stops any other.
func (p *power) ensureStopped(ctx context.Context) diag.Diagnostics {
	on, agent, err := p.lives(ctx)
	if err != nil || !on {
		return diag.FromErr(err)
	}
	var ds diag.Diagnostics
	if agent {
		ds = p.shutDown(ctx)
	} else {
		ds = p.halt(ctx)
	}
	p.stopped = p.stopped || !ds.HasError()
	return ds
}

func (p *power) ensureRunning(ctx context.Context) diag.Diagnostics {
	s, err := p.status(ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	if s.Status != "stopped" {
		return nil
	}
	return p.start(ctx)
}

// restart reboots a running VM through its agent, or stops and starts it.
func (p *power) restart(ctx context.Context) diag.Diagnostics {
	on, agent, err := p.lives(ctx)
	if err != nil || !on {
		return diag.FromErr(err)
	}
	if agent {
		return p.rebootByAgent(ctx)
	}
	ds := p.ensureStopped(ctx)
	if ds.HasError() {
		return ds
	}
	return append(ds, p.ensureRunning(ctx)...)
}

func (p *power) rebootByAgent(ctx context.Context) diag.Diagnostics {
	seconds := p.d.num("timeout_reboot")
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	if err := p.waitAgent(ctx); err != nil {
		return diag.FromErr(err)
	}
	return p.reboot(ctx, seconds).diags("VM reboot")
}

// errBlocked says that reboot_after_update = false forbids a power-off.
var errBlocked = errors.New("blocked by reboot_after_update")

// offline powers the VM off for changes that need it. It returns errBlocked,
// with a warning, where the resource forbids that.
func (p *power) offline(ctx context.Context, needed bool) (handled bool, ds diag.Diagnostics, err error) {
	if !needed {
		return false, nil, nil
	}
	s, err := p.status(ctx)
	if err != nil {
		return false, diag.FromErr(err), nil
	}
	if s.Status == "stopped" || p.stopped {
		return true, nil, nil
	}
	if !p.d.flag("reboot_after_update") {
		return false, p.rebootWarning(), errBlocked
	}
	ds = p.ensureStopped(ctx)
	return !ds.HasError(), ds, nil
}

func (p *power) rebootWarning() diag.Diagnostics {
	if p.warned {
		return nil
	}
	p.warned = true
	return diag.Diagnostics{{Severity: diag.Warning, Summary: "a reboot is required to apply configuration changes, but automatic " +
		"reboots are disabled by 'reboot_after_update = false'. Please reboot the VM manually."}}
}

func rebootForbidden(operation string) diag.Diagnostics {
	return diag.Errorf("cannot %s while the VM is running because this change requires the VM to be powered off, "+
		"but automatic power-offs/reboots are disabled by 'reboot_after_update = false'", operation)
}

// finish brings the VM to the state that the resource asks for.
func (p *power) finish(ctx context.Context, reboot bool) diag.Diagnostics {
	if p.d.flag("template") {
		return p.ensureStopped(ctx)
	}
	s, err := p.status(ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	off := s.Status == "stopped"
	switch {
	case p.d.flag("started") && off:
		return p.ensureRunning(ctx)
	case !p.d.flag("started"):
		if p.d.HasChange("started") && !off {
			return p.ensureStopped(ctx)
		}
		return nil
	case !reboot || p.stopped:
		return nil
	case !p.d.flag("reboot_after_update"):
		return p.rebootWarning()
	}
	return p.restart(ctx)
}
