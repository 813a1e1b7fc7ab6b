# No output can fail: what is not known is null. An output that fails would stop a destroy as well.
output "inventory" {
  description = "What was made, by node name"
  value = {
    cluster_name = var.cluster_name
    ssh_user     = var.ssh_user
    nodes = [for n in var.nodes : {
      name           = n.name
      index          = n.index
      vmid           = try(proxmox_virtual_environment_vm.node[n.name].vm_id, null)
      hypervisor     = try(proxmox_virtual_environment_vm.node[n.name].node_name, null)
      management_mac = try(upper(proxmox_virtual_environment_vm.node[n.name].network_device[0].mac_address), null)
      data_mac       = try(upper(proxmox_virtual_environment_vm.node[n.name].network_device[1].mac_address), null)
    }]
  }
}
