locals {
  nodes = { for n in var.nodes : n.name => n }

  # Proxmox VE keeps tags sorted: any other order would be a difference on every plan.
  tags = sort(distinct(concat(var.tags, [var.cluster_name])))

  # One line: Proxmox VE rewrites line ends.
  description = var.description != "" ? var.description : "Managed by Terraform - cluster: ${var.cluster_name} - owner: ${var.owner_id}"
}

# The name of a snippet holds the name of its node, so that no two clusters can overwrite each other's.
resource "proxmox_virtual_environment_file" "vendor_data" {
  for_each = local.nodes

  content_type = "snippets"
  datastore_id = each.value.snippet_store
  node_name    = each.value.hypervisor

  source_raw {
    data      = var.vendor_data
    file_name = "${each.key}-vendor.yaml"
  }

  lifecycle {
    # A VM reads its vendor data once, when it first boots. New text in a later release of this module is for new VMs.
    ignore_changes = [source_raw]
  }
}

resource "proxmox_virtual_environment_vm" "node" {
  for_each = local.nodes

  name        = each.key
  description = local.description
  tags        = local.tags
  node_name   = each.value.hypervisor
  vm_id       = each.value.vmid
  pool_id     = var.pool_id != "" ? var.pool_id : null

  on_boot = false
  # A guest that ignores a shutdown would hold up its own removal for half an hour.
  stop_on_destroy = true
  # A change of memory or cores must not restart all VMs at once.
  reboot_after_update = false

  agent {
    enabled = true
    # Addresses are read and matched by MAC elsewhere: a dead agent must not hold up a plan or a destroy.
    wait_for_ip {
      disabled = true
    }
  }

  cpu {
    cores = var.cpu_cores
    type  = "host"
  }

  memory {
    dedicated = var.memory_mb
  }

  disk {
    file_id      = var.os_image
    datastore_id = each.value.datastore_id
    interface    = "virtio0"
    iothread     = true
    discard      = "on"
    size         = var.disk_size_gb
  }

  network_device {
    bridge      = var.management_bridge
    mac_address = upper(each.value.management_mac)
  }

  network_device {
    bridge      = var.data_bridge
    mac_address = upper(each.value.data_mac)
  }

  initialization {
    datastore_id        = each.value.datastore_id
    vendor_data_file_id = proxmox_virtual_environment_file.vendor_data[each.key].id

    user_account {
      username = var.ssh_user
      keys     = [trimspace(var.ssh_public_key)]
    }

    ip_config {
      ipv4 {
        address = "dhcp"
      }
    }
    ip_config {
      ipv4 {
        address = "dhcp"
      }
    }
  }

  lifecycle {
    # A snippet that was lost or changed outside would otherwise replace every running VM.
    ignore_changes = [initialization]

    precondition {
      condition     = length(var.nodes) == var.node_count
      error_message = "There must be as many entries in nodes as node_count says."
    }
  }
}
