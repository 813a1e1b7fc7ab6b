// Command provider is the provider of the tests of pkg/deploy/proxmox/provision. It keeps "VMs" as files in the
// directory that the endpoint names, and knows the module's attributes and no others. What a real one says to Proxmox
// VE is tested elsewhere: here it is tofu and its state that are real. A file fail-NAME in the directory makes the
// creation of that VM fail with the file's text; a file slow makes creations last, a file deaf for as long as it is
// there, whatever the provider is told.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
)

type fakeHost struct{ dir string }

const vmType = "proxmox_virtual_environment_vm"

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: fakeProvider})
}

func fakeProvider() *schema.Provider {
	node := block(0, map[string]*schema.Schema{"name": text(), "address": text(), "port": number()})
	return &schema.Provider{
		Schema: map[string]*schema.Schema{
			"endpoint": text(), "ssh": block(1, map[string]*schema.Schema{"node": node}),
		},
		ResourcesMap: map[string]*schema.Resource{vmType: fakeVM(), "proxmox_virtual_environment_file": fakeFile()},
		ConfigureContextFunc: func(_ context.Context, d *schema.ResourceData) (any, diag.Diagnostics) {
			u, err := url.Parse(d.Get("endpoint").(string))
			if err != nil {
				return nil, diag.FromErr(err)
			}
			if os.Getenv("PROXMOX_VE_API_TOKEN") == "" {
				return nil, diag.Errorf("received an HTTP 401 response - Reason: no ticket")
			}
			if leaked := os.Getenv("TF_VAR_cluster_name"); leaked != "" {
				return nil, diag.Errorf("the caller's TF_VAR_cluster_name leaked in")
			}
			return fakeHost{u.Path}, nil
		},
	}
}

func text() *schema.Schema   { return &schema.Schema{Type: schema.TypeString, Optional: true} }
func number() *schema.Schema { return &schema.Schema{Type: schema.TypeInt, Optional: true} }
func flag() *schema.Schema   { return &schema.Schema{Type: schema.TypeBool, Optional: true} }
func fixed(s *schema.Schema) *schema.Schema {
	s.ForceNew = true
	return s
}

func texts() *schema.Schema {
	return &schema.Schema{Type: schema.TypeList, Optional: true, Elem: &schema.Schema{Type: schema.TypeString}}
}

func block(most int, fields map[string]*schema.Schema) *schema.Schema {
	return &schema.Schema{Type: schema.TypeList, Optional: true, MaxItems: most, Elem: &schema.Resource{Schema: fields}}
}

func fakeFile() *schema.Resource {
	return &schema.Resource{
		Schema: map[string]*schema.Schema{
			"content_type": fixed(text()), "datastore_id": fixed(text()), "node_name": fixed(text()),
			"source_raw": fixed(block(1, map[string]*schema.Schema{"data": fixed(text()), "file_name": fixed(text())})),
		},
		CreateContext: func(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
			name := d.Get("source_raw.0.file_name").(string)
			d.SetId(d.Get("datastore_id").(string) + ":snippets/" + name)
			return diag.FromErr(os.WriteFile(
				filepath.Join(m.(fakeHost).dir, name), []byte(d.Get("source_raw.0.data").(string)), 0o600,
			))
		},
		ReadContext: func(context.Context, *schema.ResourceData, any) diag.Diagnostics { return nil },
		DeleteContext: func(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
			_, name, _ := strings.Cut(d.Id(), "snippets/")
			return diag.FromErr(os.Remove(filepath.Join(m.(fakeHost).dir, name)))
		},
	}
}

func fakeVM() *schema.Resource {
	ip := block(1, map[string]*schema.Schema{"address": text(), "gateway": text()})
	return &schema.Resource{
		Schema: map[string]*schema.Schema{
			"name": text(), "pool_id": text(), "description": text(), "tags": texts(), "node_name": fixed(text()),
			"vm_id":   fixed(number()),
			"on_boot": flag(), "stop_on_destroy": flag(), "reboot_after_update": flag(),
			"agent": block(1, map[string]*schema.Schema{
				"enabled": flag(), "wait_for_ip": block(1, map[string]*schema.Schema{"disabled": flag()}),
			}),
			"clone": fixed(block(1, map[string]*schema.Schema{
				"vm_id": fixed(number()), "node_name": fixed(text()), "datastore_id": fixed(text()), "full": flag(),
			})),
			"cpu":    block(1, map[string]*schema.Schema{"cores": number(), "type": text()}),
			"memory": block(1, map[string]*schema.Schema{"dedicated": number()}),
			"disk": fixed(block(31, map[string]*schema.Schema{
				"file_id": fixed(text()), "import_from": fixed(text()), "datastore_id": text(), "interface": text(),
				"iothread": flag(), "discard": text(), "size": number(),
			})),
			"network_device": block(32, map[string]*schema.Schema{"bridge": text(), "mac_address": text(), "model": text(), "vlan_id": number()}),
			"serial_device":  block(4, map[string]*schema.Schema{"device": text()}),
			"initialization": fixed(block(1, map[string]*schema.Schema{
				"datastore_id": text(), "vendor_data_file_id": fixed(text()),
				"user_account": block(1, map[string]*schema.Schema{"username": text(), "keys": texts()}),
				"ip_config":    block(32, map[string]*schema.Schema{"ipv4": ip, "ipv6": ip}),
			})),
		},
		CreateContext: createVM,
		ReadContext: func(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
			if _, err := os.Stat(m.(fakeHost).vm(d)); err != nil {
				d.SetId("")
			}
			return nil
		},
		UpdateContext: func(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
			return diag.FromErr(m.(fakeHost).save(d))
		},
		DeleteContext: func(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
			return diag.FromErr(os.Remove(m.(fakeHost).vm(d)))
		},
	}
}

func createVM(_ context.Context, d *schema.ResourceData, m any) diag.Diagnostics {
	host := m.(fakeHost)
	d.SetId(fmt.Sprint(d.Get("vm_id")))
	if _, err := os.Stat(filepath.Join(host.dir, "slow")); err == nil {
		_ = os.WriteFile(filepath.Join(host.dir, "started"), nil, 0o600)
		time.Sleep(700 * time.Millisecond) // the work in hand of a provider that was told to stop
	}
	for deaf := filepath.Join(host.dir, "deaf"); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(deaf); err != nil {
			break
		}
		_ = os.WriteFile(filepath.Join(host.dir, "started"), nil, 0o600)
	}
	if err := host.save(d); err != nil {
		return diag.FromErr(err)
	}
	why, err := os.ReadFile(filepath.Join(host.dir, "fail-"+d.Get("name").(string)))
	if err == nil {
		return diag.Diagnostics{{Severity: diag.Error, Summary: "VM create", Detail: string(why)}}
	}
	return nil
}

func (h fakeHost) vm(d *schema.ResourceData) string { return filepath.Join(h.dir, "vm-"+d.Id()) }

func (h fakeHost) save(d *schema.ResourceData) error {
	raw, err := json.Marshal(map[string]any{
		"name": d.Get("name"), "node": d.Get("node_name"), "description": d.Get("description"),
		"pool": d.Get("pool_id"), "tags": d.Get("tags"),
		"macs":   []any{d.Get("network_device.0.mac_address"), d.Get("network_device.1.mac_address")},
		"memory": d.Get("memory.0.dedicated"), "wait_disabled": d.Get("agent.0.wait_for_ip.0.disabled"),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(h.vm(d), raw, 0o600)
}
