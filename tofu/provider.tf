# Credentials come from the environment only (PROXMOX_VE_API_TOKEN, PROXMOX_VE_SSH_USERNAME, PROXMOX_VE_SSH_PRIVATE_KEY or
# PROXMOX_VE_SSH_AGENT), so that neither the variables file nor the state ever holds one.
provider "proxmox" {
  endpoint = var.endpoint

  ssh {
    # A hypervisor without an address is looked up through the API, and then reached on port 22.
    dynamic "node" {
      for_each = [for h in var.hypervisors : h if h.address != ""]
      content {
        name    = node.value.name
        address = node.value.address
        port    = node.value.port
      }
    }
  }
}
