package api

import (
	"context"
	"time"
)

// API is what the checks and waits of this package need of a Proxmox VE; *Client is the real one.
type API interface {
	Version(ctx context.Context) (Version, error)
	Hypervisors(ctx context.Context) ([]Hypervisor, error)
	VMs(ctx context.Context) ([]VM, error)
	Storages(ctx context.Context, hypervisor string) ([]Storage, error)
	Content(ctx context.Context, hypervisor, storage, kind string) ([]Volume, error)
	Bridges(ctx context.Context, hypervisor string) ([]string, error)
	Permissions(ctx context.Context) (map[string]map[string]bool, error)
	CheckID(ctx context.Context, vmid int) (free bool, err error)
	ClusterStatus(ctx context.Context) (ClusterStatus, error)
	Token(ctx context.Context) (TokenInfo, error)
	HasPool(ctx context.Context, name string) error
	StoragePaths(ctx context.Context) (map[string]string, error)
	TagRules(ctx context.Context) (TagRules, error)
	Skew() (skew time.Duration, known bool)
	VMReader
}

// VMReader reads one VM live.
type VMReader interface {
	VM(ctx context.Context, hypervisor string, vmid int) (VM, error)
	Live(ctx context.Context, listed VM) (VM, error)
}

// Addresses is what WaitAddresses needs.
type Addresses interface {
	VM(ctx context.Context, hypervisor string, vmid int) (VM, error)
	Interfaces(ctx context.Context, hypervisor string, vmid int) ([]Interface, error)
}
