package hive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/cloudinit"
	"hive-test/pkg/remote"
)

const (
	shortTimeout = 30 * time.Second // of a script that only looks
	maxSkew      = time.Minute      // of a node's clock: the gateway refuses calls that are 5 minutes off
)

// remoteBinary is where hive's program is on a node.
const remoteBinary = "~/hive/bin/hive"

// WaitCloudInit waits until all nodes can be reached over SSH and cloud-init has finished on all nodes. Where it has complained the node is used, and a warning
// says what the complaint was.
func (c *Cluster) WaitCloudInit(ctx context.Context) error {
	return c.step(ctx, StepCloudInit, func(ctx context.Context) error {
		if c.options.SkipCloudInit {
			return skip("the nodes were not made by hive-test")
		}
		return each(ctx, c.hosts, c.waitCloudInit)
	})
}

func (c *Cluster) waitCloudInit(ctx context.Context, host Host) error {
	limited, cancel := context.WithTimeoutCause(ctx, c.options.CloudInitTimeout,
		fmt.Errorf("the node was not reached over SSH within %s", c.options.CloudInitTimeout))
	defer cancel()
	shown := waiting{c: c, step: StepCloudInit}
	if err := host.WaitReady(limited, func(err error) { shown.report("SSH on "+host.Name(), err.Error()) }); err != nil {
		return err
	}
	marker := cloudInitMarker
	if c.options.OSEssentials {
		marker = "" // nothing makes one
	}
	result, err := c.script(ctx, host, "wait-cloud-init.sh", c.options.CloudInitTimeout+shortTimeout, map[string]string{
		"HIVE_CLOUD_INIT_TIMEOUT": seconds(c.options.CloudInitTimeout),
		"HIVE_CLOUD_INIT_MARKER":  marker,
	}, nil)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok && exit.Result.ExitCode == 2 {
		details := strings.Join(tail(newRedactor().text(string(result.Stderr)), 20), "; ")
		c.warn(StepCloudInit, host.Name(), "cloud-init has finished with complaints: "+details)
		return nil
	}
	return err
}

// InstallOS does on all nodes at once what cloud-init's vendor data does elsewhere: packages, time zone, kernel settings. On
// a node that has it all, it changes nothing.
func (c *Cluster) InstallOS(ctx context.Context) error {
	return c.step(ctx, StepOS, func(ctx context.Context) error {
		return each(ctx, c.hosts, func(ctx context.Context, host Host) error {
			result, err := c.script(ctx, host, "os-essentials.sh", c.options.InstallTimeout, map[string]string{
				"HIVE_OS_PACKAGES": strings.Join(cloudinit.DefaultPackages(), " "), "HIVE_OS_TIMEZONE": cloudinit.DefaultTimezone,
				"HIVE_OS_SOCKET_BUFFER": strconv.Itoa(cloudinit.DefaultSocketBufferBytes),
			}, c.output(StepOS, host))
			if err != nil {
				return nodeLog{err, newRedactor().text(string(result.Stdout) + string(result.Stderr))}
			}
			for line := range strings.Lines(string(result.Stderr)) {
				if warning, ok := strings.CutPrefix(strings.TrimSpace(line), "warning: "); ok {
					c.warn(StepOS, host.Name(), warning)
				}
			}
			return nil
		})
	})
}

// Install puts hive on all nodes at once and checks that they then have the same version.
func (c *Cluster) Install(ctx context.Context) error {
	return c.step(ctx, StepInstall, func(ctx context.Context) error {
		install := c.installed
		switch {
		case c.options.Binary != "":
			install = c.upload
		case c.options.Repo != "":
			install = c.build
		}
		if err := each(ctx, c.hosts, install); err != nil {
			return err
		}
		states, err := c.states(ctx)
		if err != nil {
			return err
		}
		c.warnOfClocks(states)
		return sameVersion(states)
	})
}

func (c *Cluster) upload(ctx context.Context, host Host) error {
	changed, err := host.Upload(ctx, c.options.Binary, remoteBinary, 0o755)
	if err != nil {
		return err
	}
	if !changed {
		c.info(StepInstall, host.Name(), "the same program is there already")
	}
	return c.installed(ctx, host)
}

func (c *Cluster) installed(ctx context.Context, host Host) error {
	_, err := c.script(ctx, host, "install-binary.sh", shortTimeout, nil, c.output(StepInstall, host))
	return err
}

func (c *Cluster) build(ctx context.Context, host Host) error {
	result, err := c.script(ctx, host, "install-git.sh", c.options.InstallTimeout, map[string]string{
		"HIVE_REPO": c.options.Repo, "HIVE_REF": c.options.Ref,
	}, c.output(StepInstall, host))
	if err == nil {
		return nil
	}
	redactor := newRedactor()
	if repo, parseErr := url.Parse(c.options.Repo); parseErr == nil && repo.User != nil {
		redactor = newRedactor(repo.User.String())
	}
	return nodeLog{err, redactor.text(string(result.Stdout) + string(result.Stderr))}
}

// nodeLog is an error with the log that belongs to it.
type nodeLog struct {
	error
	log string
}

func (e nodeLog) Unwrap() error { return e.error }

// nodeState is what state.sh tells of a node.
type nodeState struct {
	host        Host
	version     string
	initialized bool
	used        bool
	ca          string
	node        string
	nodes       int
	skew        time.Duration // of the node's clock against this machine's
}

// states asks all nodes what is on them, in node order.
func (c *Cluster) states(ctx context.Context) ([]nodeState, error) {
	states := make([]nodeState, len(c.hosts))
	err := each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		result, err := c.script(ctx, host, "state.sh", shortTimeout, nil, nil)
		if err == nil {
			states[slices.Index(c.hosts, host)] = parseState(host, string(result.Stdout), time.Now())
		}
		return err
	})
	return states, err
}

func parseState(host Host, text string, now time.Time) nodeState {
	state := nodeState{host: host}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "version":
			state.version = value
		case "initialized":
			state.initialized = value == "yes"
		case "used":
			state.used = value == "yes"
		case "ca":
			state.ca = value
		case "node":
			state.node = value
		case "nodes":
			state.nodes, _ = strconv.Atoi(value) // 0 fits no cluster
		case "time":
			if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
				state.skew = time.Unix(seconds, 0).Sub(now.Truncate(time.Second))
			}
		}
	}
	return state
}

func (c *Cluster) warnOfClocks(states []nodeState) {
	for _, state := range states {
		if state.skew.Abs() > maxSkew {
			c.warn(StepInstall, state.host.Name(), fmt.Sprintf(
				"its clock is off by %s: from 5 minutes on, hive refuses signed calls as if their secret were wrong", state.skew.Round(time.Second)))
		}
	}
}

// sameVersion refuses mixed versions: such clusters fail later, and in stranger ways.
func sameVersion(states []nodeState) error {
	for _, state := range states[1:] {
		if state.version != states[0].version {
			return fmt.Errorf("nodes have different versions of hive: %s", versions(states))
		}
	}
	return nil
}

func versions(states []nodeState) string {
	texts := make([]string, len(states))
	for i, state := range states {
		texts[i] = fmt.Sprintf("%s has %q", state.host.Name(), state.version)
	}
	return strings.Join(texts, ", ")
}
