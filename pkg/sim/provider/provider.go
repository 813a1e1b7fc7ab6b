package provider

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-mux/tf5to6server"
	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/validation"
)

// Version is the release of bpg/proxmox that this package stands in for.
const Version = "0.111.1"

// Address is the provider's source address. OpenTofu does not look at it.
const Address = "registry.terraform.io/bpg/proxmox"

// Environment is what the provider takes from its process.
type Environment struct {
	Getenv  func(string) string
	Home    string // .ssh/known_hosts is kept under it
	TempDir string // files that keep processes from taking the same VM id
}

// Main serves the provider to the terraform or tofu that started this process
// and returns an exit code when that is done.
func Main() int {
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	env := Environment{Getenv: os.Getenv, Home: home, TempDir: os.TempDir()}
	server, err := NewServer(context.Background(), env)
	if err == nil {
		err = serve(server)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving the provider double: %v\n", err)
		return 1
	}
	return 0
}

func serve(server tfprotov6.ProviderServer) error {
	// The plugin protocol's client parses these lines; a date confuses it.
	log.SetFlags(0)
	return tf6server.Serve(Address, func() tfprotov6.ProviderServer { return server })
}

// NewServer makes a provider that speaks protocol version 6.
func NewServer(ctx context.Context, env Environment) (tfprotov6.ProviderServer, error) {
	p := newProvider(env)
	if err := p.InternalValidate(); err != nil {
		return nil, fmt.Errorf("checking the provider's own schema: %w", err)
	}
	return tf5to6server.UpgradeServer(ctx, func() tfprotov5.ProviderServer { return schema.NewGRPCProviderServer(p) })
}

// clients is what resources work with.
type clients struct {
	api   *api
	shell *shell
	ids   *idSource
}

func newProvider(env Environment) *schema.Provider {
	return &schema.Provider{
		Schema: providerSchema(env),
		ResourcesMap: map[string]*schema.Resource{
			"proxmox_virtual_environment_vm":   vmResource(),
			"proxmox_virtual_environment_file": fileResource(),
			"proxmox_virtual_environment_pool": poolResource(),
		},
		ConfigureContextFunc: func(_ context.Context, rd *schema.ResourceData) (any, diag.Diagnostics) {
			return configure(wrap(rd), env)
		},
	}
}

func providerSchema(env Environment) fields {
	otp := "The `otp` attribute is deprecated and will be removed in a future release. Please use the `api_token` attribute instead."
	return fields{
		"endpoint":              text(check(validation.IsURLWithHTTPorHTTPS)),
		"insecure":              flag(),
		"min_tls":               text(),
		"auth_ticket":           text(sensitive, notEmpty),
		"csrf_prevention_token": text(sensitive, notEmpty),
		"api_token":             text(sensitive),
		"otp":                   text(deprecated(otp)),
		"username":              text(),
		"password":              text(sensitive),
		"tmp_dir":               text(notEmpty),
		"random_vm_ids":         flag(),
		"random_vm_id_start":    number(between(100, 999999999)),
		"random_vm_id_end":      number(between(100, 999999999)),
		"ssh": blocks(1, fields{
			"username": text(notEmpty, fromEnv(env, "PROXMOX_VE_SSH_USERNAME", "PM_VE_SSH_USERNAME")),
			"password": text(
				sensitive, notEmpty, fromEnv(env, "PROXMOX_VE_SSH_PASSWORD", "PM_VE_SSH_PASSWORD"),
			),
			"agent": flag(flagFromEnv(env, "PROXMOX_VE_SSH_AGENT", "PM_VE_SSH_AGENT")),
			"agent_forwarding": flag(flagFromEnv(
				env, "PROXMOX_VE_SSH_AGENT_FORWARDING", "PM_VE_SSH_AGENT_FORWARDING",
			)),
			"agent_socket": text(
				notEmpty, fromEnv(env, "SSH_AUTH_SOCK", "PROXMOX_VE_SSH_AUTH_SOCK", "PM_VE_SSH_AUTH_SOCK"),
			),
			"private_key":         text(sensitive),
			"socks5_server":       text(notEmpty, fromEnv(env, "PROXMOX_VE_SSH_SOCKS5_SERVER")),
			"socks5_username":     text(notEmpty, fromEnv(env, "PROXMOX_VE_SSH_SOCKS5_USERNAME")),
			"socks5_password":     text(sensitive, notEmpty, fromEnv(env, "PROXMOX_VE_SSH_SOCKS5_PASSWORD")),
			"node_address_source": text(byDefault("api"), oneOf("api", "dns")),
			"node": blocks(0, fields{
				"name":    text(required, notEmpty),
				"address": text(required, notEmpty),
				"port":    number(byDefault(22), check(validation.IsPortNumber)),
			}),
		}),
	}
}

// variable is the first of the named variables that is set.
func (e Environment) variable(names ...string) string {
	for _, n := range names {
		if v := e.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// setting is a setting of the provider block, or else the variable
// PROXMOX_VE_name or PM_VE_name.
func (e Environment) setting(d data, name string) string {
	upper := strings.ToUpper(name)
	return cmp.Or(d.text(name), e.variable("PROXMOX_VE_"+upper, "PM_VE_"+upper))
}

func configure(d data, env Environment) (any, diag.Diagnostics) {
	creds := credentials{
		token:    env.setting(d, "api_token"),
		ticket:   env.setting(d, "auth_ticket"),
		csrf:     env.setting(d, "csrf_prevention_token"),
		username: env.setting(d, "username"),
		password: env.setting(d, "password"),
		otp:      env.setting(d, "otp"),
	}
	ds := diag.FromErr(creds.check())
	insecure := d.flag("insecure") || anyTrue(env.Getenv, "PROXMOX_VE_INSECURE", "PM_VE_INSECURE")
	a, err := newAPI(env.setting(d, "endpoint"), insecure, env.setting(d, "min_tls"), creds)
	if ds = append(ds, diag.FromErr(err)...); ds.HasError() {
		return nil, ds
	}
	sc, err := sshSettings(d, env, creds)
	if err != nil {
		return nil, diag.Errorf("error creating SSH client: %s", err)
	}
	ids := newIDSource(a, env.TempDir, d.flag("random_vm_ids"), d.num("random_vm_id_start"), d.num("random_vm_id_end"))
	return &clients{api: a, shell: newShell(sc, a), ids: ids}, nil
}

func sshSettings(d data, env Environment, creds credentials) (sshConfig, error) {
	b, written := d.first("ssh")
	c := sshConfig{
		username: cmp.Or(b.text("username"), env.variable("PROXMOX_VE_SSH_USERNAME", "PM_VE_SSH_USERNAME")),
		password: cmp.Or(b.text("password"), env.variable("PROXMOX_VE_SSH_PASSWORD", "PM_VE_SSH_PASSWORD")),
		useAgent: b.flag("agent"),
		agentSocket: cmp.Or(
			b.text("agent_socket"), env.variable("SSH_AUTH_SOCK", "PROXMOX_VE_SSH_AUTH_SOCK", "PM_VE_SSH_AUTH_SOCK"),
		),
		privateKey: cmp.Or(b.text("private_key"), env.variable("PROXMOX_VE_SSH_PRIVATE_KEY")),
		home:       env.Home,
		fromDNS:    b.text("node_address_source") == "dns",
		nodes:      map[string]nodeAddress{},
	}
	if !written {
		c.useAgent = anyTrue(env.Getenv, "PROXMOX_VE_SSH_AGENT", "PM_VE_SSH_AGENT")
	}
	if creds.usesPassword() {
		user, _, _ := strings.Cut(creds.username, "@")
		c.username, c.password = cmp.Or(c.username, user), cmp.Or(c.password, creds.password)
	}
	for _, v := range b.list("node") {
		m, _ := v.(map[string]any)
		n := block(m)
		c.nodes[n.text("name")] = nodeAddress{n.text("address"), n.num("port")}
	}
	if cmp.Or(b.text("socks5_server"), env.variable("PROXMOX_VE_SSH_SOCKS5_SERVER")) != "" {
		return c, fmt.Errorf("a SOCKS5 proxy is beyond this double of the provider")
	}
	if b.flag("agent_forwarding") {
		return c, fmt.Errorf("forwarding the SSH agent is beyond this double of the provider")
	}
	return c, nil
}
