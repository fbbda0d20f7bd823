mock_provider "aws" {}

variables {
  name               = "acme-log"
  region             = "eu-central-1"
  availability_zones = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
}

run "a_new_vpc" {
  assert {
    condition     = join(" ", [for zone in var.availability_zones : aws_subnet.private[zone].cidr_block]) == "10.70.0.0/20 10.70.16.0/20 10.70.32.0/20"
    error_message = "Each zone has a private subnet with a sixteenth of the addresses."
  }

  assert {
    condition     = join(" ", output.subnet_ids) == join(" ", [for zone in var.availability_zones : aws_subnet.private[zone].id])
    error_message = "subnet_ids are in the order of the zones."
  }

  assert {
    condition     = length(aws_internet_gateway.this) + length(aws_nat_gateway.this) + length(aws_subnet.public) == 0
    error_message = "Without nat nothing leads out of the VPC."
  }

  assert {
    condition     = aws_vpc_endpoint.s3[0].service_name == "com.amazonaws.eu-central-1.s3" && aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway" && length(aws_vpc_endpoint.s3[0].route_table_ids) == 3
    error_message = "S3 is reached by a gateway endpoint from all subnets."
  }

  assert {
    condition     = join(" ", keys(aws_vpc_endpoint.interface)) == "ecr.api ecr.dkr kms logs secretsmanager sts" && alltrue([for endpoint in values(aws_vpc_endpoint.interface) : endpoint.private_dns_enabled && join(" ", endpoint.security_group_ids) == aws_security_group.endpoints.id])
    error_message = "Services that a task needs to start have endpoints, behind a security group of their own."
  }
}

run "only_the_ports_that_are_needed_are_open" {
  assert {
    condition = alltrue([
      for rule in concat([aws_vpc_security_group_ingress_rule.load_balancer_from_clients, aws_vpc_security_group_ingress_rule.coordinators_from_load_balancer]) :
      rule.from_port == 7400 && rule.to_port == 7404 && rule.ip_protocol == "tcp" && rule.cidr_ipv4 == null && rule.cidr_ipv6 == null
    ])
    error_message = "Coordinators are reached at their ports, and from no addresses but through the security groups."
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.load_balancer_from_clients.referenced_security_group_id == aws_security_group.clients.id && aws_vpc_security_group_ingress_rule.coordinators_from_load_balancer.referenced_security_group_id == aws_security_group.load_balancer.id
    error_message = "Clients reach the load balancer, and only that reaches coordinators."
  }

  assert {
    condition     = alltrue([for rule in values(aws_vpc_security_group_ingress_rule.endpoints) : rule.from_port == 443 && rule.to_port == 443 && rule.cidr_ipv4 == null])
    error_message = "Endpoints are reached at port 443 by clients and coordinators."
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.to_https) == 0
    error_message = "Without nat or https_cidrs no address outside can be reached."
  }
}

run "with_nat" {
  variables {
    nat = true
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_route.private) == 3 && aws_subnet.public[0].cidr_block == "10.70.240.0/20"
    error_message = "All private subnets go out by one NAT gateway, in a public subnet."
  }

  assert {
    condition     = alltrue([for rule in values(aws_vpc_security_group_egress_rule.to_https) : rule.from_port == 443 && rule.to_port == 443])
    error_message = "Outside only port 443 is reached."
  }
}

run "a_vpc_of_yours" {
  variables {
    availability_zones = []
    vpc_id             = "vpc-0a1b2c3d"
    subnet_ids         = ["subnet-1", "subnet-2"]
    route_table_ids    = ["rtb-1"]
    https_cidrs        = ["10.0.0.0/8"]
  }

  assert {
    condition     = length(aws_vpc.this) + length(aws_subnet.private) + length(aws_route_table.private) + length(aws_default_security_group.this) == 0
    error_message = "Nothing of a VPC of yours is made or changed but its endpoints and security groups."
  }

  assert {
    condition     = output.vpc_id == "vpc-0a1b2c3d" && join(" ", output.subnet_ids) == "subnet-1 subnet-2" && aws_security_group.clients.vpc_id == "vpc-0a1b2c3d"
    error_message = "Its ids go through."
  }

  assert {
    condition     = join(" ", aws_vpc_endpoint.s3[0].route_table_ids) == "rtb-1"
    error_message = "The gateway endpoint enters its route tables."
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.to_https) == 2
    error_message = "Clients and coordinators reach https_cidrs."
  }
}

run "a_vpc_of_yours_that_has_its_endpoints" {
  variables {
    availability_zones  = []
    vpc_id              = "vpc-0a1b2c3d"
    subnet_ids          = ["subnet-1", "subnet-2"]
    s3_endpoint         = false
    s3_prefix_list_id   = "pl-123"
    interface_endpoints = []
    https_cidrs         = ["10.0.0.0/8"]
  }

  assert {
    condition     = length(aws_vpc_endpoint.s3) + length(aws_vpc_endpoint.interface) == 0 && aws_vpc_security_group_egress_rule.to_s3["clients"].prefix_list_id == "pl-123"
    error_message = "No endpoint is made, and S3 is reached by the prefix list."
  }
}

run "refuses_one_zone" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "refuses_the_same_zone_twice" {
  command = plan

  variables {
    availability_zones = ["eu-central-1a", "eu-central-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "refuses_a_small_block_of_addresses" {
  command = plan

  variables {
    cidr = "10.70.0.0/26"
  }

  expect_failures = [var.cidr]
}

run "refuses_a_vpc_without_subnets" {
  command = plan

  variables {
    vpc_id      = "vpc-0a1b2c3d"
    s3_endpoint = false
  }

  expect_failures = [var.subnet_ids]
}

run "refuses_subnets_without_a_vpc" {
  command = plan

  variables {
    subnet_ids = ["subnet-1", "subnet-2"]
  }

  expect_failures = [var.subnet_ids]
}

run "refuses_an_endpoint_without_route_tables" {
  command = plan

  variables {
    vpc_id     = "vpc-0a1b2c3d"
    subnet_ids = ["subnet-1", "subnet-2"]
  }

  expect_failures = [var.route_table_ids]
}

run "refuses_nat_in_a_vpc_of_yours" {
  command = plan

  variables {
    vpc_id          = "vpc-0a1b2c3d"
    subnet_ids      = ["subnet-1", "subnet-2"]
    route_table_ids = ["rtb-1"]
    nat             = true
  }

  expect_failures = [var.nat]
}

run "refuses_an_interface_endpoint_for_s3" {
  command = plan

  variables {
    interface_endpoints = ["s3"]
  }

  expect_failures = [var.interface_endpoints]
}

run "refuses_addresses_of_ipv6" {
  command = plan

  variables {
    https_cidrs = ["10.0.0.0/16", "2001:db8::/32"]
  }

  expect_failures = [var.https_cidrs]
}
