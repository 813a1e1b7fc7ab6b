package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// Pace of the wait for addresses. A dead agent answers only after 3 s, so a call is given more than that.
const (
	firstAgentPoll = 100 * time.Millisecond
	lastAgentPoll  = time.Second
	agentCall      = 15 * time.Second
	explainCall    = 10 * time.Second
	// ipv4Grace is how long an address of IPv6 alone is not believed to be all that comes.
	ipv4Grace = 5 * time.Second
)

// WaitAddresses asks every node's guest agent, all nodes at once and each at its own pace, until both NICs, found by
// their MACs, have an address, and returns the nodes with their addresses filled in. IPv4 is preferred; loopback,
// link-local and the addresses of any other interface (docker0 and the like) do not count. An IPv4 address that a node
// comes with stays for as long as its NIC has it.
//
// The wait ends with ctx. What cannot come right by waiting (no privilege, no agent configured, no such VM) ends a
// node's wait at once, without ending the others'. The error joins one *AddressError per node, in node order, that says
// what is missing and how to mend it. Two nodes with one address are an error that names both. Nodes that did get their
// addresses carry them in the result even then.
func WaitAddresses(ctx context.Context, c Addresses, nodes cluster.Nodes, sink progress.Sink) (cluster.Nodes, error) {
	result := append(cluster.Nodes(nil), nodes...)
	err := each(len(result), func(i int) error {
		w := &addressWait{
			api: c, node: result[i], at: placement.Of(result[i]), known: result[i],
			sink: progress.With(sink, progress.Event{Node: result[i].Name}),
		}
		found, err := w.run(ctx)
		result[i] = found
		return err
	})
	if err == nil {
		err = distinct(result)
	}
	return result, err
}

// AddressError is a node whose addresses did not become known.
type AddressError struct {
	Node   cluster.Node
	Reason string // what is missing
	Fix    string // how to mend it
	Err    error  // the last error of the agent, or of the context
}

// Error names the node and what is missing.
func (e *AddressError) Error() string {
	at := placement.Of(e.Node)
	return fmt.Sprintf("%s (VM %d on %s): %s", e.Node.Name, at.VMID, at.Hypervisor, e.Reason)
}

// NodeName returns the node's name.
func (e *AddressError) NodeName() string { return e.Node.Name }

// Hint says how to mend it.
func (e *AddressError) Hint() string { return e.Fix }

// Unwrap gives the cause.
func (e *AddressError) Unwrap() error { return e.Err }

// addressWait is the wait for one node.
type addressWait struct {
	api   Addresses
	node  cluster.Node
	at    placement.VM
	known cluster.Node // the node with the addresses that it had before
	sink  progress.Sink

	missing string    // what the agent's last answer lacked
	last    error     // or why it gave none
	said    string    // the last reason reported, so that each is reported once
	v6Since time.Time // since when only an IPv6 address stands in for one that may still come
}

func (w *addressWait) run(ctx context.Context) (cluster.Node, error) {
	pauses := wait.Backoff{First: firstAgentPoll, Max: lastAgentPoll, Factor: 1.6}
	for range pauses.Tries(ctx) {
		missing, err := w.poll(ctx)
		switch {
		case err == nil && missing == "":
			w.sink.Emit(progress.Event{Kind: progress.NodeState, Message: "address " + w.node.Management.String()})
			w.sink.Emit(progress.Event{
				Kind: progress.Info, Message: fmt.Sprintf("addresses %s and %s", w.node.Management, w.node.Data),
			})
			return w.node, nil
		case err != nil && permanent(err):
			w.missing, w.last = "", err
			return w.node, w.describe(ctx)
		case ctx.Err() == nil: // a call that the end of ctx cut short says nothing about the node
			w.missing, w.last = missing, err
			w.report()
		}
	}
	return w.node, w.describe(ctx)
}

// poll asks once. missing says which NIC has no address yet.
func (w *addressWait) poll(ctx context.Context) (missing string, err error) {
	limited, cancel := context.WithTimeout(ctx, agentCall)
	defer cancel()
	interfaces, err := w.api.Interfaces(limited, w.at.Hypervisor, w.at.VMID)
	if err != nil {
		return "", err
	}
	management, managementGap := pick(interfaces, "management", w.at.ManagementMAC, w.known.Management)
	data, dataGap := pick(interfaces, "data", w.at.DataMAC, w.known.Data)
	w.node.Management, w.node.Data = management, data
	if managementGap != "" || dataGap != "" {
		return strings.Trim(managementGap+"; "+dataGap, "; "), nil
	}
	if management.Is4() && data.Is4() {
		return "", nil
	}
	if w.v6Since.IsZero() {
		w.v6Since = time.Now()
	}
	if time.Since(w.v6Since) < ipv4Grace {
		return "a NIC has only an IPv6 address so far", nil
	}
	return "", nil
}

// AddressOf is the address of the interface with the given MAC, as WaitAddresses chooses it, or the zero Addr. The one
// that is known of it stays for as long as the interface has it: a second address that it gained is no move.
func AddressOf(interfaces []Interface, mac string, known netip.Addr) netip.Addr {
	addr, _ := pick(interfaces, "", mac, known)
	return addr
}

// pick finds the address of the NIC with the given MAC, or says why there is none. Several interfaces may have that
// MAC: a bridge takes that of the NIC below it, and has its address then. Of those that have one, the address that is
// known stays; else one in the same network as that counts before others, and a NIC before what is above it. Bridges of
// containers never count.
func pick(interfaces []Interface, role, mac string, known netip.Addr) (netip.Addr, string) {
	var found []netip.Prefix
	var names []string
	for _, i := range interfaces {
		if !strings.EqualFold(i.MAC, mac) || forContainers(i.Name) {
			continue
		}
		if known.Is4() && slices.ContainsFunc(
			i.Prefixes, func(p netip.Prefix) bool { return p.Addr().Unmap() == known },
		) {
			return known, ""
		}
		names = append(names, i.Name)
		if physical(i.Name) {
			found = slices.Concat(i.Prefixes, found)
		} else {
			found = append(found, i.Prefixes...)
		}
	}
	if len(names) == 0 {
		return netip.Addr{}, fmt.Sprintf("the guest has no %s NIC with MAC %s", role, mac)
	}
	if known.Is4() {
		slices.SortStableFunc(found, func(a, b netip.Prefix) int { return around(b, known) - around(a, known) })
	}
	if addr, ok := best(found); ok {
		return addr, ""
	}
	return netip.Addr{}, fmt.Sprintf("the %s NIC %s (%s) has no address", role, strings.Join(names, " and "), mac)
}

// around is 1 for an address in the network of which known is, else 0.
func around(p netip.Prefix, known netip.Addr) int {
	if p.Masked().Contains(known) {
		return 1
	}
	return 0
}

// containerBridge are interfaces that programs make for containers and guests within the node. Docker names its own
// ones br- and twelve digits; br-ex and the like are the system's, and hive's.
var containerBridge = regexp.MustCompile(`^(docker|podman|cni|virbr|lxcbr|lxdbr|incusbr|veth|flannel|cali|tap|vnet)|^br-[0-9a-f]{12}$`)

func forContainers(name string) bool { return containerBridge.MatchString(name) }

// physical reports whether an interface has the name of a NIC, by the kernel's or systemd's rules, without a VLAN.
func physical(name string) bool { return nicName.MatchString(name) }

var nicName = regexp.MustCompile(`^(eth|en)[a-z0-9]*$`)

// best is the first IPv4 address that others can reach, else the first such IPv6 address.
func best(prefixes []netip.Prefix) (netip.Addr, bool) {
	var six netip.Addr
	for _, p := range prefixes {
		addr := p.Addr().Unmap().WithZone("")
		if !addr.IsValid() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
			continue
		}
		if addr.Is4() {
			return addr, true
		}
		if !six.IsValid() {
			six = addr
		}
	}
	return six, six.IsValid()
}

// permanent errors do not go away by waiting.
func permanent(err error) bool {
	for _, kind := range []error{ErrUnauthorized, ErrForbidden, ErrAgentDisabled, ErrNotFound, ErrTLS} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func (w *addressWait) report() {
	reason := w.missing
	if w.last != nil {
		reason = w.last.Error()
	}
	if reason == w.said {
		return
	}
	w.said = reason
	w.sink.Emit(progress.Event{Kind: progress.Wait, Message: "addresses of " + w.node.Name, Error: reason})
}

// describe says why the addresses are not known: what the agent said last and, if that is not enough, what PVE says of
// the VM itself, asked with a little time of its own since ctx is over.
func (w *addressWait) describe(ctx context.Context) error {
	err := w.last
	e := &AddressError{Node: w.node, Reason: w.missing, Err: errors.Join(err, context.Cause(ctx))}
	switch {
	case errors.Is(err, ErrForbidden):
		e.Reason = fmt.Sprintf("the API token may not ask its guest agent: %s", err)
		e.Fix = fmt.Sprintf(
			"give the token VM.Monitor (Proxmox VE 8) or VM.GuestAgent.Audit (Proxmox VE 9) on /vms/%d", w.at.VMID,
		)
	case errors.Is(err, ErrAgentDisabled):
		e.Reason = "the guest agent is not enabled in its configuration"
		e.Fix = fmt.Sprintf("qm set %d --agent enabled=1 on %s, then restart the VM", w.at.VMID, w.at.Hypervisor)
	case errors.Is(err, ErrNotFound):
		e.Reason = fmt.Sprintf("the VM is not there: %s", err)
		e.Fix = "look at the Proxmox task log: it may have been deleted or moved to another hypervisor"
	case w.missing != "":
		e.Fix = "check DHCP on the bridge and the VM's cloud-init log: /var/log/cloud-init.log"
	default:
		w.askVM(ctx, e)
	}
	return e
}

// askVM looks at the VM for an agent that never answered.
func (w *addressWait) askVM(ctx context.Context, e *AddressError) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainCall)
	defer cancel()
	vm, err := w.api.VM(asking, w.at.Hypervisor, w.at.VMID)
	switch {
	case err != nil:
		e.Reason = fmt.Sprintf(
			"its guest agent gave no addresses (%s) and the VM cannot be read: %s", w.lastText(), err,
		)
		e.Fix = "check the hypervisor " + w.at.Hypervisor
	case vm.Status != "running":
		e.Reason = "the VM is " + vm.Status
		e.Fix = fmt.Sprintf(
			"see why with the task log of VM %d on %s, then: qm start %d", vm.VMID, w.at.Hypervisor, vm.VMID,
		)
	case !vm.AgentEnabled:
		e.Reason = "the guest agent is not enabled in its configuration"
		e.Fix = fmt.Sprintf("qm set %d --agent enabled=1 on %s, then restart the VM", vm.VMID, w.at.Hypervisor)
	default:
		e.Reason = fmt.Sprintf("the VM runs but its guest agent did not answer: %s", w.lastText())
		e.Fix = "the image needs qemu-guest-agent installed and started, or more time to boot (--timeout-up): watch its console " +
			console(vm, w.node)
	}
}

// console says how to see what a VM writes: qm terminal wants a serial port.
func console(vm VM, node cluster.Node) string {
	at := placement.Of(node)
	if vm.Serial {
		return fmt.Sprintf("with, on %s: qm terminal %d", at.Hypervisor, at.VMID)
	}
	return "in the web interface of Proxmox VE (it has no serial port for qm terminal)"
}

func (w *addressWait) lastText() string {
	if w.last == nil {
		return "no answer in time"
	}
	return w.last.Error()
}

// distinct refuses an address that two nodes report.
func distinct(nodes cluster.Nodes) error {
	var errs []error
	for _, s := range nodes.Shared() {
		err := fmt.Errorf("%s and %s both report address %s: the template's machine-id was not cleared, so DHCP takes them "+
			"for one machine; run 'truncate -s 0 /etc/machine-id' in the image and make the VMs again", s.First, s.Second, s.Address)
		errs = append(errs, progress.WithNodes(err, s.First, s.Second))
	}
	return errors.Join(errs...)
}
