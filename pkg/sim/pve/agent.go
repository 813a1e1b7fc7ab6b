package pve

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"
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
	// 9 asks one that is off, too
	if text, said := s.current(v)["agent"]; !agentEnabled(text) && (s.version == Version84 || !said) {
		return "", failf("No QEMU guest agent configured")
	}
	if !s.running(v) {
		return "", failf("VM %d is not running", c.vmid)
	}
	return v.machineID(), nil
}

// agentCommands are those that are asked by their name alone, by the method that asks them.
func agentCommands() map[string]string {
	return map[string]string{
		"fsfreeze-freeze": "POST", "fsfreeze-status": "POST", "fsfreeze-thaw": "POST", "fstrim": "POST",
		"get-fsinfo": "GET", "get-host-name": "GET",
		"get-memory-block-info": "GET", "get-memory-blocks": "GET", "get-osinfo": "GET", "get-time": "GET",
		"get-timezone": "GET",
		"get-users":    "GET", "get-vcpus": "GET", "info": "GET", "network-get-interfaces": "GET", "ping": "POST",
		"shutdown":     "POST",
		"suspend-disk": "POST", "suspend-hybrid": "POST", "suspend-ram": "POST",
	}
}

func agentIndex(*Server, *call) (any, error) {
	names := append(sortedKeys(agentCommands()), "exec", "exec-status", "file-read", "file-write", "set-user-password")
	slices.Sort(names)
	var out []map[string]any
	for _, n := range names {
		out = append(out, map[string]any{"name": n})
	}
	return out, nil
}

// agentAsk serves one command of the guest agent. A guest of the simulator knows few; of the others it says so, as
// agents do that are old, or that were told to leave them out.
func agentAsk(name string) handler {
	known := map[string]handler{
		"ping": agentPing, "info": agentInfo, "network-get-interfaces": agentInterfaces, "get-host-name": agentHostName,
		"get-osinfo": agentOSInfo,
		"get-time":   agentTime,
	}[name]
	if known != nil {
		return known
	}
	return func(s *Server, c *call) (any, error) {
		if _, err := agentPing(s, c); err != nil {
			return nil, err
		}
		return result(map[string]any{"error": map[string]any{"class": "CommandNotFound", "desc": notFound(name)}}), nil
	}
}

func notFound(name string) string { return "The command guest-" + name + " has not been found" }

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
			addrs = append(addrs, map[string]any{
				"ip-address": a.Addr().String(), "prefix": a.Bits(), "ip-address-type": kind,
			})
		}
		out = append(out, map[string]any{
			"name": i.Name, "hardware-address": strings.ToLower(i.MAC), "ip-addresses": addrs,
			"statistics": map[string]any{
				"rx-bytes": 0, "rx-packets": 0, "rx-errs": 0, "rx-dropped": 0, "tx-bytes": 0, "tx-packets": 0,
				"tx-errs":    0,
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
		"guest-ping", "guest-info", "guest-network-get-interfaces", "guest-exec", "guest-exec-status",
		"guest-file-open", "guest-file-read",
		"guest-file-write", "guest-file-close", "guest-get-host-name", "guest-get-osinfo", "guest-get-time",
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

// agentTime is in nanoseconds; the guests have this machine's clock.
func agentTime(s *Server, c *call) (any, error) {
	_, err := agentPing(s, c)
	return result(time.Now().UnixNano()), err
}

// agentCommand is the older form: POST …/agent with a command's name.
func agentCommand(s *Server, c *call) (any, error) { return agentAsk(c.get("command"))(s, c) }

// agentPassword is refused as by an agent that does not know the command.
func agentPassword(s *Server, c *call) (any, error) {
	if _, err := agentPing(s, c); err != nil {
		return nil, err
	}
	return nil, failf("Agent error: %s", notFound("set-user-password"))
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

// agentFileWrite has a command of the guest write the file.
func agentFileWrite(s *Server, c *call) (any, error) {
	content, err := fileContent(c)
	if err != nil {
		return nil, err
	}
	argv := []string{"tee", "--", c.get("file")}
	pid, err := agentCall(s, c, func(ctx context.Context, id string) (int, error) {
		return s.opt.Machines.Exec(ctx, id, argv, content)
	})
	if err != nil {
		return nil, agentError(err)
	}
	for {
		done, err := agentCall(s, c, func(ctx context.Context, id string) (host.ExecResult, error) {
			return s.opt.Machines.ExecStatus(ctx, id, pid)
		})
		switch {
		case err != nil:
			return nil, agentError(err)
		case done.Exited && done.ExitCode == 0 && done.Signal == 0:
			return nil, nil
		case done.Exited:
			_, why, _ := cutLast(strings.TrimSpace(string(done.Stderr)), ": ")
			return nil, failf("Agent error: failed to open file '%s' (mode: 'wb'): %s", c.get("file"), why)
		case !sleep(c.ctx, agentPoll):
			return nil, failf("received interrupt")
		}
	}
}

// fileContent are the bytes that are to be written: text as Latin-1, or base64 with encode=0.
func fileContent(c *call) ([]byte, error) {
	text := c.get("content")
	if c.has("encode") && !c.bool("encode") {
		out, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, failf("Agent error: Invalid parameter 'buf-b64'")
		}
		return out, nil
	}
	var out []byte
	for _, r := range text {
		if r > 0xff {
			return nil, failf("Wide character in subroutine entry")
		}
		out = append(out, byte(r))
	}
	return out, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
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
