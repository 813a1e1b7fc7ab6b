package provision

import (
	"strings"
	"testing"

	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

// The texts are those of bpg/proxmox 0.111 and PVE, as recorded.
func TestKnownErrors(t *testing.T) {
	tests := []struct{ name, summary, detail, message, hint string }{
		{
			"bad token",
			"error listing files from datastore local: received an HTTP 401 response - Reason: invalid token value!",
			"",
			"error listing files from datastore local: HTTP 401 invalid token value!", "PROXMOX_VE_API_TOKEN",
		},
		{
			"missing privilege",
			"error listing files from datastore local: received an HTTP 403 response - Reason: Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)",
			"",
			"error listing files from datastore local: HTTP 403 Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)",
			"lacks Datastore.Audit|Datastore.AllocateSpace on /storage/local",
		},
		{
			"hypervisor down",
			"error listing files from datastore local: received an HTTP 595 response - Reason: No route to host", "",
			"error listing files from datastore local: HTTP 595 No route to host", "hypervisor is down",
		},
		{"no snippets", `failed to read file from "local:snippets/a-1-vendor.yaml"`, "", `failed to read file from "local:snippets/a-1-vendor.yaml"`, "pvesm set local --content"},
		{
			"missing image",
			"creating custom disk: qemu-img: Could not open '/var/lib/vz/template/iso/nope.img': Could not open '/var/lib/vz/template/iso/nope.img': No such file or directory\n400 Parameter verification failed.",
			"",
			"creating custom disk: qemu-img: Could not open '/var/lib/vz/template/iso/nope.img': Could not open '/var/lib/vz/template/iso/nope.img': No such file or directory",
			"the image /var/lib/vz/template/iso/nope.img is not on that hypervisor",
		},
		{
			"missing storage",
			"creating custom disk: storage 'nope' does not exist\n400 Parameter verification failed.", "",
			"creating custom disk: storage 'nope' does not exist", "no storage nope",
		},
		{
			"missing image on PVE 8.4",
			"creating custom disk: /var/lib/vz/template/iso/none.img: non-existent or non-regular file\n400 Parameter verification failed.\nvirtio0: invalid format - format error\nqm set <vmid> [OPTIONS]",
			"",
			"creating custom disk: /var/lib/vz/template/iso/none.img: non-existent or non-regular file",
			"the image /var/lib/vz/template/iso/none.img is not on",
		},
		{
			"parameter refused", "VM create",
			"received an HTTP 400 response - Reason: Parameter verification failed. (cores: value must have a maximum value of 128)",
			"VM create: HTTP 400 Parameter verification failed. (cores: value must have a maximum value of 128)", "",
		},
		{
			"taken id", "VM create",
			"All attempts fail:\n#1: error creating VM: received an HTTP 500 response - Reason: unable to create VM 103 - VM 103 already exists on node 'pve1'",
			"VM create: error creating VM: HTTP 500 unable to create VM 103 - VM 103 already exists on node 'pve1'",
			"VM id is taken",
		},
		{
			"no space", "VM create",
			"task \"UPID:pve1:00001004:00E2DFEC:6B09F2E1:qmcreate:100:terraform@pve!provider:\"\nfailed to complete with exit code: unable to create VM 100 - lvcreate failed:\ninsufficient free space\ntask log:\n  some detail",
			"VM create: unable to create VM 100 - lvcreate failed: insufficient free space", "storage is full",
		},
		{
			"locked", "VM shutdown",
			"error shutting down VM: received an HTTP 500 response - Reason: VM is locked\n(backup)",
			"VM shutdown: error shutting down VM: HTTP 500 VM is locked (backup)", "qm unlock",
		},
		{
			"ssh",
			`failed to open SSH client: unable to authenticate user "denied" over SSH to "127.0.0.1:12201". Please verify`,
			"",
			`failed to open SSH client: unable to authenticate user "denied" over SSH to "127.0.0.1:12201". Please verify`,
			"127.0.0.1:12201 does not accept the key for the user denied",
		},
		{"unknown", "something new", "", "something new", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := problems([]opentofu.Diagnostic{{
				Severity: "error", Summary: test.summary, Detail: test.detail, Address: vmType + `.node["a-1"]`,
			}})
			if len(got) != 1 || got[0].Summary != test.message {
				t.Fatalf("message:\n got %q\nwant %q", got[0].Summary, test.message)
			}
			if test.hint == "" && got[0].Hint != "" || !strings.Contains(got[0].Hint, test.hint) {
				t.Errorf("hint: %q, want %q", got[0].Hint, test.hint)
			}
		})
	}
}

func TestProblemsOfManyNodesAreOne(t *testing.T) {
	var found []opentofu.Diagnostic
	for _, node := range []string{"a-2", "a-1", "a-2"} {
		found = append(found, opentofu.Diagnostic{
			Summary: "received an HTTP 401 response - Reason: no", Address: vmType + `.node["` + node + `"]`,
		})
	}
	f := deploy.Failure{Step: "tofu apply", Problems: problems(append(found, opentofu.Diagnostic{Summary: "another"}))}
	if got, want := f.Error(), "tofu apply failed: a-1, a-2: HTTP 401 no; another"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAMissingProviderIsExplained(t *testing.T) {
	got := problems([]opentofu.Diagnostic{{
		Summary: "Failed to query available provider packages",
		Detail:  "Could not retrieve the list of available versions for provider bpg/proxmox:\nno such host",
	}})
	if len(got) != 1 || !strings.Contains(got[0].Summary, "no such host") ||
		!strings.Contains(got[0].Hint, "HIVE_TEST_PROVIDER_MIRROR") {
		t.Errorf("%+v", got)
	}
}
