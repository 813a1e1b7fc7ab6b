# How Proxmox VE is reached. User and password, or token, come from the environment: PROXMOX_USERNAME with PROXMOX_PASSWORD, or, where
# Packer's version knows it, with PROXMOX_TOKEN.

variable "proxmox_url" {
  type        = string
  default     = ""
  description = "URL of the API, such as https://pve1:8006/api2/json; empty: PROXMOX_URL."
}

variable "proxmox_insecure" {
  type        = bool
  default     = false
  description = "Accept any certificate."
}

variable "proxmox_node" {
  type        = string
  description = "Hypervisor that the VM is made on."
}

variable "proxmox_pool" {
  type        = string
  default     = ""
  description = "Resource pool of the VM; empty: none."
}

# The VM, and the template that is made of it.

variable "clone_vm" {
  type        = string
  default     = "none"
  description = "Name of the VM or template that is cloned, which needs a cloud-init drive and an agent (proxmox-clone)."
}

variable "iso_file" {
  type        = string
  default     = "local:iso/ubuntu-24.04-live-server-amd64.iso"
  description = "Volume of the installer (proxmox-iso)."
}

variable "storage" {
  type        = string
  default     = "local-lvm"
  description = "Storage of the cloud-init drive, and of the disk (proxmox-iso)."
}

variable "disk_size" {
  type        = string
  default     = "40G"
  description = "Size of the disk (proxmox-iso)."
}

variable "bridge" {
  type        = string
  default     = "vmbr0"
  description = "Bridge of the NIC (proxmox-iso)."
}

variable "vm_id" {
  type        = number
  default     = 0
  description = "Id of the VM; 0: the next free one."
}

variable "vm_name" {
  type        = string
  default     = "hive-test-template"
  description = "Name of the VM while it is made."
}

variable "template_name" {
  type        = string
  description = "Name of the template: its version."
}

variable "template_description" {
  type        = string
  default     = ""
  description = "What hive-test knows the template by."
}

variable "cores" {
  type    = number
  default = 4
}

variable "memory" {
  type        = number
  default     = 4096
  description = "In MiB."
}

variable "cpu_type" {
  type    = string
  default = "host"
}

variable "scsi_controller" {
  type    = string
  default = "virtio-scsi-pci"
}

# How the VM is reached.

variable "ssh_username" {
  type    = string
  default = "ubuntu"
}

variable "ssh_host" {
  type        = string
  default     = ""
  description = "Empty: what the guest agent tells."
}

variable "ssh_port" {
  type    = number
  default = 22
}

variable "ssh_timeout" {
  type    = string
  default = "30m"
}
