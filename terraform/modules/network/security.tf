# Allowed connections:
#
#   clients ----- 7400 to 7404 ---> load balancer ----- 7400 to 7404 ---> coordinators
#   clients, coordinators ----- 443 ---> endpoints, S3, https_cidrs
#
# Clients are agents, Spark jobs, and your own producers and consumers. Nothing outside these groups can connect.
locals {
  first_port = 7400 # as in the module coordinator, which has at most five coordinators
  last_port  = 7404
}

resource "aws_security_group" "clients" {
  #checkov:skip=CKV2_AWS_5:the modules agents and spark attach it
  name        = "${var.name}-clients"
  description = "Clients of the log: agents, Spark jobs, producers and consumers"
  vpc_id      = local.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-clients" })
}

resource "aws_security_group" "load_balancer" {
  #checkov:skip=CKV2_AWS_5:the module coordinator attaches it
  name        = "${var.name}-load-balancer"
  description = "The load balancer in front of the coordinators"
  vpc_id      = local.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-load-balancer" })
}

resource "aws_security_group" "coordinators" {
  #checkov:skip=CKV2_AWS_5:the module coordinator attaches it
  name        = "${var.name}-coordinators"
  description = "Coordinators"
  vpc_id      = local.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-coordinators" })
}

resource "aws_security_group" "endpoints" {
  #checkov:skip=CKV2_AWS_5:the endpoints of this module have it, if there are any
  name        = "${var.name}-endpoints"
  description = "Interface endpoints of AWS services"
  vpc_id      = local.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-endpoints" })
}

resource "aws_vpc_security_group_egress_rule" "clients_to_load_balancer" {
  security_group_id            = aws_security_group.clients.id
  description                  = "Commands and metadata"
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.first_port
  to_port                      = local.last_port
}

resource "aws_vpc_security_group_ingress_rule" "load_balancer_from_clients" {
  security_group_id            = aws_security_group.load_balancer.id
  description                  = "Commands and metadata"
  referenced_security_group_id = aws_security_group.clients.id
  ip_protocol                  = "tcp"
  from_port                    = local.first_port
  to_port                      = local.last_port
}

resource "aws_vpc_security_group_egress_rule" "load_balancer_to_coordinators" {
  security_group_id            = aws_security_group.load_balancer.id
  description                  = "Commands, metadata and health checks"
  referenced_security_group_id = aws_security_group.coordinators.id
  ip_protocol                  = "tcp"
  from_port                    = local.first_port
  to_port                      = local.last_port
}

resource "aws_vpc_security_group_ingress_rule" "coordinators_from_load_balancer" {
  security_group_id            = aws_security_group.coordinators.id
  description                  = "Commands, metadata and health checks"
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.first_port
  to_port                      = local.last_port
}

locals {
  callers = {
    clients      = aws_security_group.clients.id
    coordinators = aws_security_group.coordinators.id
  }

  https_cidrs = local.has_nat ? ["0.0.0.0/0"] : var.https_cidrs
}

resource "aws_vpc_security_group_egress_rule" "to_endpoints" {
  for_each = local.callers

  security_group_id            = each.value
  description                  = "AWS services"
  referenced_security_group_id = aws_security_group.endpoints.id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  for_each = local.callers

  security_group_id            = aws_security_group.endpoints.id
  description                  = "AWS services, from ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

resource "aws_vpc_security_group_egress_rule" "to_s3" {
  for_each = var.s3_endpoint || var.s3_prefix_list_id != null ? local.callers : {}

  security_group_id = each.value
  description       = "Stores"
  prefix_list_id    = var.s3_endpoint ? aws_vpc_endpoint.s3[0].prefix_list_id : var.s3_prefix_list_id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "to_https" {
  for_each = { for pair in setproduct(keys(local.callers), local.https_cidrs) : "${pair[0]} ${pair[1]}" => pair }

  security_group_id = local.callers[each.value[0]]
  description       = "AWS services and stores outside"
  cidr_ipv4         = each.value[1]
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
