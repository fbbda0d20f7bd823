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

variable "stores" {
  description = "The stores that get an agent, by store id: the output stores of the module storage. A cluster with one store needs none. Agents read from other stores as well, so those of other regions may run here, too."
  type = map(object({
    zone = optional(string)
  }))

  validation {
    condition     = length(var.stores) >= 2
    error_message = "stores must have two or more stores: with one there is nothing to fetch."
  }
}

variable "store_ids" {
  description = "Ids of the stores that have an agent by now. Null: all. A new store is left out until sparklog store add has registered it: its agent would end at once."
  type        = set(string)
  default     = null

  validation {
    condition     = var.store_ids == null || length(setsubtract(coalesce(var.store_ids, []), keys(var.stores))) == 0
    error_message = "store_ids must be ids of stores."
  }
}

variable "cluster" {
  description = "Address of the cluster: the output url of the module coordinator, or s3:// of the metadata if there are no coordinators."
  type        = string

  validation {
    condition     = can(regex("^(s3://|https://)", var.cluster))
    error_message = "cluster must be s3://BUCKET/PREFIX, or https://HOST:PORT, several separated by commas."
  }
}

variable "image" {
  description = "The image: that of the coordinators."
  type        = string

  validation {
    condition     = can(regex("^[^:@]+(:[0-9]+/[^:@]+)?(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "image must have a tag other than latest, or a digest: otherwise agents that start later may run another version."
  }
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories that hold the image. Empty if it comes from elsewhere."
  type        = list(string)
  default     = []
}

variable "ecs_cluster_arn" {
  description = "ARN of the ECS cluster."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets. Each agent may run in any of them."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "subnet_ids must have at least one subnet."
  }
}

variable "security_group_ids" {
  description = "Security groups of the agents: that of clients."
  type        = list(string)

  validation {
    condition     = length(var.security_group_ids) > 0
    error_message = "security_group_ids must have at least one group: the default group of a VPC lets everything out."
  }
}

variable "task_role_arn" {
  description = "ARN of the role of the agents: role_arns[\"agent\"] of the module iam, which ecs-tasks.amazonaws.com may take."
  type        = string
}

variable "token_secret_arn" {
  description = "ARN of the secret with the token of the agents, as plain text. It has the rights maintain:* and describe:*. Null if cluster is s3://."
  type        = string
  default     = null

  validation {
    condition     = startswith(var.cluster, "s3://") || can(regex("^arn:aws:secretsmanager:", coalesce(var.token_secret_arn, "-")))
    error_message = "token_secret_arn must be the ARN of a secret in Secrets Manager: coordinators ask for a token."
  }
}

variable "secret_key_arns" {
  description = "ARNs of the keys that encrypt this secret. Empty: the key of AWS."
  type        = list(string)
  default     = []
}

variable "ca_pem" {
  description = "Certificate of the CA that signed that of the coordinators (PEM; it is no secret). Null if the machine's own list of CAs has it."
  type        = string
  default     = null

  validation {
    condition     = var.ca_pem == null || strcontains(coalesce(var.ca_pem, "-"), "-----BEGIN CERTIFICATE-----") && !strcontains(coalesce(var.ca_pem, "-"), "PRIVATE KEY")
    error_message = "ca_pem must be a certificate in PEM, without a private key."
  }
}

variable "log_group" {
  description = "The log group of the agents."
  type        = object({ name = string, arn = string })
}

variable "config" {
  description = "Text of a config file (conf/sparklog.toml): regions of stores that are elsewhere, for example. It holds no secrets. Null: none is needed."
  type        = string
  default     = null

  validation {
    condition     = var.config == null || !can(regex("(?m)^\\s*(secret_access_key|session_token|password|token)\\s*=", coalesce(var.config, "-")))
    error_message = "config must not hold secrets: it is kept in the state."
  }
}

variable "cpu" {
  description = "CPU of an agent in units of 1/1024."
  type        = number
  default     = 512

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192, 16384], var.cpu)
    error_message = "cpu must be 256, 512, 1024, 2048, 4096, 8192 or 16384."
  }
}

variable "memory_mib" {
  description = "Memory of an agent in MiB."
  type        = number
  default     = 1024

  validation {
    condition     = var.memory_mib >= var.cpu * 2 && var.memory_mib <= var.cpu * 8
    error_message = "memory_mib must be from 2 to 8 times cpu."
  }
}

variable "running" {
  description = "False: no agent runs. For the time before the cluster is initialised, and during a restore."
  type        = bool
  default     = true
}

variable "wait_for_steady_state" {
  description = "Let terraform apply wait until each agent is up."
  type        = bool
  default     = true
}

variable "account_id" {
  description = "The AWS account in which ECS takes the execution role. With it, ECS can't be talked into taking it for another account."
  type        = string
  default     = null

  validation {
    condition     = var.account_id == null || can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must have 12 digits."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of a policy that bounds what the execution role may do, if your account demands one."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
