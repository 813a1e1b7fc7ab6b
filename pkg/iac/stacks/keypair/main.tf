variable "public_key" {
  type        = string
  default     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEp7jVSgE9r1zJg5cp8VW2FbALvyoZ23GLrehDaF5I+h nobody"
  description = "nobody has the private key of the default"
}

resource "aws_key_pair" "this" {
  key_name   = var.name
  public_key = var.public_key
  tags       = local.tags
}
