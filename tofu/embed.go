// Package module holds the OpenTofu/Terraform module that makes a cluster's VMs, as files in the binary.
package module

import "embed"

// Files are the module's *.tf files, all at the root.
//
//go:embed *.tf
var Files embed.FS

// ProviderSource and ProviderVersion are what versions.tf pins.
const (
	ProviderSource  = "bpg/proxmox"
	ProviderVersion = "0.111.1"
)
