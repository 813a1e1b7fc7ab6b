package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// Host is what this package needs of a node; *remote.Host is one.
type Host interface {
	Name() string
	Node() cluster.Node
	Run(ctx context.Context, cmd remote.Command) (remote.Result, error)
}

// scriptTime bounds each script on a node: filling a large disk takes longest.
const scriptTime = 2 * time.Minute

// HealTime bounds healing after an interruption.
const HealTime = 20 * time.Second

// Applied is a fault on a node. Error is why it could not be healed; empty: nothing is known against it.
type Applied struct {
	ID          string  `json:"id"`
	Node        string  `json:"node"`
	Spec        string  `json:"fault"`
	SecondsLeft float64 `json:"seconds_left"`
	Error       string  `json:"error,omitempty"`
}

// RefusedError is a fault that some nodes cannot have. Nothing was done on any.
type RefusedError struct {
	Spec     string
	Problems []Problem
	Packages []string // that would have to be installed
	Cluster  string
	Nodes    []string // that lack them
}

// Problem is why nodes cannot have a fault.
type Problem struct {
	Nodes []string
	What  string
}

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = strings.Join(p.Nodes, ", ") + ": " + p.What
	}
	return fmt.Sprintf("%s cannot be applied, and nothing was done: %s", e.Spec, strings.Join(texts, "; "))
}

// add adds what is wrong with a node to what is wrong with others in the same way.
func (e *RefusedError) add(node, what string) {
	i := slices.IndexFunc(e.Problems, func(p Problem) bool { return p.What == what })
	if i < 0 {
		i = len(e.Problems)
		e.Problems = append(e.Problems, Problem{What: what})
	}
	e.Problems[i].Nodes = append(e.Problems[i].Nodes, node)
}

// Hint is the command that installs what is missing.
func (e *RefusedError) Hint() string {
	if len(e.Packages) == 0 {
		return ""
	}
	return fmt.Sprintf("hive-test exec %s --nodes %s -- sudo apt-get install -y %s",
		e.Cluster, strings.Join(e.Nodes, ","), strings.Join(e.Packages, " "))
}

// Request is a fault that is to be applied.
type Request struct {
	ID      string // the same on all nodes
	Spec    Spec
	For     time.Duration
	Cluster string
	Nodes   []Host        // that get it
	All     cluster.Nodes // of the cluster
}

// NewID returns an id of a fault that begins now. Ids are in the order of their beginnings.
func NewID(s Spec, now time.Time) string {
	return fmt.Sprintf("%s-%s", now.UTC().Format("150405.000"), s.Kind)
}

// Apply applies a fault to all nodes of a request at once, or to none: first all are asked whether they can have it,
// and where one fails then, it is healed on all. A ctx that ends meanwhile heals it, too.
func Apply(ctx context.Context, r Request) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	heal, err := healer()
	if err != nil {
		return err
	}
	_, err = r.run(ctx, "apply.sh", map[string]string{"FAULT_HEAL": heal})
	if err == nil && ctx.Err() == nil {
		return nil
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), HealTime)
	defer cancel()
	if _, healErr := Heal(undo, r.Nodes, r.ID); healErr != nil {
		return errors.Join(err, fmt.Errorf("healing what was applied: %w", healErr))
	}
	return err
}

// check asks all nodes whether they can have the fault.
func (r Request) check(ctx context.Context) error {
	results, err := r.run(ctx, "check.sh", nil)
	if err != nil {
		return err
	}
	refused := &RefusedError{Spec: r.Spec.String(), Cluster: r.Cluster}
	kernels := map[string]string{ownKernel(): "this machine"}
	for i, host := range r.Nodes {
		for line := range strings.Lines(string(results[i].Stdout)) {
			what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch what {
			case "problem":
				refused.add(host.Name(), rest)
			case "lacks":
				refused.lacks(host.Name(), strings.Fields(rest))
			case "kernel":
				if whose := kernels[rest]; whose != "" {
					refused.add(host.Name(), "its clock is that of "+whose+", too: they share a kernel")
				}
				kernels[rest] = host.Name()
			}
		}
	}
	if len(refused.Problems) > 0 {
		return refused
	}
	return nil
}

// ownKernel tells the kernel of this machine from all others; elsewhere than on Linux it is empty.
func ownKernel() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, nodes tell themselves whether they are containers
	return strings.TrimSpace(string(id))
}

func (e *RefusedError) lacks(node string, packages []string) {
	e.add(node, "it needs "+strings.Join(packages, ", "))
	if !slices.Contains(e.Nodes, node) {
		e.Nodes = append(e.Nodes, node)
	}
	for _, name := range packages {
		if !slices.Contains(e.Packages, name) {
			e.Packages = append(e.Packages, name)
		}
	}
}

// run runs a script on all nodes of the request, with what it needs to know of the fault.
func (r Request) run(ctx context.Context, name string, more map[string]string) ([]remote.Result, error) {
	return runOn(ctx, r.Nodes, name, func(host Host) map[string]string {
		vars := r.Spec.variables()
		maps.Copy(vars, map[string]string{
			"FAULT_ID": r.ID, "FAULT_SECONDS": strconv.Itoa(int(r.For.Seconds() + 0.5)),
			"FAULT_PEERS": strings.Join(r.peers(host.Node()), " "), "FAULT_PORTS": r.ports(),
		})
		maps.Copy(vars, more)
		return vars
	})
}

// variables are what the scripts take of a fault, whatever its kind.
func (s Spec) variables() map[string]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return map[string]string{
		"FAULT_KIND": string(s.Kind), "FAULT_SPEC": s.String(), "FAULT_ACT": s.Act, "FAULT_SERVICE": s.Service,
		"FAULT_DELAY": number(s.Delay.Microseconds()), "FAULT_JITTER": number(s.Jitter.Microseconds()),
		"FAULT_LOSS": number(int64(s.Loss)), "FAULT_RATE": number(s.Rate), "FAULT_LIMIT": number(s.queue()),
		"FAULT_UP": number(s.Up.Milliseconds()), "FAULT_DOWN": number(s.Down.Milliseconds()),
		"FAULT_PATH": s.Path, "FAULT_FREE": number(s.Free), "FAULT_STEP": number(int64(s.Step.Seconds())),
	}
}

// queue is how many packets may wait: those that are on their way, and some. Fewer would be lost for the delay, many
// more would make a slow link one without end.
func (s Spec) queue() int64 {
	const packet, some, many = 1500 * 8, 100, 100_000
	if s.Rate == 0 {
		return many
	}
	late := (s.Delay + s.Jitter).Seconds()
	return min(some+2*int64(late*float64(s.Rate)/packet), many)
}

// peers are the addresses of the nodes that the fault is about, as seen from one.
func (r Request) peers(of cluster.Node) []string {
	var addresses []string
	for _, node := range r.All {
		if node.Name == of.Name || r.Spec.Kind == Partition && !r.apart(of, node) {
			continue
		}
		for _, address := range []netip.Addr{node.Management, node.Data} {
			if address.IsValid() && !slices.Contains(addresses, address.String()) {
				addresses = append(addresses, address.String())
			}
		}
	}
	return addresses
}

// apart reports whether two nodes are on different sides of a partition.
func (r Request) apart(a, b cluster.Node) bool {
	one, other := r.side(a), r.side(b)
	return one != other && one >= 0 && other >= 0
}

// side is the number of a node's group; -1: it is in none. The only group is apart from all other nodes.
func (r Request) side(node cluster.Node) int {
	for i, group := range r.Spec.Groups {
		for _, word := range group {
			if named, found := r.All.Named(word); found && named.Name == node.Name {
				return i
			}
		}
	}
	if len(r.Spec.Groups) == 1 {
		return 1
	}
	return -1
}

// Involved returns the nodes of a cluster that have to do with a partition, in their order: those in its groups, and
// all where there is one.
func (s Spec) Involved(all cluster.Nodes) cluster.Nodes {
	r := Request{Spec: s, All: all}
	return slices.DeleteFunc(slices.Clone(all), func(n cluster.Node) bool { return r.side(n) < 0 })
}

// ports are those of the nodes' SSH servers.
func (r Request) ports() string {
	ports := []string{"22"}
	for _, node := range r.All {
		if port := strconv.Itoa(node.SSHPort); node.SSHPort != 0 && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return strings.Join(ports, ", ")
}

// runOn runs a script on nodes at once. The error joins those of all nodes, in order.
func runOn(ctx context.Context, nodes []Host, name string, vars func(Host) map[string]string) ([]remote.Result, error) {
	text, err := script(name)
	if err != nil {
		return nil, err
	}
	results, failures := make([]remote.Result, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, host := range nodes {
		all.Go(func() {
			env := map[string]string{"HIVE_BIND": host.Node().Management.String(), "HIVE_NODE": host.Name()}
			if vars != nil {
				maps.Copy(env, vars(host))
			}
			results[i], failures[i] = host.Run(ctx, remote.Command{
				Name: "fault " + strings.TrimSuffix(name, ".sh"), Script: text, Env: env, Timeout: scriptTime,
			})
		})
	}
	all.Wait()
	return results, errors.Join(failures...)
}

// List asks nodes which faults they have. Nodes that cannot be asked are the error.
func List(ctx context.Context, nodes []Host) ([]Applied, error) {
	results, err := runOn(ctx, nodes, "list.sh", nil)
	return read(nodes, results, "fault"), err
}

// Heal heals faults of nodes, those with the ids or all, and returns them. What could not be healed has its error, and
// is in the error.
func Heal(ctx context.Context, nodes []Host, ids ...string) ([]Applied, error) {
	results, err := runOn(ctx, nodes, "heal-now.sh", func(Host) map[string]string {
		return map[string]string{"FAULT_IDS": strings.Join(ids, " ")}
	})
	healed := read(nodes, results, "healed", "failed")
	problems := []error{err}
	for _, a := range healed {
		if a.Error != "" {
			unhealed := fmt.Errorf("%s: %s is not healed: %s", a.Node, a.Spec, a.Error)
			problems = append(problems, progress.WithNodes(unhealed, a.Node))
		}
	}
	return healed, errors.Join(problems...)
}

// read reads the lines with these first words, in the order of nodes.
func read(nodes []Host, results []remote.Result, words ...string) []Applied {
	all := []Applied{}
	for i, result := range results {
		for line := range strings.Lines(string(result.Stdout)) {
			fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
			if len(fields) < 3 || !slices.Contains(words, fields[0]) { // a login shell may print lines of its own
				continue
			}
			a := Applied{ID: fields[1], Node: nodes[i].Name(), Spec: fields[2]}
			switch {
			case fields[0] == "failed" && len(fields) > 3:
				a.Error = fields[3]
			case fields[0] == "fault" && len(fields) > 4:
				a.SecondsLeft, _ = strconv.ParseFloat(fields[3], 64)
				if fields[4] != "-" {
					a.Error = fields[4]
				}
			}
			all = append(all, a)
		}
	}
	return all
}
