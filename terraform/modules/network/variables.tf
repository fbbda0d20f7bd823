variable "name" {
  description = "Prefix of the names of everything that is made."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "region" {
  description = "Region of the provider that this module is called with."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}-[a-z]+-[0-9]$", var.region)) && !startswith(var.region, "cn-")
    error_message = "region must be the code of a region, such as eu-central-1, and none of cn-* and us-gov-*: the ARNs here begin with arn:aws, theirs don't."
  }
}

variable "availability_zones" {
  description = "The two or three zones of a new VPC, such as [\"eu-central-1a\", \"eu-central-1b\"]: a private subnet in each."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id != null || (length(distinct(var.availability_zones)) == length(var.availability_zones) && contains([2, 3], length(var.availability_zones)))
    error_message = "availability_zones must be two or three different zones for a new VPC."
  }
}

variable "cidr" {
  description = "Addresses of a new VPC. Each subnet gets a sixteenth of them."
  type        = string
  default     = "10.70.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && try(tonumber(split("/", var.cidr)[1]) >= 16 && tonumber(split("/", var.cidr)[1]) <= 22, false)
    error_message = "cidr must be a block of IPv4 addresses from /16 to /22."
  }
}

variable "vpc_id" {
  description = "Id of an existing VPC. Null: a new one. It must be known when Terraform plans: if the same configuration makes the VPC, apply that alone first (terraform apply -target=module.vpc)."
  type        = string
  default     = null

  validation {
    condition     = var.vpc_id == null || can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id must be the id of a VPC, such as vpc-0a1b2c3d."
  }
}

variable "subnet_ids" {
  description = "Two or more private subnets of the existing VPC, each in another zone."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id == null ? length(var.subnet_ids) == 0 : length(distinct(var.subnet_ids)) == length(var.subnet_ids) && length(var.subnet_ids) >= 2
    error_message = "subnet_ids must be two or more different subnets if vpc_id is given, and empty otherwise."
  }
}

variable "route_table_ids" {
  description = "Route tables of these subnets: the gateway endpoint for S3 enters its routes there."
  type        = list(string)
  default     = []

  validation {
    condition     = var.vpc_id == null || !var.s3_endpoint ? true : length(var.route_table_ids) > 0
    error_message = "route_table_ids must name the route tables of the subnets, for the gateway endpoint for S3. Set s3_endpoint = false if the VPC has one."
  }
}

variable "s3_endpoint" {
  description = "Make the gateway endpoint for S3. It costs nothing, and no byte of the log goes through a NAT gateway."
  type        = bool
  default     = true

  validation {
    condition     = var.s3_endpoint || var.vpc_id != null
    error_message = "s3_endpoint must be true for a new VPC."
  }
}

variable "interface_endpoints" {
  description = "AWS services that get an interface endpoint in each subnet. Empty if the existing VPC has them, or a NAT gateway in their place."
  type        = set(string)
  default     = ["ecr.api", "ecr.dkr", "logs", "secretsmanager", "kms", "sts"]

  validation {
    condition     = alltrue([for service in var.interface_endpoints : can(regex("^[a-z0-9.-]+$", service)) && service != "s3"])
    error_message = "interface_endpoints must be names of services, such as ecr.api, and not s3, which has a gateway endpoint."
  }
}

variable "nat" {
  description = "Make a NAT gateway in a new VPC. Needed for stores in another region, which no endpoint reaches. It costs by the hour and by the byte."
  type        = bool
  default     = false

  validation {
    condition     = !var.nat || var.vpc_id == null
    error_message = "nat must be false if vpc_id is given: an existing VPC keeps its routes."
  }
}

variable "https_cidrs" {
  description = "Addresses that clients and coordinators may reach at port 443, besides S3 and the endpoints made here: those of endpoints that the VPC has, or 0.0.0.0/0 through its NAT gateway. With nat = true that is all addresses."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.https_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "https_cidrs must be blocks of IPv4 addresses, such as 10.0.0.0/16: the subnets and rules here have no IPv6."
  }
}

variable "s3_prefix_list_id" {
  description = "Id of the prefix list of S3 in this region, if the existing VPC has its own gateway endpoint (s3_endpoint = false)."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
