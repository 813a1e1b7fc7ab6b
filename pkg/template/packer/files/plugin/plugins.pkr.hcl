packer {
  required_plugins {
    proxmox = {
      source  = "github.com/hashicorp/proxmox"
      version = ">= 1.2.0"
    }
  }
}

variable "tags" {
  type        = string
  default     = "hive-test-template"
  description = "Tags of the template, with semicolons between them: hive-test looks for hive-test-template."
}
