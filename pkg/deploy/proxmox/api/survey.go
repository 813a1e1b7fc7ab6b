package api

import (
	"context"
	"net/url"
	"time"

	"hive-test/pkg/deploy"
)

// ClusterStatus is what a hypervisor knows of its cluster.
type ClusterStatus struct {
	Clustered bool // false on a hypervisor that stands alone, which is always quorate
	Quorate   bool
	Addresses map[string]string // of the hypervisors, by name
}

// ClusterStatus tells whether the hypervisors can agree on changes: without a quorum every reading call and nextid
// still answer, but nothing can be created (observed on PVE 8.4). It needs Sys.Audit on /.
func (c *Client) ClusterStatus(ctx context.Context) (ClusterStatus, error) {
	var rows []struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		IP      string `json:"ip"`
		Quorate number `json:"quorate"`
	}
	if err := c.get(ctx, "/cluster/status", nil, &rows); err != nil {
		return ClusterStatus{}, err
	}
	status := ClusterStatus{Quorate: true, Addresses: map[string]string{}}
	for _, r := range rows {
		if r.Type == "cluster" {
			status.Clustered, status.Quorate = true, r.Quorate.bool()
		} else if r.IP != "" {
			status.Addresses[r.Name] = r.IP
		}
	}
	return status, nil
}

// TokenInfo is what Proxmox VE knows of an API token.
type TokenInfo struct {
	Separated bool      // it has its own ACL, and of that only what its user may too
	Expires   time.Time // zero: never
}

// Token reads the client's own token. A token that may not read itself gets ErrForbidden.
func (c *Client) Token(ctx context.Context) (TokenInfo, error) {
	var row struct {
		Privsep number `json:"privsep"`
		Expire  number `json:"expire"`
	}
	user, name := splitToken(c.tokenID)
	if err := c.get(ctx, "/access/users/"+url.PathEscape(user)+"/token/"+url.PathEscape(name), nil, &row); err != nil {
		return TokenInfo{}, err
	}
	info := TokenInfo{Separated: row.Privsep.bool()}
	if row.Expire > 0 {
		info.Expires = time.Unix(int64(row.Expire), 0)
	}
	return info, nil
}

// HasPool is nil if the resource pool exists, and matches ErrNotFound if it does not.
func (c *Client) HasPool(ctx context.Context, name string) error {
	return c.get(ctx, "/pools", url.Values{"poolid": {name}}, nil)
}

// StoragePaths are the directories of the storages that are directories, by name, of those that the token may see.
func (c *Client) StoragePaths(ctx context.Context) (map[string]string, error) {
	var rows []struct {
		Storage string `json:"storage"`
		Path    string `json:"path"`
	}
	if err := c.get(ctx, "/storage", nil, &rows); err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, r := range rows {
		if r.Path != "" {
			paths[r.Storage] = r.Path
		}
	}
	return paths, nil
}

// Skew is by how much the API's clock is ahead of this machine's, read from the Date of the answers, which has whole
// seconds. It is not known before the first answer.
func (c *Client) Skew() (skew time.Duration, known bool) {
	return c.clock.read()
}

// Now is the time by the API's clock, or by this machine's before the first answer. Of times that several machines
// compare, this is the one that they have in common.
func (c *Client) Now() time.Time {
	skew, _ := c.Skew()
	return time.Now().Add(skew)
}

// Problems are what New would refuse, all of it and each with its fix. What is empty is not judged.
func (o Options) Problems() []deploy.Finding {
	var findings []deploy.Finding
	found := func(id, title string, err error, fix string) {
		if err != nil {
			findings = append(findings, deploy.Finding{
				ID: id, Title: title, Status: deploy.Fail, Detail: err.Error(), Fix: fix,
			})
		}
	}
	if o.Endpoint != "" {
		_, err := endpointURL(o.Endpoint)
		like := "https://pve1:8006"
		if u, parseErr := url.Parse(o.Endpoint); parseErr == nil && u.Host != "" && u.User == nil {
			like = "https://" + u.Host
		}
		found(
			"pve-endpoint", "Proxmox API answers", err,
			"set proxmox.endpoint to "+like+", the API's address without a path",
		)
	}
	if o.Token != "" && !tokenPattern.MatchString(o.Token) {
		found(
			"pve-token", "API token is accepted", tokenFormatError(o.Token),
			"set PROXMOX_VE_API_TOKEN to user@realm!name=secret, as it was printed when the token was made",
		)
	}
	_, err := tlsConfig(o)
	fix := caFix
	if o.Fingerprint != "" {
		fix = fingerprintFix + "what this prints on the hypervisor: " + fingerprintCommand
	}
	found("pve-tls", "server certificate is trusted", err, fix)
	return findings
}
