package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

// poolResource declares proxmox_virtual_environment_pool.
func poolResource() *schema.Resource {
	return &schema.Resource{
		Schema: fields{
			"pool_id": text(required, forceNew),
			"comment": text(byDefault("")),
			"members": blocks(0, fields{
				"datastore_id": text(readOnly),
				"id":           text(readOnly),
				"node_name":    text(readOnly),
				"type":         text(readOnly),
				"vm_id":        number(readOnly),
			}, readOnly),
		},
		CreateContext: poolCreate,
		ReadContext:   poolRead,
		UpdateContext: poolUpdate,
		DeleteContext: poolDelete,
	}
}

type pool struct {
	Comment string   `json:"comment"`
	Members []member `json:"members"`
}

type member struct {
	ID      string `json:"id"`
	Node    string `json:"node"`
	Storage string `json:"storage"`
	Type    string `json:"type"`
	VMID    int    `json:"vmid"`
}

func poolPath(id string) string { return "pools?poolid=" + url.PathEscape(id) }

// pool reads one pool with its members.
func (a *api) pool(ctx context.Context, id string) (pool, error) {
	var answer struct{ Data []pool }
	if err := a.do(ctx, http.MethodGet, poolPath(id), nil, &answer); err != nil {
		return pool{}, fmt.Errorf("error getting pool: %w", err)
	}
	switch {
	case answer.Data == nil:
		return pool{}, errNoData
	case len(answer.Data) == 0:
		return pool{}, errMissing
	case len(answer.Data) > 1:
		return pool{}, fmt.Errorf("error getting pool: expected 1 pool, but got %d", len(answer.Data))
	}
	return answer.Data[0], nil
}

func poolCreate(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	params := url.Values{"poolid": {d.text("pool_id")}, "comment": {d.text("comment")}}
	if err := c.api.do(ctx, http.MethodPost, "pools", params, nil); err != nil {
		return diag.FromErr(fmt.Errorf("error creating pool: %w", err))
	}
	d.SetId(d.text("pool_id"))
	return poolRead(ctx, rd, meta)
}

func poolRead(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	p, err := c.api.pool(ctx, d.Id())
	if errors.Is(err, errMissing) {
		d.SetId("")
		return nil
	}
	if err != nil {
		return diag.FromErr(err)
	}
	members := []any{}
	slices.SortFunc(p.Members, func(a, b member) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range p.Members {
		members = append(members, map[string]any{
			"id": m.ID, "node_name": m.Node, "datastore_id": m.Storage, "type": m.Type, "vm_id": m.VMID,
		})
	}
	return diag.FromErr(d.setAll(map[string]any{"comment": p.Comment, "members": members}))
}

func poolUpdate(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	if err := c.api.do(
		ctx, http.MethodPut, poolPath(d.Id()), url.Values{"comment": {d.text("comment")}}, nil,
	); err != nil {
		return diag.FromErr(fmt.Errorf("error updating pool: %w", err))
	}
	return poolRead(ctx, rd, meta)
}

func poolDelete(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	err := c.api.do(ctx, http.MethodDelete, "pools", url.Values{"poolid": {d.Id()}}, nil)
	if err != nil && !errors.Is(err, errMissing) {
		return diag.FromErr(fmt.Errorf("error deleting pool: %w", err))
	}
	d.SetId("")
	return nil
}
