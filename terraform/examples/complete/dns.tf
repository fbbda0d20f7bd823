resource "aws_route53_zone" "this" {
  #checkov:skip=CKV2_AWS_38:DNSSEC is for public zones
  #checkov:skip=CKV2_AWS_39:a private zone of one VPC: flow logs of the VPC tell more
  name    = var.dns_zone
  comment = "sparklog ${var.name}"

  vpc {
    vpc_id = module.network.vpc_id
  }
}
