variable "endpoint" {
  type        = string
  description = "Address of the Proxmox VE API, such as https://pve1.example:8006/"

  validation {
    condition     = startswith(var.endpoint, "https://")
    error_message = "The endpoint must begin with https://."
  }
}

variable "hypervisors" {
  type = list(object({
    name    = string
    address = string
    port    = number
  }))
  description = "Proxmox VE hosts and how their SSH servers are reached; an empty address is looked up through the API"
  default     = []
}

variable "cluster_name" {
  type        = string
  description = "Unique name of the cluster; its VMs are NAME-1 to NAME-N"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", var.cluster_name))
    error_message = "The cluster_name must be 1 to 40 lower-case letters, digits and inner hyphens."
  }
}

variable "owner_id" {
  type        = string
  description = "Identifies whose VMs these are; part of each VM's description"

  validation {
    condition     = length(var.owner_id) > 0
    error_message = "The owner_id must not be empty: without it nobody can tell later whose VMs these are."
  }
}

variable "node_count" {
  type        = number
  description = "Number of nodes in the cluster (1-10)"
  default     = 3

  validation {
    condition     = var.node_count >= 1 && var.node_count <= 10 && floor(var.node_count) == var.node_count
    error_message = "The node_count must be a whole number between 1 and 10."
  }
}

# Everything that could differ between two nodes is chosen before this module runs. Nothing here is computed from a
# position in a list: reordering hypervisors must never move or replace a VM.
variable "nodes" {
  type = list(object({
    name           = string
    index          = number
    vmid           = number
    hypervisor     = string
    management_mac = string
    data_mac       = string
    datastore_id   = string
    snippet_store  = string
    # The template to clone and the hypervisor that it is on; 0: the disk is made of os_image.
    template_vmid = optional(number, 0)
    template_node = optional(string, "")
    # Slot of the boot disk: that of the template, if there is one.
    disk_interface = optional(string, "virtio0")
    # ADDRESS/PREFIX of each NIC, or dhcp.
    management_address = optional(string, "dhcp")
    data_address       = optional(string, "dhcp")
  }))
  description = "One entry per node: its VM id, its hypervisor, the MAC and address of each NIC, what it is made of and where its disk and snippet go"

  validation {
    condition     = length(distinct([for n in var.nodes : n.vmid])) == length(var.nodes)
    error_message = "Two nodes have the same vmid."
  }
  validation {
    condition     = length(distinct([for n in var.nodes : n.name])) == length(var.nodes)
    error_message = "Two nodes have the same name."
  }
  validation {
    condition     = length(distinct([for m in flatten([for n in var.nodes : [n.management_mac, n.data_mac]]) : upper(m)])) == 2 * length(var.nodes)
    error_message = "Two NICs have the same MAC address."
  }
}

variable "cpu_cores" {
  type        = number
  description = "vCPU cores per VM"
  default     = 4
}

variable "memory_mb" {
  type        = number
  description = "Memory in MB per VM"
  default     = 8192
}

variable "disk_size_gb" {
  type        = number
  description = "Root disk size in GB per VM"
  default     = 32
}

variable "os_image" {
  type        = string
  description = "Cloud image on Proxmox VE, as a volume id"
  default     = "local:iso/debian-12-genericcloud-amd64.img"
}

variable "cloud_init" {
  type        = string
  description = "How VMs get vendor data: snippet, or none for no vendor data at all"
  default     = "snippet"

  validation {
    condition     = contains(["snippet", "none"], var.cloud_init)
    error_message = "The cloud_init must be snippet or none."
  }
}

variable "gateway" {
  type        = string
  description = "Default route of VMs whose first NIC has a static address; empty means none"
  default     = ""
}

variable "management_bridge" {
  type        = string
  description = "Bridge of the first NIC"
  default     = "vmbr0"
}

variable "data_bridge" {
  type        = string
  description = "Bridge of the second NIC"
  default     = "vmbr1"
}

variable "management_vlan" {
  type        = number
  description = "VLAN tag of the first NIC; 0 means none"
  default     = 0
}

variable "data_vlan" {
  type        = number
  description = "VLAN tag of the second NIC; 0 means none"
  default     = 0
}

variable "management_model" {
  type        = string
  description = "Model of the first NIC"
  default     = "virtio"
}

variable "data_model" {
  type        = string
  description = "Model of the second NIC"
  default     = "virtio"
}

variable "cpu_type" {
  type        = string
  description = "CPU that the VMs see, such as x86-64-v2-AES; host means that of the hypervisor"
  default     = "host"
}

variable "clone" {
  type        = string
  description = "How templates are cloned: full or linked"
  default     = "full"

  validation {
    condition     = contains(["full", "linked"], var.clone)
    error_message = "The clone must be full or linked."
  }
}

variable "ssh_user" {
  type        = string
  description = "User that cloud-init makes in each VM"
  default     = "tf-user"
}

variable "ssh_public_key" {
  type        = string
  description = "Key that may log in as ssh_user"
}

variable "description" {
  type        = string
  description = "Description of each VM; empty means one made of the cluster's name and the owner id"
  default     = ""
}

variable "tags" {
  type        = list(string)
  description = "Tags of each VM besides the cluster's name"
  default     = ["hive", "hive-test", "terraform"]
}

variable "pool_id" {
  type        = string
  description = "Resource pool that the VMs belong to; empty means none"
  default     = ""
}

variable "vendor_data" {
  type        = string
  description = "cloud-init vendor data, rendered"
}
