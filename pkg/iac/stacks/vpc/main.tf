resource "aws_vpc" "this" {
  cidr_block           = "10.96.0.0/16"
  enable_dns_hostnames = true
  tags                 = local.tags
}

resource "aws_subnet" "this" {
  vpc_id                  = aws_vpc.this.id
  cidr_block              = "10.96.1.0/24"
  map_public_ip_on_launch = true
  tags                    = local.tags
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = local.tags
}

resource "aws_route_table" "this" {
  vpc_id = aws_vpc.this.id
  tags   = local.tags

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }

  dynamic "route" {
    for_each = var.revision > 1 ? ["192.0.2.0/24"] : []
    content {
      cidr_block = route.value
      gateway_id = aws_internet_gateway.this.id
    }
  }
}

resource "aws_route_table_association" "this" {
  subnet_id      = aws_subnet.this.id
  route_table_id = aws_route_table.this.id
}

resource "aws_security_group" "this" {
  name        = var.name
  description = "SSH from within, and what is served"
  vpc_id      = aws_vpc.this.id
  tags        = local.tags

  ingress {
    description = "SSH"
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = ["10.96.0.0/16"]
  }

  ingress {
    description = "what is served"
    from_port   = var.revision > 1 ? 8443 : 443
    to_port     = var.revision > 1 ? 8443 : 443
    protocol    = "tcp"
    cidr_blocks = ["0.0.0.0/0"]
  }

  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}
