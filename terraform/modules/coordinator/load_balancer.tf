# TLS ends in the coordinator, so that tokens are encrypted all the way: the load balancer passes bytes on.
resource "aws_lb" "this" {
  #checkov:skip=CKV_AWS_91:a network load balancer logs only the TLS connections that it ends itself, and it ends none
  #checkov:skip=CKV_AWS_150:it keeps nothing, and an apply makes it again under the same dns_name; deletion_protection switches it on
  name                             = var.name
  internal                         = true
  load_balancer_type               = "network"
  subnets                          = var.subnet_ids
  security_groups                  = var.load_balancer_security_group_ids
  enable_cross_zone_load_balancing = true # each coordinator is in one zone, and clients are in all of them
  enable_deletion_protection       = var.deletion_protection
  tags                             = var.tags
}

resource "aws_lb_target_group" "this" {
  for_each = local.coordinators

  name                   = "${var.name}-coord-${each.key}"
  vpc_id                 = var.vpc_id
  port                   = local.port
  protocol               = "TCP"
  target_type            = "ip"
  preserve_client_ip     = true # the audit says who asked
  deregistration_delay   = 10
  connection_termination = true # clients continue at the next address at once
  tags                   = var.tags

  # Not /readyz: a coordinator that stands by must be reachable, too, and answers 503 there while none leads.
  health_check {
    protocol            = "HTTPS"
    path                = "/healthz"
    port                = "traffic-port"
    matcher             = "200"
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}

resource "aws_lb_listener" "this" {
  #checkov:skip=CKV_AWS_2:TLS ends in the coordinator, behind this listener
  #checkov:skip=CKV_AWS_103:TLS ends in the coordinator, behind this listener
  for_each = local.coordinators

  load_balancer_arn = aws_lb.this.arn
  port              = each.value.port
  protocol          = "TCP"
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this[each.key].arn
  }
}

resource "aws_route53_record" "this" {
  count = var.hosted_zone == null ? 0 : 1

  zone_id = var.hosted_zone.id
  name    = var.dns_name
  type    = "A"

  alias {
    name                   = aws_lb.this.dns_name
    zone_id                = aws_lb.this.zone_id
    evaluate_target_health = false
  }
}
