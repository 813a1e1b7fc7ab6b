package pve

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what the agent tells of a guest's interfaces, as "name address...".
func told(t *testing.T, c *client) [][]string {
	t.Helper()
	var out struct {
		Result []struct {
			Name      string `json:"name"`
			MAC       string `json:"hardware-address"`
			Addresses []struct {
				Address string `json:"ip-address"`
				Type    string `json:"ip-address-type"`
			} `json:"ip-addresses"`
		} `json:"result"`
	}
	raw, err := json.Marshal(c.ok("GET", "/nodes/pve1/qemu/100/agent/network-get-interfaces", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	var list [][]string
	for _, i := range out.Result {
		row := []string{i.Name}
		for _, a := range i.Addresses {
			row = append(row, a.Type+" "+a.Address)
		}
		list = append(list, row)
	}
	return list
}

func TestGuestsTellStrangeThings(t *testing.T) {
	_, c, machines := startServer(t, Options{})
	c.task("POST", "/nodes/pve1/qemu", url.Values{
		"vmid": {"100"}, "agent": {"1"}, "net0": {"virtio=BC:24:11:00:00:01,bridge=vmbr0"},
		"net1": {"virtio=BC:24:11:00:00:02,bridge=vmbr0"},
	})
	c.task("POST", "/nodes/pve1/qemu/100/status/start", nil)
	plain := [][]string{{"lo", "ipv4 127.0.0.1"}, {"eth0", "ipv4 127.77.0.3"}, {"eth1", "ipv4 127.77.1.3"}}
	if diff := cmp.Diff(plain, told(t, c)); diff != "" {
		t.Fatalf("without a fault (-want +got):\n%s", diff)
	}
	c.ok("POST", "/sim/faults", map[string]any{"path": "/nodes/*/qemu/*/agent/network-get-interfaces", "times": 1, "interfaces": map[string]any{
		"omit": []string{"lo", "eth1"},
		"first": []any{map[string]any{
			"name": "docker0", "mac": "02:42:00:00:00:01", "addresses": []string{"172.17.0.1/16"},
		}},
		"prepend": map[string]any{"eth0": []string{"fe80::1/64"}},
	}})
	want := [][]string{{"docker0", "ipv4 172.17.0.1"}, {"eth0", "ipv6 fe80::1", "ipv4 127.77.0.3"}}
	if diff := cmp.Diff(want, told(t, c)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plain, told(t, c)); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
	c.ok("POST", "/sim/faults", map[string]any{"path": "/nodes/*/qemu/*/agent/", "interfaces": map[string]any{
		"replace": map[string]any{"eth0": []string{"192.0.2.1/24"}, "eth1": []string{}},
	}})
	want = [][]string{{"lo", "ipv4 127.0.0.1"}, {"eth0", "ipv4 192.0.2.1"}, {"eth1"}}
	if diff := cmp.Diff(want, told(t, c)); diff != "" {
		t.Errorf("with other addresses (-want +got):\n%s", diff)
	}
	c.ok("POST", "/sim/vms/100", map[string]any{"renumber": true})
	if diff := cmp.Diff([]string{"100"}, machines.renumbered); diff != "" {
		t.Errorf("renumbered (-want +got):\n%s", diff)
	}
	for path, body := range map[string]map[string]any{
		"/sim/vms/101": {"renumber": true}, "/sim/vms/100": {"power": 1},
	} {
		if a := c.do("POST", path, body); a.Status < 400 {
			t.Errorf("%s %v: %+v", path, body, a)
		}
	}
}
