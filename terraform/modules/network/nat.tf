# One NAT gateway in the first zone: if that zone fails, only what is outside of the region can't be reached.
resource "aws_internet_gateway" "this" {
  count = local.has_nat ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "public" {
  count = local.has_nat ? 1 : 0

  vpc_id            = aws_vpc.this[0].id
  availability_zone = var.availability_zones[0]
  cidr_block        = cidrsubnet(var.cidr, 4, 15)
  tags              = merge(var.tags, { Name = "${var.name}-public" })
}

resource "aws_route_table" "public" {
  count = local.has_nat ? 1 : 0

  vpc_id = aws_vpc.this[0].id
  tags   = merge(var.tags, { Name = "${var.name}-public" })
}

resource "aws_route" "public" {
  count = local.has_nat ? 1 : 0

  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "public" {
  count = local.has_nat ? 1 : 0

  subnet_id      = aws_subnet.public[0].id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_eip" "nat" {
  #checkov:skip=CKV2_AWS_19:it belongs to the NAT gateway
  count = local.has_nat ? 1 : 0

  domain = "vpc"
  tags   = merge(var.tags, { Name = "${var.name}-nat" })
}

resource "aws_nat_gateway" "this" {
  count = local.has_nat ? 1 : 0

  allocation_id = aws_eip.nat[0].id
  subnet_id     = aws_subnet.public[0].id
  tags          = merge(var.tags, { Name = var.name })

  depends_on = [aws_route.public]
}

resource "aws_route" "private" {
  #checkov:skip=CKV2_AWS_44:it is a route to a NAT gateway, not to a peering
  for_each = local.has_nat ? local.new_zones : {}

  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[0].id
}
