terraform {
  required_version = ">= 1.6.0"

  # One state per cluster: its path is given to `init`, so that no flag can be forgotten later.
  backend "local" {}

  required_providers {
    proxmox = {
      source = "bpg/proxmox"
      # Exactly this one: what a VM costs to change, and how ids collide, differs from release to release.
      version = "0.111.1"
    }
  }
}
