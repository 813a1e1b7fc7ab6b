package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
)

// TestRelay: what a program may ask for through a relay, with what rights it is asked, and what is always said of the VM.
func TestRelay(t *testing.T) {
	type asked struct{ method, path, auth, cookie, body string }
	var got []asked
	pve := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, asked{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Cookie"), string(body)})
		_, _ = io.WriteString(w, `{"data":null}`)
	}))
	defer pve.Close()
	client, err := api.New(api.Options{Endpoint: pve.URL, Insecure: true, Token: "root@pam!t=11111111-1111-1111-1111-111111111111"})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := client.Relay(api.RelayOptions{
		Password: "secret", Hypervisor: "pve1", VMID: 9001, Source: deploy.VMRef{VMID: 9000, Hypervisor: "pve1"}, PublicKey: "ssh-ed25519 OURS",
		Clone: map[string]string{"description": "ours", "pool": "ci"}, Config: map[string]string{"description": "ours", "tags": "a;b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	relay := httptest.NewServer(handler)
	defer relay.Close()
	do := func(method, path, ticket, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, relay.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if ticket != "" {
			request.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(ticket))
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	if status, _ := do("POST", "/api2/json/access/ticket", "", "username=hive-test%40relay&password=wrong"); status != 401 {
		t.Errorf("a wrong password is answered by %d", status)
	}
	status, text := do("POST", "/api2/json/access/ticket", "", "username=hive-test%40relay&password=secret")
	var login struct{ Data struct{ Ticket string } }
	if err := json.Unmarshal([]byte(text), &login); status != 200 || err != nil || login.Data.Ticket == "" {
		t.Fatalf("login: %d %s", status, text)
	}
	ticket := login.Data.Ticket
	for _, row := range []struct {
		method, path, body string
		status             int
		to                 string            // empty: nobody is asked
		says               map[string]string // the form that Proxmox VE gets
	}{
		{"GET", "/api2/json/cluster/resources", "", 200, "/api2/json/cluster/resources", nil},
		{"GET", "/", "", 404, "", nil},
		{
			"POST", "/api2/json/nodes/pve2/qemu/500/clone", "newid=7&name=x&pool=other&full=1", 200, "/api2/json/nodes/pve1/qemu/9000/clone",
			map[string]string{"newid": "9001", "name": "x", "pool": "ci", "full": "1", "description": "ours"},
		},
		{
			"POST", "/api2/json/nodes/pve1/qemu/9001/config", "description=Packer&cores=2&sshkeys=ssh-rsa%2520THEIRS&delete=tags,cipassword", 200,
			"/api2/json/nodes/pve1/qemu/9001/config",
			map[string]string{
				"description": "ours", "cores": "2", "tags": "a;b", "delete": "cipassword", "sshkeys": "ssh-rsa%20THEIRS%0Assh-ed25519%20OURS%0A",
			},
		},
		{
			"PUT", "/api2/json/nodes/pve1/qemu/9001/config", "name=n&description=", 200, "/api2/json/nodes/pve1/qemu/9001/config",
			map[string]string{"name": "n", "description": "ours", "tags": "a;b"},
		},
		{"POST", "/api2/json/nodes/pve1/qemu/9001/status/start", "", 200, "/api2/json/nodes/pve1/qemu/9001/status/start", map[string]string{}},
		{"DELETE", "/api2/json/nodes/pve1/qemu/9001", "", 200, "/api2/json/nodes/pve1/qemu/9001", nil},
		{"DELETE", "/api2/json/nodes/pve1/qemu/9000", "", 403, "", nil},
		{"DELETE", "/api2/json/nodes/pve1/qemu/90011", "", 403, "", nil},
		{"POST", "/api2/json/nodes/pve2/qemu/9001/config", "cores=1", 403, "", nil},
		{"POST", "/api2/json/nodes/pve1/qemu/9001/../9000/config", "cores=1", 403, "", nil},
		{"POST", "/api2/json/nodes/pve1/qemu", "vmid=9001", 403, "", nil},
		{"POST", "/api2/json/access/users", "userid=me", 403, "", nil},
	} {
		got = nil
		status, text := do(row.method, row.path, ticket, row.body)
		if status != row.status || (row.to == "") != (len(got) == 0) {
			t.Errorf("%s %s: %d %s, and %d requests of Proxmox VE", row.method, row.path, status, text, len(got))
			continue
		}
		if len(got) == 0 {
			continue
		}
		form, _ := url.ParseQuery(got[0].body)
		for name, want := range row.says {
			if form.Get(name) != want {
				t.Errorf("%s %s: %s is %q, not %q", row.method, row.path, name, form.Get(name), want)
			}
		}
		if row.says != nil && len(form) != len(row.says) {
			t.Errorf("%s %s: %v is said, not %v", row.method, row.path, form, row.says)
		}
		if g := got[0]; g.method != row.method || g.path != row.to || g.cookie != "" ||
			g.auth != "PVEAPIToken=root@pam!t=11111111-1111-1111-1111-111111111111" {
			t.Errorf("%s %s is passed on as %+v", row.method, row.path, g)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", relay.URL+"/api2/json/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "PVEAuthCookie="+ticket)
	if response, err := http.DefaultClient.Do(request); err != nil || response.Body.Close() != nil || response.StatusCode != 200 {
		t.Errorf("a ticket in the header Authorization: %v, %v", response, err)
	}
	got = nil
	for _, other := range []string{"", "secre", "PVE:root@pam:1::x"} {
		if status, _ := do("GET", "/api2/json/version", other, ""); status != 401 || len(got) > 0 {
			t.Errorf("the ticket %q is answered by %d", other, status)
		}
	}
}
