# Tags of every kind: those of the provider, of the resource alone, of both, and of all resources that have some. The second
# revision changes one, removes one and adds one.
locals {
  all_tags = merge(local.tags, {
    "hive-test:spaces and signs" = "a b+c=d_e.f:g/h@i-j"
    "ü"                          = "ß"
    empty                        = ""
  }, var.revision > 1 ? { added = "yes" } : { removed = "yes" })
}

resource "aws_key_pair" "this" {
  key_name   = var.name
  public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEp7jVSgE9r1zJg5cp8VW2FbALvyoZ23GLrehDaF5I+h nobody"
  tags       = local.all_tags
}

resource "aws_vpc" "this" {
  cidr_block = "10.98.0.0/16"
  tags       = local.all_tags
}

resource "aws_subnet" "this" {
  vpc_id     = aws_vpc.this.id
  cidr_block = "10.98.1.0/24"
  tags       = local.all_tags
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = local.all_tags
}

resource "aws_route_table" "this" {
  vpc_id = aws_vpc.this.id
  tags   = local.all_tags
}

resource "aws_security_group" "this" {
  name        = var.name
  description = "of tags"
  vpc_id      = aws_vpc.this.id
  tags        = local.all_tags
}

resource "aws_ebs_volume" "this" {
  availability_zone = data.aws_availability_zones.this.names[0]
  size              = 1
  tags              = local.all_tags
}

data "aws_availability_zones" "this" {
  state = "available"
}
