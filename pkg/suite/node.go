package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/remote"
)

// Host is the node that suites are run on; *remote.Host is one.
type Host interface {
	Name() string
	Run(ctx context.Context, cmd remote.Command) (remote.Result, error)
	CopyTo(ctx context.Context, sources []string, target string) (remote.Copied, error)
	CopyFrom(ctx context.Context, sources []string, target string) (remote.Copied, error)
}

var _ Host = (*remote.Host)(nil)

// Node is where external suites run in place of this machine, with what they need there to reach the other nodes.
type Node struct {
	Host Host
	// Inventory is the cluster's; paths in it are of this machine.
	Inventory cluster.Inventory
	// Key is the private key of the nodes' user, empty where only an SSH agent has it; KnownHosts are the nodes' host
	// keys.
	Key, KnownHosts string
}

const (
	nodeTimeout    = time.Minute              // for what is done on the node before and after a suite
	nodeCutShort   = 15 * time.Second         // for the same once the run was stopped
	nodeUnlimited  = 30 * 24 * time.Hour      // for the suite itself: its context ends it
	stageDirectory = ".hive-test/suite"       // below the home directory; of one suite at a time
	keyName        = "tf-user-ap-southeast-2" // what hive's own suites call the key, below ~/.ssh
)

// nodeFunctions stand before the scripts below. The key is put where hive's own suites look for it, unless another one
// is there.
const nodeFunctions = `set -euo pipefail
umask 077
stage=$HOME/` + stageDirectory + `
key=$HOME/.ssh/` + keyName + `
mark=$HOME/.ssh/.` + keyName + `.hive-test
forget() {
	trap '' TERM HUP INT PIPE # what ends the suite ends this, too, but grants it time
	exec >/dev/null 2>&1      # nobody may be there to read it
	if [ -e "$mark" ]; then
		rm -f -- "$key" "$mark"
	fi
	rm -f -- "$stage/key" "$stage/aws-credentials"
}
`

// prepareScript makes the directory of a suite anew and prints its path, and the key's. F_* hold contents of files.
const prepareScript = nodeFunctions + `
for name in $(compgen -A export F_); do
	export -n "${name?}"
done
(forget)
rm -rf --one-file-system -- "$stage"
mkdir -p "$stage/work" "$stage/bin" "$stage/artifacts" "$HOME/.ssh"
if [ -n "$F_KEY" ] && [ -e "$key" ] && [ "$(cat "$key")" != "$F_KEY" ]; then
	printf 'warning: there is another %s on the node, which stays: suites that want the key of the cluster there may fail\n' "$key" >&2
	key=$stage/key
fi
if [ -n "$F_KEY" ] && [ ! -e "$key" ]; then
	[ "$key" = "$stage/key" ] || : >"$mark"
	printf '%s\n' "$F_KEY" >"$key"
fi
printf '%s\n' "$F_KNOWN_HOSTS" >"$stage/known_hosts"
printf '%s\n' "$F_CA" >"$stage/ca.pem"
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem; do
	if [ -f "$file" ]; then
		cat "$file" >"$stage/ca-bundle.pem"
		break
	fi
done
printf '\n%s\n' "$F_CA" >>"$stage/ca-bundle.pem"
program=$HOME/hive/bin/hive
if [ -x "$program" ]; then
	for name in hive spx spinifex; do
		ln -s "$program" "$stage/bin/$name"
	done
fi
printf '%s\n%s\n' "$stage" "$key"
`

// runScript runs the command line F_COMMAND. What only this node may know goes when the suite ends, however that is:
// hive-test may be gone by then. Hive's own program would take an exported HIVE_NODES for its setting "nodes" and find
// none of them, so it is a variable of bash only.
//
// The suite is a process group of its own, which is ended with it, and prints into a named pipe: what it leaves running
// in other groups is found by both, and does not keep the run waiting, for the pipe is read for a second more at most.
const runScript = nodeFunctions + `
trap forget EXIT
for name in $(compgen -A export F_); do
	export -n "${name?}"
done
printf '%s\n' "$F_COMMAND" >"$stage/suite"
printf 'HIVE_NODES=%q\n' "$F_NODES" >"$stage/variables"
printf '%s\n' "$F_SSH_CONFIG" >"$stage/ssh_config"
printf '%s\n' "$F_INVENTORY" >"$stage/inventory.json"
printf '%s\n' "$F_AWS_CONFIG" >"$stage/aws-config"
printf '%s\n' "$F_AWS_CREDENTIALS" >"$stage/aws-credentials"
umask 022
cd "$stage/work"
[ -e bin ] || ln -s "$stage/bin" bin
export BASH_ENV=$stage/variables
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin:$stage/bin
mkfifo "$stage/output"
(trap '' TERM HUP INT; exec cat "$stage/output") & # all that the suite prints while it is being ended, too
reader=$!
exec 2>/dev/null # where bash tells of its own jobs, which is none of the suite's
code=0
set -m
sh -c 'echo "$$" >"$1/group"; exec bash -o pipefail "$1/suite"' sh "$stage" </dev/null >"$stage/output" 2>&1 || code=$?
set +m
kill -s KILL -- "-$(cat "$stage/group")" || true
for ((i = 0; i < 10; i++)); do
	kill -0 "$reader" || break
	sleep 0.1
done
kill -s KILL "$reader" || true
wait "$reader" || true
exit "$code"
`

// leftoversScript prints which processes this suite or an earlier one has left running, a line each, after "left", and
// with an argument ends them, in that many hundredths of a second: it prints those that it could not end after
// "remains".
const leftoversScript = nodeFunctions + remote.ProcessFunctions + `
print_found() {
	for p in $found; do
		printf '%s %s %s\n' "$1" "$p" "$(tr '\0\n' '  ' <"/proc/$p/cmdline" | head -c 400)"
	done
}
exec 2>/dev/null
variable=ARTIFACTS=$stage/artifacts pipe=$stage/output
for ((i = 0; i < 5; i++)); do # what is about to end may do so
	find_all
	[ -n "$found" ] || exit 0
	sleep 0.1
done
print_found left
if [ -n "$1" ]; then
	end_all "$1"
	print_found remains
fi
`

// removeScript leaves no file of a suite on the node.
const removeScript = nodeFunctions + `
(forget)
rm -rf --one-file-system -- "$stage"
rmdir -- "$(dirname "$stage")" 2>/dev/null || true
`

// onNode runs a command line on a node: what it names of this machine is copied there, what it leaves in ARTIFACTS is
// brought back, and all that was put there is removed. The error is for what is not the suite's own failure.
func (r *runner) onNode(
	ctx context.Context, s Spec, node *Node, artifacts string, onText func(string), warn func(string),
) (exit, error) {
	if node.Key == "" {
		warn("only an SSH agent has the key for the nodes, so the suite cannot reach other nodes from " + node.Host.Name())
	}
	stage, key, err := r.prepareNode(ctx, node, warn)
	if err != nil {
		return exit{}, fmt.Errorf("preparing the node: %w", err)
	}
	defer r.removeStage(ctx, node, warn)
	command, trees := travel(r.Dir, s.Command)
	for _, tree := range trees {
		copied, err := node.Host.CopyTo(ctx, []string{tree.from}, path.Join(stage, "work", tree.to))
		if err != nil {
			return exit{}, fmt.Errorf("copying %s to the node: %w", tree.from, err)
		}
		for _, left := range copied.LeftOut {
			warn(left + " is neither a file nor a directory, and was not copied to the node")
		}
	}
	ended, err := r.runOnNode(ctx, node, command, stage, key, onText)
	r.leftoversOnNode(ctx, node, warn)
	r.bringBack(ctx, node, stage, artifacts, warn)
	return ended, err
}

// prepareNode makes the suite's directory on the node and returns its path, and that of the key.
func (r *runner) prepareNode(ctx context.Context, node *Node, warn func(string)) (stage, key string, err error) {
	result, err := node.Host.Run(ctx, remote.Command{
		Name: "the suite's preparation", Script: prepareScript, Timeout: nodeTimeout,
		Env: map[string]string{
			"F_KEY": strings.TrimRight(node.Key, "\n"), "F_KNOWN_HOSTS": node.KnownHosts, "F_CA": r.Credentials.CAPEM,
		},
	})
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(result.Stderr)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "warning: "); ok {
			warn(text)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(result.Stdout)), "\n")
	if len(lines) < 2 { // a login may print lines of its own before
		return "", "", errors.New("it has not told where the suite's directory is")
	}
	return lines[len(lines)-2], lines[len(lines)-1], nil
}

// runOnNode runs a command line there and returns how it ended.
func (r *runner) runOnNode(
	ctx context.Context, node *Node, command, stage, key string, onText func(string),
) (exit, error) {
	at := places{artifacts: stage + "/artifacts", private: stage}
	if r.Credentials.CAPEM != "" {
		at.ca, at.bundle = stage+"/ca.pem", stage+"/ca-bundle.pem"
	}
	known := stage + "/known_hosts"
	inventory, profile := node.Inventory, r.profile(at)
	// of this machine; nodes reach each other at once
	inventory.SSHKeyPath, inventory.SSHAgent, inventory.ProxyJump = key, "", nil
	text, err := json.Marshal(inventory)
	if err != nil {
		return exit{}, err
	}
	more := maps.Clone(r.Environment)
	maps.Copy(more, map[string]string{
		"HIVE_SSH_KEY": key, "HIVE_SSH_CONFIG": stage + "/ssh_config", "HIVE_SSH_KNOWN_HOSTS": known,
		"HIVE_INVENTORY": stage + "/inventory.json",
	})
	vars := r.variables(at, more)
	vars["CLUSTER_NODES"], vars["F_NODES"], vars["SPX_BIN"] = vars["HIVE_NODES"], vars["HIVE_NODES"], stage+"/bin/spx"
	delete(vars, "HIVE_NODES")
	maps.Copy(vars, r.added())
	maps.Copy(vars, map[string]string{
		"F_COMMAND": command, "F_INVENTORY": string(text), "F_SSH_CONFIG": string(remote.SSHConfig(inventory, known)),
		"F_AWS_CONFIG": string(profile.Config()), "F_AWS_CREDENTIALS": string(profile.Credentials()),
	})
	result, err := node.Host.Run(ctx, remote.Command{
		Name: "the suite", Script: runScript, Env: vars, Timeout: nodeUnlimited, Lasts: true,
		OnLine: func(_, line string) { onText(line + "\n") },
	})
	if failed, ok := errors.AsType[*remote.ExitError](err); ok {
		return exit{code: failed.Result.ExitCode, signal: failed.Result.Signal}, nil
	}
	return exit{code: result.ExitCode, signal: result.Signal}, err
}

// leftoversOnNode tells of what a suite has left running on the node, and ends it where that is asked for.
func (r *runner) leftoversOnNode(ctx context.Context, node *Node, warn func(string)) {
	grace := ""
	if r.KillLeftovers {
		grace = strconv.Itoa(int(r.leftoverGrace(ctx) / (10 * time.Millisecond)))
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	result, err := node.Host.Run(ctx, remote.Command{
		Name: "the search for what the suite left", Script: leftoversScript, Args: []string{grace},
		Timeout: nodeTimeout,
	})
	if err != nil {
		warn("what it has left running on the node is not known: " + err.Error())
	}
	found := map[string][]leftover{}
	for line := range strings.Lines(string(result.Stdout)) {
		if words := strings.SplitN(strings.TrimSpace(line), " ", 3); len(words) == 3 {
			found[words[0]] = append(found[words[0]], leftover{words[1], words[2]})
		}
	}
	r.warnOfLeftovers(found["left"], found["remains"], " on the node", warn)
}

// bringBack copies what the suite has left in ARTIFACTS on the node.
func (r *runner) bringBack(ctx context.Context, node *Node, stage, artifacts string, warn func(string)) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if _, err := node.Host.CopyFrom(ctx, []string{stage + "/artifacts/."}, artifacts); err != nil {
		warn("what it has left on the node was not all brought back: " + err.Error())
	}
}

func (r *runner) removeStage(ctx context.Context, node *Node, warn func(string)) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if _, err := node.Host.Run(ctx, remote.Command{
		Name: "the suite's removal", Script: removeScript, Timeout: nodeTimeout,
	}); err != nil {
		warn("what was put on the node for it may be there still (~/" + stageDirectory + ", ~/.ssh/" + keyName + "): " + err.Error())
	}
}

// afterwards is for what is done when a suite has ended, also because the run was stopped.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := nodeTimeout
	if ctx.Err() != nil {
		limit = nodeCutShort
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}
