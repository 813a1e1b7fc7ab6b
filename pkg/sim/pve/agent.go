package pve

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"hive-test/pkg/sim/host"
)

// agentPoll is how often a guest agent that is not up yet is asked again.
const agentPoll = 50 * time.Millisecond

// agentCall waits up to AgentTimeout for the guest agent, as PVE does, and refuses with its words. Called without the
// mutex.
func agentCall[T any](s *Server, c *call, ask func(ctx context.Context, id string) (T, error)) (T, error) {
	var none T
	id, err := s.agentVM(c)
	if err != nil {
		return none, err
	}
	deadline := time.Now().Add(s.opt.AgentTimeout)
	for {
		out, err := ask(c.ctx, id)
		if !errors.Is(err, host.ErrAgentNotRunning) {
			return out, err
		}
		if time.Now().After(deadline) || !sleep(c.ctx, agentPoll) {
			return none, failf("QEMU guest agent is not running")
		}
		if _, err := s.agentVM(c); err != nil {
			return none, err
		}
	}
}

// agentVM checks in PVE's order: configured, running.
func (s *Server) agentVM(c *call) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return "", err
	}
	if !agentEnabled(s.current(v)["agent"]) {
		return "", failf("No QEMU guest agent configured")
	}
	if !s.running(v) {
		return "", failf("VM %d is not running", c.vmid)
	}
	return v.machineID(), nil
}

func agentIndex(*Server, *call) (any, error) {
	var out []map[string]any
	for _, n := range []string{
		"exec", "exec-status", "file-read", "get-host-name", "get-osinfo", "info", "network-get-interfaces", "ping",
	} {
		out = append(out, map[string]any{"name": n})
	}
	return out, nil
}

func result(v any) map[string]any { return map[string]any{"result": v} }

func agentInterfaces(s *Server, c *call) (any, error) {
	ifs, err := agentCall(s, c, s.opt.Machines.Interfaces)
	if err != nil {
		return nil, err
	}
	if c.fault != nil && c.fault.Interfaces != nil {
		ifs = c.fault.Interfaces.of(ifs)
	}
	out := []map[string]any{}
	for _, i := range ifs {
		addrs := []map[string]any{}
		for _, a := range i.Addresses {
			kind := "ipv4"
			if a.Addr().Is6() {
				kind = "ipv6"
			}
			addrs = append(addrs, map[string]any{"ip-address": a.Addr().String(), "prefix": a.Bits(), "ip-address-type": kind})
		}
		out = append(out, map[string]any{
			"name": i.Name, "hardware-address": strings.ToLower(i.MAC), "ip-addresses": addrs,
			"statistics": map[string]any{
				"rx-bytes": 0, "rx-packets": 0, "rx-errs": 0, "rx-dropped": 0, "tx-bytes": 0, "tx-packets": 0, "tx-errs": 0,
				"tx-dropped": 0,
			},
		})
	}
	return result(out), nil
}

func agentPing(s *Server, c *call) (any, error) {
	_, err := agentCall(s, c, s.opt.Machines.Interfaces)
	return result(map[string]any{}), err
}

func agentInfo(s *Server, c *call) (any, error) {
	if _, err := agentPing(s, c); err != nil {
		return nil, err
	}
	var commands []map[string]any
	for _, n := range []string{
		"guest-ping", "guest-info", "guest-network-get-interfaces", "guest-exec", "guest-exec-status", "guest-file-read",
		"guest-get-host-name", "guest-get-osinfo",
	} {
		commands = append(commands, map[string]any{"name": n, "enabled": true, "success-response": true})
	}
	return result(map[string]any{"version": "7.2.22", "supported_commands": commands}), nil
}

func agentHostName(s *Server, c *call) (any, error) {
	if _, err := agentPing(s, c); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	return result(map[string]any{"host-name": v.name()}), nil
}

func agentOSInfo(s *Server, c *call) (any, error) {
	_, err := agentPing(s, c)
	return result(map[string]any{
		"id": "debian", "name": "Debian GNU/Linux", "version": "12 (bookworm)", "version-id": "12",
		"pretty-name": "Debian GNU/Linux 12 (bookworm)",
	}), err
}

// agentCommand is the older form: POST …/agent with a command's name.
func agentCommand(s *Server, c *call) (any, error) {
	serve := map[string]handler{
		"ping": agentPing, "info": agentInfo, "network-get-interfaces": agentInterfaces, "get-host-name": agentHostName,
		"get-osinfo": agentOSInfo,
	}[c.get("command")]
	if serve != nil {
		return serve(s, c)
	}
	if _, err := agentPing(s, c); err != nil {
		return nil, err
	}
	name := "guest-" + c.get("command")
	return result(map[string]any{"error": map[string]any{
		"class": "CommandNotFound", "desc": "The command " + name + " has not been found",
	}}), nil
}

func agentExec(s *Server, c *call) (any, error) {
	argv := c.params["command"].list
	if len(argv) == 0 {
		return nil, badParam("command", msgMissingParam)
	}
	var stdin []byte
	if c.has("input-data") {
		stdin = []byte(c.get("input-data"))
	}
	pid, err := agentCall(s, c, func(ctx context.Context, id string) (int, error) {
		return s.opt.Machines.Exec(ctx, id, argv, stdin)
	})
	if err != nil {
		return nil, execError(err)
	}
	return map[string]any{"pid": pid}, nil
}

// execError answers a program that cannot be run as PVE 8.4 does: the guest's text kills the worker (observed).
func execError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return &apiError{status: 596, message: "Broken pipe", bare: true}
	}
	return agentError(err)
}

func agentError(err error) error {
	if _, ok := errors.AsType[*apiError](err); ok {
		return err
	}
	return failf("Agent error: %v", err)
}

func agentExecStatus(s *Server, c *call) (any, error) {
	pid := c.int("pid", 0)
	res, err := agentCall(s, c, func(ctx context.Context, id string) (host.ExecResult, error) {
		return s.opt.Machines.ExecStatus(ctx, id, pid)
	})
	if err != nil {
		if _, ok := errors.AsType[*apiError](err); ok {
			return nil, err
		}
		return nil, failf("Agent error: Invalid parameter 'pid'")
	}
	out := map[string]any{"exited": btoi(res.Exited)}
	if !res.Exited {
		return out, nil
	}
	if res.Signal != 0 {
		out["signal"] = res.Signal
	} else {
		out["exitcode"] = res.ExitCode
	}
	if len(res.Stdout) > 0 {
		out["out-data"], out["out-truncated"] = latin1(res.Stdout), 0
	}
	if len(res.Stderr) > 0 {
		out["err-data"], out["err-truncated"] = latin1(res.Stderr), 0
	}
	return out, nil
}

func agentFileRead(s *Server, c *call) (any, error) {
	file := c.get("file")
	b, err := agentCall(s, c, func(ctx context.Context, id string) ([]byte, error) {
		return s.opt.Machines.ReadFile(ctx, id, file)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failf("Agent error: failed to open file '%s' (mode: 'r'): No such file or directory", file)
	case err != nil && strings.Contains(err.Error(), "is a directory"):
		return nil, failf("Agent error: failed to read file: Is a directory")
	case err != nil:
		return nil, agentError(err)
	}
	return map[string]any{"content": latin1(b), "bytes-read": len(b)}, nil
}

// latin1 turns bytes into text one to one, as PVE passes on what a guest wrote (observed: UTF-8 arrives garbled).
func latin1(b []byte) string {
	if utf8.Valid(b) && isASCII(b) {
		return string(b)
	}
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
