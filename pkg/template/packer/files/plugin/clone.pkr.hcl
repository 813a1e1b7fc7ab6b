# A VM that is cloned from another one, or from a template.

source "proxmox-clone" "layer" {
  proxmox_url              = var.proxmox_url
  insecure_skip_tls_verify = var.proxmox_insecure
  node                     = var.proxmox_node
  pool                     = var.proxmox_pool

  clone_vm   = var.clone_vm
  full_clone = true
  vm_id      = var.vm_id
  vm_name    = var.vm_name
  tags       = var.tags

  cores           = var.cores
  memory          = var.memory
  cpu_type        = var.cpu_type
  os              = "other"
  scsi_controller = var.scsi_controller
  qemu_agent      = true

  template_name        = var.template_name
  template_description = var.template_description

  communicator = "ssh"
  ssh_username = var.ssh_username
  ssh_host     = var.ssh_host
  ssh_port     = var.ssh_port
  ssh_timeout  = var.ssh_timeout
}
