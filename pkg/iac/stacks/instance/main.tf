variable "image_name" {
  type        = string
  default     = "*"
  description = "name of the image, or pattern of it"
}

variable "image_owner" {
  type        = string
  default     = "amazon"
  description = "account that owns the image, or an alias of one"
}

variable "instance_type" {
  type    = string
  default = "t3.micro"
}

data "aws_availability_zones" "this" {
  state = "available"
}

data "aws_ami" "this" {
  most_recent = true
  owners      = [var.image_owner]

  filter {
    name   = "name"
    values = [var.image_name]
  }
}

data "aws_ec2_instance_type" "this" {
  instance_type = var.instance_type
}

resource "aws_vpc" "this" {
  cidr_block = "10.97.0.0/16"
  tags       = local.tags
}

resource "aws_subnet" "this" {
  vpc_id            = aws_vpc.this.id
  cidr_block        = "10.97.1.0/24"
  availability_zone = data.aws_availability_zones.this.names[0]
  tags              = local.tags
}

resource "aws_instance" "this" {
  ami           = data.aws_ami.this.id
  instance_type = data.aws_ec2_instance_type.this.instance_type
  subnet_id     = aws_subnet.this.id
  user_data     = "#!/bin/sh\necho made by ${var.name}\n"
  tags          = local.tags
}

resource "aws_ebs_volume" "this" {
  availability_zone = aws_instance.this.availability_zone
  size              = var.revision > 1 ? 2 : 1
  type              = "gp3"
  tags              = local.tags
}

resource "aws_volume_attachment" "this" {
  device_name = "/dev/sdf"
  instance_id = aws_instance.this.id
  volume_id   = aws_ebs_volume.this.id
}
