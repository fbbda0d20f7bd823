variable "name" {
  description = "Prefix of the names of everything that is made."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,31}$", var.name))
    error_message = "name has 1 to 32 of a-z, 0-9 and -, and begins with a letter."
  }
}

variable "region" {
  description = "Region of the provider that this module is called with."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region is the code of a region, such as eu-central-1."
  }
}

variable "availability_zones" {
  description = "The two or three zones of a new VPC, such as [\"eu-central-1a\", \"eu-central-1b\"]: a private subnet in each."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id != null || (length(distinct(var.availability_zones)) == length(var.availability_zones) && contains([2, 3], length(var.availability_zones)))
    error_message = "A new VPC needs two or three different availability_zones."
  }
}

variable "cidr" {
  description = "Addresses of a new VPC. Each subnet gets a sixteenth of them."
  type        = string
  default     = "10.70.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && try(tonumber(split("/", var.cidr)[1]) >= 16 && tonumber(split("/", var.cidr)[1]) <= 22, false)
    error_message = "cidr is a block of IPv4 addresses from /16 to /22."
  }
}

variable "vpc_id" {
  description = "Id of a VPC of yours. Null: a new one."
  type        = string
  default     = null

  validation {
    condition     = var.vpc_id == null || can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id is the id of a VPC, such as vpc-0a1b2c3d."
  }
}

variable "subnet_ids" {
  description = "Two or more private subnets of the VPC of yours, each in another zone."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id == null ? length(var.subnet_ids) == 0 : length(distinct(var.subnet_ids)) == length(var.subnet_ids) && length(var.subnet_ids) >= 2
    error_message = "subnet_ids are two or more different subnets if vpc_id is given, and none without it."
  }
}

variable "route_table_ids" {
  description = "Route tables of these subnets: the gateway endpoint for S3 enters its routes there."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id == null || !var.s3_endpoint ? true : length(var.route_table_ids) > 0
    error_message = "The gateway endpoint for S3 needs the route_table_ids of the subnets; or set s3_endpoint = false if the VPC has one."
  }
}

variable "s3_endpoint" {
  description = "Make the gateway endpoint for S3. It costs nothing, and no byte of the log goes through a NAT gateway."
  type        = bool
  default     = true

  validation {
    condition     = var.s3_endpoint || var.vpc_id != null
    error_message = "A new VPC needs its endpoint for S3."
  }
}

variable "interface_endpoints" {
  description = "AWS services that get an interface endpoint in each subnet. Empty if the VPC of yours has them, or a NAT gateway in their place."
  type        = set(string)
  default     = ["ecr.api", "ecr.dkr", "logs", "secretsmanager", "kms", "sts"]

  validation {
    condition     = alltrue([for service in var.interface_endpoints : can(regex("^[a-z0-9.-]+$", service)) && service != "s3"])
    error_message = "An interface endpoint is named like its service, such as ecr.api; S3 has a gateway endpoint instead."
  }
}

variable "nat" {
  description = "Make a NAT gateway in a new VPC. Needed for stores in another region, which no endpoint reaches. It costs by the hour and by the byte."
  type        = bool
  default     = false

  validation {
    condition     = !var.nat || var.vpc_id == null
    error_message = "nat is for a new VPC: a VPC of yours keeps the routes that it has."
  }
}

variable "https_cidrs" {
  description = "Addresses that clients and coordinators may reach at port 443, besides S3 and the endpoints made here: those of endpoints that the VPC has, or 0.0.0.0/0 through a NAT gateway of yours. With nat = true that is all addresses."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.https_cidrs : can(cidrhost(cidr, 0))])
    error_message = "https_cidrs are blocks of addresses, such as 10.0.0.0/16."
  }
}

variable "s3_prefix_list_id" {
  description = "Id of the prefix list of S3 in this region, if the VPC of yours has its own gateway endpoint (s3_endpoint = false)."
  type        = string
  default     = null
}

variable "coordinator_ports" {
  description = "First and last port of the coordinators behind their load balancer."
  type        = object({ from = number, to = number })
  default     = { from = 7400, to = 7404 }

  validation {
    condition     = var.coordinator_ports.from >= 1024 && var.coordinator_ports.to >= var.coordinator_ports.from && var.coordinator_ports.to - var.coordinator_ports.from < 16
    error_message = "coordinator_ports are at most 16 ports from 1024 on."
  }
}

variable "flow_log_group_arn" {
  description = "ARN of a log group for the flow logs of a new VPC. Null: none."
  type        = string
  default     = null
}

variable "flow_log_role_arn" {
  description = "ARN of the role by which flow logs are written. Needed with flow_log_group_arn."
  type        = string
  default     = null

  validation {
    condition     = (var.flow_log_group_arn == null) == (var.flow_log_role_arn == null)
    error_message = "flow_log_group_arn and flow_log_role_arn go together."
  }
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
