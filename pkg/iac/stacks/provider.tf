# What all stacks share. A stack is this file and those of its directory:
#
#   export TF_VAR_mulgaos_endpoint=https://10.0.0.1:9999 AWS_CA_BUNDLE=ca.pem    # keys as for any AWS client
#   tofu init && tofu apply

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "mulgaos_endpoint" {
  type        = string
  description = "URL of the EC2 API"
}

variable "region" {
  type    = string
  default = "ap-southeast-2"
}

variable "name" {
  type        = string
  default     = "hive-test-iac"
  description = "name of all that has one, and tag Name"
}

variable "revision" {
  type        = number
  default     = 1
  description = "2 changes what can be changed in place"
}

# No keys are here: the provider takes them from the environment, or from profile files.
provider "aws" {
  region                      = var.region
  max_retries                 = 5
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true

  endpoints {
    ec2 = var.mulgaos_endpoint
    sts = var.mulgaos_endpoint
  }
}

locals {
  tags = {
    Name     = var.name
    revision = tostring(var.revision)
  }
}
