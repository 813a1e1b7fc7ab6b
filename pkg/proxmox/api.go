package proxmox

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
	Skew() (skew time.Duration, known bool)
	VMReader
	AgentReader
	Power
}

// VMReader reads one VM live.
type VMReader interface {
	VM(ctx context.Context, hypervisor string, vmid int) (VM, error)
	Live(ctx context.Context, listed VM) (VM, error)
}

// AgentReader asks a VM's guest agent.
type AgentReader interface {
	Interfaces(ctx context.Context, hypervisor string, vmid int) ([]Interface, error)
	ReadFile(ctx context.Context, hypervisor string, vmid int, path string) ([]byte, error)
}

// Power switches VMs off and deletes them.
type Power interface {
	Stop(ctx context.Context, hypervisor string, vmid int) (TaskResult, error)
	Delete(ctx context.Context, hypervisor string, vmid int) (TaskResult, error)
	TaskLog(ctx context.Context, upid string) ([]string, error)
}

// Addresses is what WaitAddresses needs.
type Addresses interface {
	VM(ctx context.Context, hypervisor string, vmid int) (VM, error)
	Interfaces(ctx context.Context, hypervisor string, vmid int) ([]Interface, error)
}
