# A VM that Ubuntu's installer makes by itself, as http/user-data says.

source "proxmox-iso" "layer" {
  proxmox_url              = var.proxmox_url
  insecure_skip_tls_verify = var.proxmox_insecure
  node                     = var.proxmox_node
  pool                     = var.proxmox_pool

  boot_iso {
    iso_file = var.iso_file
    unmount  = true
  }

  vm_id   = var.vm_id
  vm_name = var.vm_name
  tags    = var.tags

  cores           = var.cores
  memory          = var.memory
  cpu_type        = var.cpu_type
  os              = "l26"
  scsi_controller = var.scsi_controller
  qemu_agent      = true

  disks {
    type         = "virtio"
    disk_size    = var.disk_size
    storage_pool = var.storage
    format       = "raw"
  }

  network_adapters {
    model  = "virtio"
    bridge = var.bridge
  }

  http_directory = "${path.root}/http"
  boot_wait      = "5s"
  boot_command = [
    "c<wait>",
    "linux /casper/vmlinuz --- autoinstall 'ds=nocloud-net;s=http://{{ .HTTPIP }}:{{ .HTTPPort }}/'<enter><wait5>",
    "initrd /casper/initrd<enter><wait5>",
    "boot<enter>",
  ]

  template_name        = var.template_name
  template_description = var.template_description

  communicator         = "ssh"
  ssh_username         = var.ssh_username
  ssh_host             = var.ssh_host
  ssh_port             = var.ssh_port
  ssh_timeout          = var.ssh_timeout
  ssh_private_key_file = "${path.root}/installer_key"
}
