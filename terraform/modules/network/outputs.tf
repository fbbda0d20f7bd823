output "vpc_id" {
  description = "Id of the VPC, new or given."
  value       = local.vpc_id
}

output "subnet_ids" {
  description = "Ids of the private subnets, in the order of the zones."
  value       = local.subnet_ids

  # Tasks and jobs in these subnets need their routes and endpoints from the beginning.
  depends_on = [
    aws_route_table_association.private,
    aws_route.private,
    aws_vpc_endpoint.s3,
    aws_vpc_endpoint.interface,
  ]
}

output "client_security_group_id" {
  description = "Security group of clients: agents, Spark jobs, and your own producers and consumers."
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
