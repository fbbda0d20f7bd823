output "vpc_id" {
  description = "Id of the VPC, new or given."
  value       = local.vpc_id
}

output "subnet_ids" {
  description = "Ids of the private subnets, in the order of the zones."
  value       = local.subnet_ids

  # What runs there needs its routes and endpoints from the beginning.
  depends_on = [
    aws_route_table_association.private,
    aws_route.private,
    aws_vpc_endpoint.s3,
    aws_vpc_endpoint.interface,
  ]
}

output "availability_zones" {
  description = "Zones of the private subnets of a new VPC, in the same order; empty for a VPC of yours."
  value       = local.is_new ? var.availability_zones : []
}

output "client_security_group_id" {
  description = "Security group of clients: agents, Spark jobs, and whatever of yours reads or writes the log."
  value       = aws_security_group.clients.id
}

output "coordinator_security_group_id" {
  description = "Security group of the coordinators."
  value       = aws_security_group.coordinators.id
}

output "load_balancer_security_group_id" {
  description = "Security group of the load balancer in front of the coordinators."
  value       = aws_security_group.load_balancer.id
}

output "endpoint_security_group_id" {
  description = "Security group of the interface endpoints."
  value       = aws_security_group.endpoints.id
}

output "s3_endpoint_id" {
  description = "Id of the gateway endpoint for S3, or null: a bucket policy of yours may demand it."
  value       = var.s3_endpoint ? aws_vpc_endpoint.s3[0].id : null
}
