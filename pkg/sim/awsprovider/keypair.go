package awsprovider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

func keyPair() *schema.Resource {
	key := text(required, forceNew)
	key.StateFunc = func(v any) string { return strings.TrimSpace(v.(string)) }
	return tagged(fields{
		"key_name": text(computed, forceNew), "public_key": key, "arn": text(readOnly), "fingerprint": text(readOnly),
		"key_pair_id": text(readOnly), "key_type": text(readOnly),
	}, createKeyPair, readKeyPair, nil, deleteKeyPair)
}

func createKeyPair(ctx context.Context, c *client, d *schema.ResourceData) error {
	name := textOf(d, "key_name")
	out, err := c.do(ctx, v2, "importing EC2 Key Pair ("+name+")", "ImportKeyPair", wire.Object{
		"KeyName": name, "PublicKeyMaterial": base64Of(textOf(d, "public_key")), "TagSpecifications": c.tagsFor(d, "key-pair"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "KeyName"))
	return nil
}

func readKeyPair(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.find(ctx, v2, "reading EC2 Key Pair ("+d.Id()+")", "DescribeKeyPairs", wire.Chosen("KeyNames", d.Id()), "KeyPairs",
		"InvalidKeyPair.NotFound")
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	err = assign(d, map[string]any{
		"key_name": one.Text("KeyName"), "fingerprint": one.Text("KeyFingerprint"), "key_pair_id": one.Text("KeyPairId"),
		"key_type": one.Text("KeyType"), "arn": fmt.Sprintf("arn:aws:ec2:%s::key-pair/%s", c.Key.Region, d.Id()),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func deleteKeyPair(ctx context.Context, c *client, d *schema.ResourceData) error {
	_, err := c.do(ctx, v2, "deleting EC2 Key Pair ("+d.Id()+")", "DeleteKeyPair", wire.Object{"KeyName": d.Id()})
	return err
}
