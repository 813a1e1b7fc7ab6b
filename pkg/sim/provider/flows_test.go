package provider

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	vmKind   = "proxmox_virtual_environment_vm"
	fileKind = "proxmox_virtual_environment_file"

	testKey      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMEWWSQh8auB0rU7PIVCqfRW/l2ccmFNffLSbnfF6zRP user@example box"
	testSnippet  = "#cloud-config\npackages:\n  - qemu-guest-agent\nruncmd:\n  - systemctl start qemu-guest-agent\n"
	testDiskSize = 32
)

func list(items ...object) []any {
	out := []any{}
	for _, i := range items {
		out = append(out, i)
	}
	return out
}

// snippet and machine are the resources of the recorded module.
func snippet(n int, node string) object {
	return object{
		"content_type": "snippets", "datastore_id": "local", "node_name": node,
		"source_raw": list(object{"data": testSnippet, "file_name": fmt.Sprintf("env1-%d-cloud-config.yaml", n)}),
	}
}

func machine(n int, node string, change ...object) object {
	dhcp := object{"ipv4": list(object{"address": "dhcp"})}
	m := object{
		"name": fmt.Sprintf("env1-%d", n), "description": "Managed by Terraform", "node_name": node,
		"tags": []any{"env1", "spinifex", "terraform"},
		"initialization": list(object{
			"datastore_id": "local", "vendor_data_file_id": fmt.Sprintf("local:snippets/env1-%d-cloud-config.yaml", n),
			"user_account": list(object{"username": "tf-user", "keys": []any{testKey}}),
			"ip_config":    list(dhcp, dhcp),
		}),
		"cpu":    list(object{"cores": 4, "type": "host"}),
		"memory": list(object{"dedicated": 16384}),
		"agent":  list(object{"enabled": true}),
		"network_device": list(
			object{"bridge": "vmbr0", "enabled": true, "firewall": false, "model": "virtio"},
			object{"bridge": "vmbr1", "enabled": true, "firewall": false, "model": "virtio"},
		),
		"disk": list(imageDisk("local")),
	}
	for _, c := range change {
		for k, v := range c {
			m[k] = v
		}
	}
	return m
}

func imageDisk(store string) object {
	return object{
		"file_id": "local:iso/debian-12-genericcloud-amd64.img", "datastore_id": store,
		"interface": "virtio0", "iothread": true, "discard": "on", "size": testDiskSize,
	}
}

func noWait() object {
	return object{
		"stop_on_destroy": true, "on_boot": false, "reboot_after_update": false,
		"agent": list(object{"enabled": true, "wait_for_ip": list(object{"disabled": true})}),
	}
}

func want(t *testing.T, what string, texts []string, wanted ...string) {
	t.Helper()
	if len(texts) != len(wanted) {
		t.Fatalf("%s gave %q, want %d messages", what, texts, len(wanted))
	}
	for i := range wanted {
		if !strings.Contains(texts[i], wanted[i]) {
			t.Errorf("%s gave\n%s\nwant\n%s", what, texts[i], wanted[i])
		}
	}
}

// same compares all requests of a recording of one VM in their order.
func same(t *testing.T, s *stage, flow []record) {
	t.Helper()
	if diff := cmp.Diff(lines(flow), s.seen); diff != "" {
		t.Errorf("sent otherwise than recorded (-recorded +sent):\n%s", diff)
	}
}

// sameEach compares the requests of a recording of several VMs VM by VM.
func sameEach(t *testing.T, s *stage, flow []record) {
	t.Helper()
	if diff := cmp.Diff(group(lines(flow)), group(s.seen)); diff != "" {
		t.Errorf("sent otherwise than recorded (-recorded +sent):\n%s", diff)
	}
}

// order is the order in which the recorded VMs got their ids.
func order(flow []record) (names []int) {
	for _, r := range flow {
		_, after, ok := strings.Cut(r.Body, "&name=env1-")
		if r.Method == "POST" && ok {
			names = append(names, int(after[0]-'0'))
		}
	}
	return names
}

func node(n int) string { return fmt.Sprintf("pve%d", (n-1)%3+1) }

func apply(t *testing.T, d *driver, flow []record, change func(n int) object) (all []instance) {
	t.Helper()
	for _, n := range order(flow) {
		f, texts := d.create(fileKind, snippet(n, node(n)))
		want(t, "creating the snippet", texts)
		m, texts := d.create(vmKind, machine(n, node(n), change(n)))
		want(t, "creating the VM", texts)
		all = append(all, m, f)
	}
	return all
}

func TestSendsWhatTheRealProviderSendsForImages(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "image-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	all := apply(t, d, flow, func(int) object { return nil })
	sameEach(t, s, flow)

	state := d.decode(vmKind, all[0].value)
	if got := state["ipv4_addresses"].([]any)[1].([]any)[0]; !strings.HasPrefix(got.(string), "10.10.") {
		t.Errorf("the address of the first NIC is %v, want it from the guest agent", got)
	}
	if got := state["mac_addresses"].([]any)[1].(string); got != strings.ToUpper(got) || got == "" {
		t.Errorf("the MAC %q is not upper-cased", got)
	}
	unchanged(t, d, all[0], machine(order(flow)[0], node(order(flow)[0])))
}

// unchanged plans the same settings again.
func unchanged(t *testing.T, d *driver, i instance, config object) {
	t.Helper()
	planned, _ := d.plan(i, config)
	want(t, "planning again", diagnostics(planned.Diagnostics))
	if diff := cmp.Diff(d.decode(i.kind, i.value), d.decode(i.kind, planned.PlannedState)); diff != "" {
		t.Errorf("an unchanged resource has a difference:\n%s", diff)
	}
}

func TestSendsWhatTheRealProviderSendsForClones(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "clone-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	clone := func(n int) object {
		return object{"disk": nil, "clone": list(object{"vm_id": 9000 + n, "node_name": node(n), "full": true})}
	}
	all := apply(t, d, flow, clone)
	sameEach(t, s, flow)
	n := order(flow)[0]
	unchanged(t, d, all[0], machine(n, node(n), clone(n)))
}

func TestAsksNoAgentWhereTheWaitIsDisabled(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "nowait-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	all := apply(t, d, flow, func(int) object { return noWait() })
	sameEach(t, s, flow)
	if got := d.decode(vmKind, all[0].value)["mac_addresses"]; len(got.([]any)) != 0 {
		t.Errorf("mac_addresses is %v, want it empty as nothing was asked", got)
	}

	flow = readFlow(t, "nowait-refresh")
	s.play(flow)
	for i := range all {
		var texts []string
		all[i], texts = d.read(all[i])
		want(t, "reading", texts)
	}
	sameEach(t, s, flow)
	n := order(readFlow(t, "nowait-apply"))[0]
	unchanged(t, d, all[0], machine(n, node(n), noWait()))

	flow = readFlow(t, "nowait-destroy")
	s.play(flow)
	for i := range all {
		all[i], _ = d.read(all[i])
	}
	for _, i := range all {
		want(t, "destroying", d.destroy(i))
	}
	sameEach(t, s, flow)
}

func TestMakesTemplates(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "template-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, "")
	config := object{
		"name": "hive-template", "node_name": "pve1", "vm_id": 9000, "template": true, "started": false,
		"tags": []any{"template"},
		"cpu":  list(object{"cores": 2, "type": "host"}), "memory": list(object{"dedicated": 2048}),
		"agent":          list(object{"enabled": true}),
		"network_device": list(object{"bridge": "vmbr0", "enabled": true, "firewall": false, "model": "virtio"}),
		"disk":           list(imageDisk("local-lvm")),
		"initialization": list(object{
			"datastore_id": "local-lvm", "ip_config": list(object{"ipv4": list(object{"address": "dhcp"})}),
		}),
	}
	tpl, texts := d.create(vmKind, config)
	want(t, "creating the template", texts)
	same(t, s, flow)

	flow = readFlow(t, "template-refresh")
	s.play(flow)
	tpl, texts = d.read(tpl)
	want(t, "reading the template", texts)
	same(t, s, flow)
	unchanged(t, d, tpl, config)

	flow = readFlow(t, "template-destroy")
	s.play(flow)
	tpl, _ = d.read(tpl)
	want(t, "destroying the template", d.destroy(tpl))
	same(t, s, flow)
}

func TestImportsWithoutSSH(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "importfrom-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	for i, image := range []string{"dl.qcow2", "debian-12-genericcloud-amd64.qcow2"} {
		m, texts := d.create(vmKind, object{
			"name": fmt.Sprintf("imp-%d", i), "node_name": "pve1", "stop_on_destroy": true,
			"cpu": list(object{"cores": 2, "type": "host"}), "memory": list(object{"dedicated": 2048}),
			"agent": list(object{
				"enabled": true, "timeout": "60s", "wait_for_ip": list(object{"ipv4": true}),
			}),
			"network_device": list(object{"bridge": "vmbr0", "enabled": true, "firewall": false, "model": "virtio"}),
			"disk": list(object{
				"import_from": "local:import/" + image, "datastore_id": "local-lvm", "interface": "virtio0",
				"iothread": true, "discard": "on", "size": testDiskSize,
			}),
			"initialization": list(object{
				"datastore_id": "local-lvm",
				"user_account": list(object{"username": "tf-user", "keys": []any{testKey}}),
				"ip_config":    list(object{"ipv4": list(object{"address": "dhcp"})}),
			}),
		})
		want(t, "creating the VM", texts)
		if got := d.decode(vmKind, m.value)["disk"].([]any)[0].(object)["import_from"]; got != "local:import/"+image {
			t.Errorf("import_from is %v in the state, want it kept", got)
		}
	}
	sameEach(t, s, flow)
}

// A create call for an id that is taken is answered with 500 twice; the second
// "already exists" counts as success, and the foreign VM is taken over.
func TestAdoptsTheVMOfATakenID(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "vmid-taken"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, "")
	f, texts := d.create(fileKind, snippet(1, "pve1"))
	want(t, "creating the snippet", texts)
	m, texts := d.create(vmKind, machine(1, "pve1", object{"vm_id": 100}))
	want(t, "creating the VM", texts)
	same(t, s, flow)

	flow = readFlow(t, "vmid-taken-destroy")
	s.play(flow)
	want(t, "destroying the VM", d.destroy(m))
	want(t, "destroying the snippet", d.destroy(f))
	same(t, s, flow)
}

func TestFailsAsTheRealProviderFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, vm []string
		change   object
	}{
		"task-failed": {vm: []string{"Error: VM create: task \"UPID:pve1:00001004:00E2DFEC:6B09F2E1:mock::terraform@pve!provider:\" failed to complete with exit code: " +
			"unable to create VM 100 - lvcreate failed: insufficient free space\ntask log:\n  mock log line 1\n  some detail about the failure\n" +
			"  TASK unable to create VM 100 - lvcreate failed: insufficient free space"}},
		"forbidden-create": {vm: []string{"Error: VM create: All attempts fail:\n#1: error creating VM: received an HTTP 403 response - Reason: " +
			"Permission check failed (/vms/100, VM.Allocate)"}},
		"start-failed": {vm: []string{"Error: VM start: task \"UPID:pve1:00001028:00E30088:6B09F334:mock::terraform@pve!provider:\" failed to complete with exit code: " +
			"start failed: QEMU exited with code 1\ntask log:\n  mock log line 1"}},
		"forbidden-agent": {vm: []string{"Warning: error waiting for network interfaces from QEMU agent: error waiting for VM network interfaces: " +
			"error retrieving VM network interfaces from agent: received an HTTP 403 response - Reason: Permission check failed (/vms/100, VM.Monitor)"}},
		"missing-storage": {
			change: object{"disk": list(imageDisk("nope"))},
			vm: []string{
				"Error: creating custom disk: storage 'nope' does not exist\n400 Parameter verification failed.",
			},
		},
		"snippets-off": {file: []string{`Error: failed to read file from "local:snippets/env1-1-cloud-config.yaml"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flow, s := readFlow(t, name), newStage(t)
			s.play(flow)
			d := newDriver(t, s, lastID(flow))
			_, texts := d.create(fileKind, snippet(1, "pve1"))
			want(t, "creating the snippet", texts, c.file...)
			if c.file == nil {
				_, texts = d.create(vmKind, machine(1, "pve1", c.change))
				want(t, "creating the VM", texts, c.vm...)
			}
			same(t, s, flow)
		})
	}
}

// existing is VM 100 and its snippet in a state, with the settings of machine.
func existing(t *testing.T, s *stage) (d *driver, m, f instance) {
	t.Helper()
	flow := readFlow(t, "nowait-apply")
	s.play(flow)
	d = newDriver(t, s, lastID(flow))
	all := apply(t, d, flow, func(int) object { return noWait() })
	state := d.decode(vmKind, all[0].value)
	state["stop_on_destroy"], state["reboot_after_update"], state["on_boot"] = false, true, true
	state["agent"].([]any)[0].(object)["wait_for_ip"] = []any{}
	all[0].value = d.encode(d.schemas[vmKind], state)
	return d, all[0], all[1]
}

func TestStartsAVMThatWasStoppedOutside(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "stopped-apply"), newStage(t)
	d, m, f := existing(t, s)
	s.play(flow)
	_, texts := d.read(f)
	want(t, "reading the snippet", texts)
	m, texts = d.read(m)
	want(t, "reading the VM", texts)
	if d.decode(vmKind, m.value)["started"] != false {
		t.Error("the stopped VM is read as started")
	}
	_, texts = d.apply(m, machine(1, "pve1"))
	want(t, "applying", texts)
	same(t, s, flow)
}

func TestDoesNotDestroyALockedVM(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "destroy-locked"), newStage(t)
	d, m, f := existing(t, s)
	s.play(flow)
	_, texts := d.read(f)
	want(t, "reading the snippet", texts)
	m, texts = d.read(m)
	want(t, "reading the VM", texts)
	want(t, "destroying", d.destroy(m),
		"Error: VM shutdown: error shutting down VM: received an HTTP 500 response - Reason: VM is locked (backup)")
	same(t, s, flow)
}

func TestReplacesOnlyForWhatTheRealProviderReplaces(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "nowait-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	all := apply(t, d, flow, func(int) object { return noWait() })
	n := order(flow)[0]
	disk := func(image string, size int) object {
		b := imageDisk("local")
		b["file_id"], b["size"] = image, size
		return object{"disk": list(b)}
	}
	image := imageDisk("local")["file_id"].(string)
	vendor := func(file string) object {
		m := machine(n, node(n))
		m["initialization"].([]any)[0].(object)["vendor_data_file_id"] = file
		return object{"initialization": m["initialization"]}
	}
	for name, c := range map[string]struct {
		change  object
		replace bool
	}{
		"nothing": {nil, false},
		"id":      {object{"vm_id": 199}, true},
		"node":    {object{"node_name": "pve9"}, true},
		"migrate": {object{"node_name": "pve9", "migrate": true}, false},
		"image":   {disk("local:iso/x.img", 32), true},
		"size":    {disk(image, 64), false},
		"memory":  {object{"memory": list(object{"dedicated": 8192})}, false},
		"tags":    {object{"tags": []any{"terraform", "env1", "spinifex"}}, false},
		"vendor":  {vendor("local:snippets/other.yaml"), true},
		"clone":   {object{"clone": list(object{"vm_id": 9000})}, true},
	} {
		planned, _ := d.plan(all[0], machine(n, node(n), noWait(), c.change))
		want(t, name, diagnostics(planned.Diagnostics))
		if got := len(planned.RequiresReplace) > 0; got != c.replace {
			t.Errorf("%s: replaced is %v (%v), want %v", name, got, planned.RequiresReplace, c.replace)
		}
	}
	changed := snippet(n, node(n))
	changed["source_raw"].([]any)[0].(object)["data"] = "#cloud-config\n"
	if planned, _ := d.plan(all[1], changed); len(planned.RequiresReplace) == 0 {
		t.Error("a changed snippet is not replaced")
	}
	changed = snippet(n, node(n))
	changed["timeout_upload"] = 60
	if planned, _ := d.plan(all[1], changed); len(planned.RequiresReplace) != 0 {
		t.Error("a changed timeout replaces the snippet")
	}
}

func TestRefusesBadSettings(t *testing.T) {
	t.Parallel()
	d := newDriver(t, newStage(t), "")
	for name, c := range map[string]struct{ key, text string }{
		"name":    {"name", "must be a valid DNS name"},
		"vm_id":   {"vm_id", "expected vm_id to be in the range (100 - 2147483647), got 99"},
		"agent":   {"agent", "expected value of timeout to be a duration - got: soon"},
		"disk":    {"disk", "to be a valid file identifier"},
		"machine": {"machine", "must be a valid machine type"},
	} {
		bad := map[string]any{
			"name": "a_b", "vm_id": 99, "machine": "pc-9", "agent": list(object{"timeout": "soon"}),
			"disk": list(object{"interface": "virtio0", "file_id": "nostore"}),
		}
		res, err := d.server.ValidateResourceConfig(
			d.ctx, validateRequest(d, machine(1, "pve1", object{c.key: bad[c.key]})),
		)
		if err != nil {
			t.Fatal(err)
		}
		texts := strings.Join(diagnostics(res.Diagnostics), "\n")
		if !strings.Contains(texts, "Error: ") || !strings.Contains(texts, c.text) {
			t.Errorf("%s: %s, want %q", name, texts, c.text)
		}
	}
}

// More memory needs a restart, which reboot_after_update = false forbids: the
// setting is sent, the VM is left running and a warning says so.
func TestChangesMemoryWithoutARestart(t *testing.T) {
	t.Parallel()
	flow, s := readFlow(t, "nowait-apply"), newStage(t)
	s.play(flow)
	d := newDriver(t, s, lastID(flow))
	all := apply(t, d, flow, func(int) object { return noWait() })
	refresh := readFlow(t, "nowait-refresh")
	s.play(append(append(refresh, refresh...), append(refresh, record{
		Kind: "http", Method: "PUT", Path: "/api2/json/nodes/pve1/qemu/100/config", Status: 200,
		Response: []byte(`{"data":null}`),
	})...))
	_, texts := d.apply(all[0], machine(1, "pve1", noWait(), object{"memory": list(object{"dedicated": 32768})}))
	want(t, "applying", texts, "Warning: a reboot is required to apply configuration changes")
	wanted := []string{
		"GET /nodes/pve1/qemu/100/config",
		"PUT /nodes/pve1/qemu/100/config balloon=0&memory=32768&name=env1-1",
		"GET /nodes/pve1/qemu/100/status/current",
		"GET /nodes/pve1/qemu/100/status/current",
		"GET /cluster/resources?type=vm",
		"GET /nodes/pve1/qemu/100/config",
		"GET /nodes/pve1/qemu/100/status/current",
		"GET /pools",
	}
	if diff := cmp.Diff(wanted, s.seen); diff != "" {
		t.Errorf("(-want +sent):\n%s", diff)
	}
}
