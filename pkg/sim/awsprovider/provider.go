// Package awsprovider is a double of the Terraform provider hashicorp/aws, for machines that reach no provider registry. It
// serves the real plugin protocol, and makes to the endpoint that it is given the calls that the real provider makes for the
// resources and attributes that it declares, in its order; all others are refused by its schema. Where the real provider
// is present it takes the double's place without any other change.
//
// What is left out is the real provider's pauses of ten seconds before it first looks at what it has asked for.
package awsprovider

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/iac"
)

// Version is the release that this package calls itself.
const Version = "5.46.0"

// Address is the provider's source address. OpenTofu does not look at it.
const Address = "registry.terraform.io/hashicorp/aws"

// Main serves the provider to the terraform or tofu that started this process and returns an exit code when that is done.
func Main() int {
	p := newProvider(os.Getenv)
	err := p.InternalValidate()
	if err == nil {
		log.SetFlags(0) // the protocol's client parses these lines; a date confuses it
		err = tf5server.Serve(Address, func() tfprotov5.ProviderServer { return schema.NewGRPCProviderServer(p) })
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving the provider double: %v\n", err)
		return 1
	}
	return 0
}

func newProvider(getenv func(string) string) *schema.Provider {
	return &schema.Provider{
		Schema: fields{
			"region":                      text(),
			"max_retries":                 number(byDefault(25)),
			"skip_credentials_validation": flag(),
			"skip_metadata_api_check":     text(),
			"skip_region_validation":      flag(),
			"skip_requesting_account_id":  flag(),
			"endpoints":                   set(fields{"ec2": text(), "sts": text(), "iam": text()}),
			"default_tags":                block(fields{"tags": texts()}),
		},
		ResourcesMap: map[string]*schema.Resource{
			"aws_key_pair": keyPair(), "aws_vpc": vpc(), "aws_subnet": subnet(), "aws_internet_gateway": internetGateway(),
			"aws_route_table": routeTable(), "aws_route_table_association": tableAssociation(),
			"aws_security_group": securityGroup(), "aws_instance": instance(), "aws_ebs_volume": volume(),
			"aws_volume_attachment": attachment(),
		},
		DataSourcesMap: map[string]*schema.Resource{
			"aws_availability_zones": zones(), "aws_ami": image(), "aws_ec2_instance_type": instanceType(),
		},
		ConfigureContextFunc: func(ctx context.Context, d *schema.ResourceData) (any, diag.Diagnostics) {
			c, err := configure(ctx, d, getenv)
			return c, diag.FromErr(err)
		},
	}
}

func configure(ctx context.Context, d *schema.ResourceData, getenv func(string) string) (*client, error) {
	address := ""
	for _, one := range d.Get("endpoints").(*schema.Set).List() {
		address = one.(map[string]any)["ec2"].(string)
	}
	endpoint, err := iac.EndpointOf(address, getenv)
	if err != nil {
		return nil, fmt.Errorf("no valid credential sources found: %w", err)
	}
	if region := d.Get("region").(string); region != "" {
		endpoint.Key.Region = region
	}
	c := &client{Endpoint: endpoint, retries: d.Get("max_retries").(int), defaults: map[string]string{}}
	for _, one := range d.Get("default_tags").([]any) {
		if tags, ok := one.(map[string]any); ok {
			c.defaults = textsOf(tags["tags"])
		}
	}
	if !d.Get("skip_credentials_validation").(bool) || !d.Get("skip_requesting_account_id").(bool) {
		return c, errors.New("asking STS is beyond this double of the provider: set skip_credentials_validation and " +
			"skip_requesting_account_id")
	}
	return c, ctx.Err()
}
