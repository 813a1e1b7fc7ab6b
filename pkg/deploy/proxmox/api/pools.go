package api

import (
	"context"
	"net/http"
	"net/url"
)

var _ Pools = (*Client)(nil)

type poolRow struct {
	ID      string `json:"poolid"`
	Comment text   `json:"comment"`
}

// Pools lists the pools that the token may see (Pool.Audit).
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	var rows []poolRow
	if err := c.get(ctx, "/pools", nil, &rows); err != nil {
		return nil, err
	}
	pools := make([]Pool, len(rows))
	for i, r := range rows {
		pools[i] = Pool{ID: r.ID, Comment: string(r.Comment)}
	}
	return pools, nil
}

// ReadPool reads one pool. It matches ErrNotFound if there is none of that name.
func (c *Client) ReadPool(ctx context.Context, id string) (Pool, error) {
	var row poolRow
	if err := c.get(ctx, poolPath(id), nil, &row); err != nil {
		return Pool{}, err
	}
	return Pool{ID: id, Comment: string(row.Comment)}, nil
}

// MakePool makes a pool (Pool.Allocate). Of all who make one of the same name at the same time, on whatever hypervisor,
// exactly one succeeds; for the others the error matches ErrExists.
func (c *Client) MakePool(ctx context.Context, p Pool) error {
	return retry(ctx, func() error {
		return c.call(ctx, http.MethodPost, "/pools", nil, map[string]string{"poolid": p.ID, "comment": p.Comment}, nil)
	})
}

// UpdatePool replaces the comment of a pool (Pool.Allocate). It matches ErrNotFound if there is none of that name.
func (c *Client) UpdatePool(ctx context.Context, p Pool) error {
	return retry(ctx, func() error {
		return c.call(ctx, http.MethodPut, poolPath(p.ID), nil, map[string]string{"comment": p.Comment}, nil)
	})
}

// DeletePool deletes an empty pool (Pool.Allocate). It matches ErrNotFound if there is none of that name.
func (c *Client) DeletePool(ctx context.Context, id string) error {
	return retry(ctx, func() error { return c.call(ctx, http.MethodDelete, poolPath(id), nil, nil, nil) })
}

func poolPath(id string) string { return "/pools/" + url.PathEscape(id) }
