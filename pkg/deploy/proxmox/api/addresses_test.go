package api

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// guests answers for agents: each call takes the node's next answer, the last one for ever.
type guests struct {
	mu      sync.Mutex
	answers map[int][]guestAnswer
	calls   map[int]int
	vm      VM
	vmErr   error
}

type guestAnswer struct {
	interfaces []Interface
	err        error
}

func (g *guests) Interfaces(ctx context.Context, _ string, vmid int) ([]Interface, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[vmid]++
	list := g.answers[vmid]
	a := list[min(g.calls[vmid], len(list))-1]
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return a.interfaces, a.err
}

func (g *guests) VM(_ context.Context, _ string, vmid int) (VM, error) {
	vm := g.vm
	vm.VMID = vmid
	return vm, g.vmErr
}

func nic(name, mac string, prefixes ...string) Interface {
	i := Interface{Name: name, MAC: mac}
	for _, p := range prefixes {
		i.Prefixes = append(i.Prefixes, netip.MustParsePrefix(p))
	}
	return i
}

func twoNodes() cluster.Nodes {
	return cluster.Nodes{
		{Name: "ci-1", Index: 1, Placement: placement.VM{VMID: 201, Hypervisor: "pve1", ManagementMAC: "BC:24:11:00:00:01", DataMAC: "BC:24:11:00:00:02"}.Document()},
		{Name: "ci-2", Index: 2, Placement: placement.VM{VMID: 202, Hypervisor: "pve2", ManagementMAC: "BC:24:11:00:00:03", DataMAC: "BC:24:11:00:00:04"}.Document()},
	}
}

var (
	lo     = nic("lo", "00:00:00:00:00:00", "127.0.0.1/8", "::1/128")
	docker = nic("docker0", "02:42:00:00:00:01", "172.17.0.1/16")
	guest2 = guestAnswer{interfaces: []Interface{
		lo, nic("eth0", "BC:24:11:00:00:03", "10.0.0.2/24"), nic("eth1", "BC:24:11:00:00:04", "10.1.0.2/24"),
	}}
	booting = guestAnswer{err: &APIError{
		Method: "GET", Path: "/agent", Status: 500, Reason: "QEMU guest agent is not running",
	}}
)

func TestWaitAddressesMatchesByMAC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := guestAnswer{interfaces: []Interface{
			docker, nic("eth0", "BC:24:11:00:00:01", "fe80::1/64", "10.0.0.1/24"),
		}}
		done := guestAnswer{interfaces: []Interface{
			docker, nic("eth1", "bc:24:11:00:00:02", "fe80::2/64", "fd00::2/64", "10.1.0.1/24"),
			nic("eth0", "BC:24:11:00:00:01", "169.254.3.4/16", "10.0.0.1/24"), lo,
		}}
		g := &guests{calls: map[int]int{}, answers: map[int][]guestAnswer{
			201: {booting, booting, late, done}, 202: {guest2},
		}}
		var seen progress.Memory
		start := time.Now()
		nodes, err := WaitAddresses(t.Context(), g, twoNodes(), &seen)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{
			nodes[0].Management.String(), nodes[0].Data.String(), nodes[1].Management.String(), nodes[1].Data.String(),
		}
		if strings.Join(got, " ") != "10.0.0.1 10.1.0.1 10.0.0.2 10.1.0.2" {
			t.Errorf("got %v", got)
		}
		if g.calls[202] != 1 {
			t.Errorf("a node that is ready at once was asked %d times", g.calls[202])
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
		var waits []string
		for _, e := range seen.Events() {
			if e.Kind == progress.Wait {
				waits = append(waits, e.Node+": "+e.Error)
			}
		}
		want := "ci-1: GET /agent: 500 QEMU guest agent is not running | ci-1: the guest has no data NIC with MAC BC:24:11:00:00:02"
		if strings.Join(waits, " | ") != want {
			t.Errorf("waits: %q", waits)
		}
	})
}

func TestAnAddressThatIsKnownStays(t *testing.T) {
	gained := []Interface{nic("eth0", "BC:24:11:00:00:01", "10.0.0.200/24", "10.0.0.1/24")}
	for known, want := range map[string]string{"10.0.0.1": "10.0.0.1", "10.0.0.7": "10.0.0.200", "": "10.0.0.200"} {
		addr, _ := netip.ParseAddr(known)
		if got := AddressOf(gained, "bc:24:11:00:00:01", addr); got.String() != want {
			t.Errorf("known %q: got %s, want %s", known, got, want)
		}
	}
	six := []Interface{nic("eth0", "BC:24:11:00:00:01", "fd00::1/64", "10.0.0.1/24")}
	if got := AddressOf(six, "BC:24:11:00:00:01", netip.MustParseAddr("fd00::1")); got.String() != "10.0.0.1" {
		t.Errorf("an IPv6 address stays where there is an IPv4 address: %s", got)
	}
}

// Of several interfaces with one MAC, which bridges make, one is right.
func TestInterfacesWithOneMAC(t *testing.T) {
	const mac = "BC:24:11:00:00:01"
	on := func(name string, addresses ...string) Interface {
		i := Interface{Name: name, MAC: strings.ToLower(mac)}
		for _, a := range addresses {
			i.Prefixes = append(i.Prefixes, netip.MustParsePrefix(a))
		}
		return i
	}
	docker, eth, br := on("docker0", "172.17.0.1/16"), on("eth0", "10.0.0.5/24"), on("br0", "10.0.0.9/24")
	for _, tc := range []struct {
		name       string
		interfaces []Interface
		known      string
		want       string // an address, or why there is none
	}{
		{"a bridge has the NIC's address", []Interface{on("eth0"), br}, "", "10.0.0.9"},
		{"a bridge, listed first", []Interface{br, on("eth0", "fe80::1/64")}, "", "10.0.0.9"},
		{"Docker's bridge, listed first", []Interface{docker, eth}, "", "10.0.0.5"},
		{"Docker's bridge above a NIC without address", []Interface{on("eth0"), docker}, "", "the data NIC eth0 (BC:24:11:00:00:01) has no address"},
		{"a network of Docker's", []Interface{on("br-0123456789ab", "172.18.0.1/16"), eth}, "", "10.0.0.5"},
		{"a bridge of the system's", []Interface{on("eth0"), on("br-ex", "10.0.0.9/24")}, "", "10.0.0.9"},
		{"a network card before what is above it", []Interface{br, eth}, "", "10.0.0.5"},
		{"what is known stays, on whichever it is", []Interface{eth, br}, "10.0.0.9", "10.0.0.9"},
		{"what is known is gone: one of its network", []Interface{on("eth0", "192.168.7.1/24"), br}, "10.0.0.7", "10.0.0.9"},
		{"what is known was Docker's", []Interface{docker, eth}, "172.17.0.1", "10.0.0.5"},
		{"none has one", []Interface{on("eth0"), on("br0")}, "", "the data NIC eth0 and br0 (BC:24:11:00:00:01) has no address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			known, _ := netip.ParseAddr(tc.known)
			addr, gap := pick(tc.interfaces, "data", mac, known)
			if got := cmp.Or(gap, addr.String()); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnIPv6AddressIsTakenAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		six := guestAnswer{interfaces: []Interface{
			nic("eth0", "BC:24:11:00:00:01", "2001:db8::1/64"), nic("eth1", "BC:24:11:00:00:02", "10.1.0.1/24"),
		}}
		g := &guests{calls: map[int]int{}, answers: map[int][]guestAnswer{201: {six}}}
		start := time.Now()
		nodes, err := WaitAddresses(t.Context(), g, twoNodes()[:1], progress.Discard)
		if err != nil || nodes[0].Management.String() != "2001:db8::1" {
			t.Fatalf("got %v %v", nodes, err)
		}
		if took := time.Since(start); took < ipv4Grace || took > 2*ipv4Grace {
			t.Errorf("took %s", took)
		}
	})
}

func TestWhyAnAddressIsMissing(t *testing.T) {
	half := guestAnswer{interfaces: []Interface{
		nic("eth0", "BC:24:11:00:00:01", "10.0.0.1/24"), nic("eth1", "BC:24:11:00:00:02", "fe80::1/64"),
	}}
	api := func(status int, reason string) guestAnswer {
		return guestAnswer{err: &APIError{Status: status, Reason: reason}}
	}
	running := VM{Status: "running", AgentEnabled: true}
	serial := VM{Status: "running", AgentEnabled: true, Serial: true}
	for _, tc := range []struct {
		name      string
		answer    guestAnswer
		vm        VM
		reason    string
		fix       string
		is        error
		immediate bool
	}{
		{"agent not running", booting, running, "its guest agent did not answer: ", "qemu-guest-agent", ErrAgentNotRunning, false},
		{"without a serial port", booting, running, "its guest agent did not answer: ", "watch its console in the web interface", ErrAgentNotRunning, false},
		{"with a serial port", booting, serial, "its guest agent did not answer: ", "watch its console with, on pve1: qm terminal 201", ErrAgentNotRunning, false},
		{"agent not enabled, found out late", booting, VM{Status: "running"}, "not enabled", "qm set 201 --agent enabled=1", ErrAgentNotRunning, false},
		{"VM stopped", api(500, "VM 201 is not running"), VM{Status: "stopped"}, "the VM is stopped", "qm start 201", ErrNotRunning, false},
		{"second NIC without address", half, running, "the data NIC eth1 (BC:24:11:00:00:02) has no address", "DHCP", context.DeadlineExceeded, false},
		{"agent not configured", api(500, "No QEMU guest agent configured"), running, "not enabled", "qm set 201", ErrAgentDisabled, true},
		{"privilege", api(403, "Permission check failed (/vms/201, VM.Monitor)"), running, "VM.Monitor", "VM.GuestAgent.Audit (Proxmox VE 9)", ErrForbidden, true},
		{"VM gone", api(500, "Configuration file 'nodes/pve1/qemu-server/201.conf' does not exist"), running, "the VM is not there", "task log", ErrNotFound, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &guests{
					calls: map[int]int{}, answers: map[int][]guestAnswer{201: {tc.answer}, 202: {guest2}}, vm: tc.vm,
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				nodes, err := WaitAddresses(ctx, g, twoNodes(), progress.Discard)
				failed, ok := errors.AsType[*AddressError](err)
				if !ok || failed.Node.Name != "ci-1" || !strings.Contains(failed.Reason, tc.reason) ||
					!strings.Contains(failed.Hint(), tc.fix) || !errors.Is(err, tc.is) {
					t.Errorf("got %v, fix %q", err, failed.Hint())
				}
				if took := time.Since(start); tc.immediate != (took < time.Second) {
					t.Errorf("took %s", took)
				}
				if nodes[1].Management.String() != "10.0.0.2" {
					t.Errorf("the other node lost its address: %+v", nodes[1])
				}
			})
		})
	}
}

func TestTwoNodesWithOneAddress(t *testing.T) {
	same := guestAnswer{interfaces: []Interface{
		nic("eth0", "BC:24:11:00:00:01", "10.0.0.2/24"), nic("eth1", "BC:24:11:00:00:02", "10.1.0.1/24"),
	}}
	g := &guests{calls: map[int]int{}, answers: map[int][]guestAnswer{201: {same}, 202: {guest2}}}
	_, err := WaitAddresses(t.Context(), g, twoNodes(), progress.Discard)
	for _, part := range []string{"ci-1", "ci-2", "10.0.0.2", "machine-id was not cleared"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}
