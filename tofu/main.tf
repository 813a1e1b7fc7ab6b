locals {
  nodes = { for n in var.nodes : n.name => n }

  # Proxmox VE keeps tags sorted: any other order would be a difference on every plan.
  tags = sort(distinct(concat(var.tags, [var.cluster_name])))

  # One line: Proxmox VE rewrites line ends.
  snippets = var.cloud_init == "none" ? {} : local.nodes

  # A volume of content type import becomes a disk through the API alone; any other image needs SSH to the hypervisor.
  imports = can(regex("^[^:]+:import/", var.os_image))

  description = var.description != "" ? var.description : "Managed by Terraform - cluster: ${var.cluster_name} - owner: ${var.owner_id}"
}

# An upload overwrites what has its name, and a removal takes it. The owner's id keeps clusters of one name on one Proxmox VE
# apart, as others make them elsewhere.
resource "proxmox_virtual_environment_file" "vendor_data" {
  for_each = local.snippets

  content_type = "snippets"
  datastore_id = each.value.snippet_store
  node_name    = each.value.hypervisor

  source_raw {
    data      = var.vendor_data
    file_name = "${each.key}-${var.owner_id}-vendor.yaml"
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

  # The clone lands on the node's own datastore. A template on another hypervisor is cloned straight to this one where its
  # storage is shared, and otherwise cloned there and migrated.
  dynamic "clone" {
    for_each = each.value.template_vmid > 0 ? [each.value] : []
    content {
      vm_id     = clone.value.template_vmid
      node_name = clone.value.template_node
      # A linked clone is where its template's disk is.
      datastore_id = var.clone == "linked" ? null : clone.value.datastore_id
      full         = var.clone != "linked"
    }
  }

  agent {
    enabled = true
    # Addresses are read and matched by MAC elsewhere: a dead agent must not hold up a plan or a destroy.
    wait_for_ip {
      disabled = true
    }
  }

  cpu {
    cores = var.cpu_cores
    type  = var.cpu_type
  }

  memory {
    dedicated = var.memory_mb
  }

  disk {
    file_id      = each.value.template_vmid > 0 || local.imports ? null : var.os_image
    import_from  = each.value.template_vmid == 0 && local.imports ? var.os_image : null
    datastore_id = each.value.datastore_id
    interface    = each.value.disk_interface
    iothread     = true
    discard      = "on"
    size         = var.disk_size_gb
  }

  network_device {
    bridge      = var.management_bridge
    mac_address = upper(each.value.management_mac)
    model       = var.management_model
    vlan_id     = var.management_vlan > 0 ? var.management_vlan : null
  }

  network_device {
    bridge      = var.data_bridge
    mac_address = upper(each.value.data_mac)
    model       = var.data_model
    vlan_id     = var.data_vlan > 0 ? var.data_vlan : null
  }

  # For `qm terminal`, which needs one. Cloud images write their console there as well.
  serial_device {}

  initialization {
    datastore_id        = each.value.datastore_id
    vendor_data_file_id = try(proxmox_virtual_environment_file.vendor_data[each.key].id, null)

    user_account {
      username = var.ssh_user
      keys     = [trimspace(var.ssh_public_key)]
    }

    dynamic "ip_config" {
      for_each = [
        { address = each.value.management_address, gateway = var.gateway },
        { address = each.value.data_address, gateway = "" },
      ]
      content {
        dynamic "ipv4" {
          for_each = strcontains(ip_config.value.address, ":") ? [] : [ip_config.value]
          content {
            address = ipv4.value.address
            gateway = ipv4.value.gateway != "" && ipv4.value.address != "dhcp" ? ipv4.value.gateway : null
          }
        }
        dynamic "ipv6" {
          for_each = strcontains(ip_config.value.address, ":") ? [ip_config.value] : []
          content {
            address = ipv6.value.address
            gateway = ipv6.value.gateway != "" ? ipv6.value.gateway : null
          }
        }
      }
    }
  }

  lifecycle {
    # A snippet that was lost or changed outside would otherwise replace every running VM, and so would a template that was
    # moved or made anew. A serial port that a VM of an earlier version lacks is no reason to restart it.
    ignore_changes = [initialization, clone, serial_device]

    precondition {
      condition     = length(var.nodes) == var.node_count
      error_message = "There must be as many entries in nodes as node_count says."
    }
  }
}
