package pve

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// flowRecord is one line of the recorded traffic of bpg/proxmox and go-proxmox.
type flowRecord struct {
	Seq                                int
	Kind, Op                           string
	Method, Path, Query, Node, Command string
	Raw                                string `json:"raw_body"`
	Stdin, Output                      string
	Status, Exit                       int
	Headers                            map[string]string
	Response                           struct{ Data any }
}

// TestRecordedFlows replays what the real clients sent, in its order, and wants what they got: every status, every task
// and every command's exit status.
func TestRecordedFlows(t *testing.T) {
	dir := os.Getenv("HIVE_TEST_RESEARCH_DIR")
	if dir == "" {
		t.Skip("HIVE_TEST_RESEARCH_DIR is unset: the recorded flows are not here")
	}
	for _, flow := range []string{
		"head-a", "head-b-clone-samenode", "head-b-clone-xnode-local", "head-c-template", "head-waitforip-disabled",
	} {
		t.Run(flow, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, "bpg-proxmox", "flows", flow+"-0*.jsonl"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no flows: %v", err)
			}
			_, c, _ := startServer(t, Options{})
			for i, vmid := range []string{"9000", "9001", "9002", "9003"} {
				if flow == "head-c-template" {
					break
				}
				base := "/nodes/pve" + itoa(max(i, 1)) + "/qemu"
				c.task(
					"POST", base,
					"vmid="+vmid+"&name=tpl&onboot=1&scsihw=virtio-scsi-pci&cpu=x86-64-v2-AES&tags=template&ostype=l26&sockets=1&description=t&cores=2&memory=2048&agent=enabled%3D1&virtio0=local-lvm:32&ide2=local-lvm:cloudinit&net0=virtio,bridge%3Dvmbr0&net1=virtio,bridge%3Dvmbr1",
				)
				c.task("POST", base+"/"+vmid+"/template", nil)
			}
			f := &flowReplay{t: t, c: c, upids: map[string]string{}, shells: map[string]*ssh.Client{}}
			for _, file := range files {
				f.file(file)
			}
		})
	}
}

type flowReplay struct {
	t      *testing.T
	c      *client
	upids  map[string]string // recorded to ours
	shells map[string]*ssh.Client
}

func (f *flowReplay) file(name string) {
	f.t.Helper()
	in, err := os.Open(name)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 4*mib)
	for sc.Scan() {
		var r flowRecord
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			f.t.Fatal(err)
		}
		switch {
		case r.Kind == "http" && !strings.Contains(r.Path, "/tasks/"):
			f.request(filepath.Base(name), r)
		case r.Kind == "ssh" && r.Op == "exec":
			f.command(filepath.Base(name), r)
		}
	}
}

func (f *flowReplay) request(file string, r flowRecord) {
	f.t.Helper()
	path := r.Path
	if r.Query != "" {
		path += "?" + r.Query
	}
	var body any
	if r.Raw != "" {
		body = strings.ReplaceAll(r.Raw, "local%3Aiso%2Fdebian-12-genericcloud-amd64.img", SeedImage)
	}
	a := f.c.send(r.Method, path, body)
	if a.Status != r.Status {
		f.t.Errorf(
			"%s %d: %s %s %s\n  = %d %s %v, want %d", file, r.Seq, r.Method, path, r.Raw, a.Status, a.Reason, a.Errors,
			r.Status,
		)
		return
	}
	if upid, ok := a.Data.(string); ok && strings.HasPrefix(upid, "UPID:") {
		if exit := f.c.wait(upid); exit != "OK" {
			f.t.Errorf("%s %d: %s %s: task %s", file, r.Seq, r.Method, path, exit)
		}
	}
	f.shape(file, r, a)
}

// shape wants every key that the recorded answer has, and of the same JSON type.
func (f *flowReplay) shape(file string, r flowRecord, a answer) {
	f.t.Helper()
	want, ok := r.Response.Data.(map[string]any)
	got, ok2 := a.Data.(map[string]any)
	if !ok || !ok2 {
		return
	}
	for k, v := range want {
		g, there := got[k]
		if k == "running-machine" || k == "running-qemu" {
			continue // only with Proxmox's own QEMU
		}
		if !there {
			if k != "template" && k != "balloon" && k != "parent" {
				f.t.Errorf("%s %d: %s lacks %q (%v)", file, r.Seq, r.Path, k, v)
			}
			continue
		}
		if jsonType(g) != jsonType(v) {
			f.t.Errorf("%s %d: %s: %q is %v, recorded %v", file, r.Seq, r.Path, k, g, v)
		}
	}
}

func jsonType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

func (f *flowReplay) command(file string, r flowRecord) {
	f.t.Helper()
	if f.shells[r.Node] == nil {
		f.shells[r.Node] = f.c.login(int(r.Node[len(r.Node)-1]-'1'), "root")
	}
	out, errOut, rc := run(f.t, f.shells[r.Node], r.Command, r.Stdin)
	if out != r.Output || rc != r.Exit {
		f.t.Errorf("%s %d: %s\n  = %q %q %d, want %q %d", file, r.Seq, r.Command, out, errOut, rc, r.Output, r.Exit)
	}
}
