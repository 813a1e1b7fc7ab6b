package awsprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

// The functions of this file are a short notation for schemas.

type (
	field  = *schema.Schema
	fields = map[string]*schema.Schema
	opt    = func(field)
)

func of(t schema.ValueType, opts []opt) field {
	f := &schema.Schema{Type: t, Optional: true}
	for _, o := range opts {
		o(f)
	}
	return f
}

func text(opts ...opt) field   { return of(schema.TypeString, opts) }
func number(opts ...opt) field { return of(schema.TypeInt, opts) }
func flag(opts ...opt) field   { return of(schema.TypeBool, opts) }

// texts is a map of texts.
func texts(opts ...opt) field {
	f := of(schema.TypeMap, opts)
	f.Elem = &schema.Schema{Type: schema.TypeString}
	return f
}

// list is a list of texts.
func list(opts ...opt) field {
	f := of(schema.TypeList, opts)
	f.Elem = &schema.Schema{Type: schema.TypeString}
	return f
}

// set is a set of blocks; block is one block.
func set(inner fields, opts ...opt) field {
	f := of(schema.TypeSet, opts)
	f.Elem = &schema.Resource{Schema: inner}
	return f
}

func block(inner fields) field {
	return &schema.Schema{Type: schema.TypeList, Optional: true, MaxItems: 1, Elem: &schema.Resource{Schema: inner}}
}

func required(f field) { f.Optional, f.Required = false, true }
func computed(f field) { f.Computed = true }
func readOnly(f field) { f.Optional, f.Computed = false, true }
func forceNew(f field) { f.ForceNew = true }

// asAttribute lets a set be given as blocks and as a value, as the real provider's rules are.
func asAttribute(f field) { f.ConfigMode = schema.SchemaConfigModeAttr }

func byDefault(v any) opt { return func(f field) { f.Default = v } }

// work is what is done for one part of a resource's life.
type work func(context.Context, *client, *schema.ResourceData) error

func (w work) run(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
	return diag.FromErr(w(ctx, meta.(*client), d))
}

// resource is one with tags, which is read after it was made or changed. A part that is nil is none.
func resource(attributes fields, create, read, update, remove work) *schema.Resource {
	r := &schema.Resource{
		Schema: attributes, ReadContext: read.run, DeleteContext: remove.run,
		CreateContext: work(func(ctx context.Context, c *client, d *schema.ResourceData) error {
			if err := create(ctx, c, d); err != nil {
				return err
			}
			return read(ctx, c, d)
		}).run,
	}
	if update != nil {
		r.UpdateContext = work(func(ctx context.Context, c *client, d *schema.ResourceData) error {
			if err := update(ctx, c, d); err != nil {
				return err
			}
			return read(ctx, c, d)
		}).run
	}
	return r
}

// tagged is a resource with the attributes of tags.
func tagged(attributes fields, create, read, update, remove work) *schema.Resource {
	attributes["tags"], attributes["tags_all"] = texts(), texts(computed)
	r := resource(attributes, create, read, func(ctx context.Context, c *client, d *schema.ResourceData) error {
		if update != nil {
			if err := update(ctx, c, d); err != nil {
				return err
			}
		}
		return c.retag(ctx, d)
	}, remove)
	r.CustomizeDiff = mergeTags
	return r
}

// assign sets attributes, and joins what the schema refuses.
func assign(d *schema.ResourceData, values map[string]any) error {
	for name, value := range values {
		if err := d.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func textOf(d *schema.ResourceData, name string) string { s, _ := d.Get(name).(string); return s }
