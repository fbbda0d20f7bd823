locals {
  is_new          = var.vpc_id == null
  vpc_id          = local.is_new ? aws_vpc.this[0].id : var.vpc_id
  subnet_ids      = local.is_new ? [for zone in var.availability_zones : aws_subnet.private[zone].id] : var.subnet_ids
  route_table_ids = local.is_new ? [for zone in var.availability_zones : aws_route_table.private[zone].id] : var.route_table_ids
  new_zones       = local.is_new ? { for index, zone in var.availability_zones : zone => index } : {}
  has_nat         = local.is_new && var.nat
}

resource "aws_vpc" "this" {
  #checkov:skip=CKV2_AWS_11:flow logs cost by the byte, and security groups let nothing in from outside
  count = local.is_new ? 1 : 0

  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true # interface endpoints are found by the names of their services
  tags                 = merge(var.tags, { Name = var.name })
}

# Resources without a security group of their own get this one: it allows no traffic at all.
resource "aws_default_security_group" "this" {
  count = local.is_new ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(var.tags, { Name = "${var.name}-nothing" })
}

resource "aws_subnet" "private" {
  for_each = local.new_zones

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.cidr, 4, each.value)
  tags              = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route_table" "private" {
  for_each = local.new_zones

  vpc_id = aws_vpc.this[0].id
  tags   = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route_table_association" "private" {
  for_each = local.new_zones

  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}
