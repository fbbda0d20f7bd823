variable "name" {
  description = "Prefix of the names of the roles: NAME-producer and so on."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "stores" {
  description = "All stores of the cluster by store id: the output stores of the module storage, merged over its calls."
  type = map(object({
    bucket_arn  = string
    prefix      = string
    kms_key_arn = string
    region      = string
  }))

  validation {
    condition     = length(var.stores) > 0
    error_message = "stores must have at least one store."
  }

  validation {
    condition = alltrue([
      for store in values(var.stores) :
      can(regex("^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$", store.prefix))
    ])
    error_message = "A prefix must have parts of A-Z, a-z, 0-9, _, . and -, separated by /, and no / at its ends: any other sign could widen a right."
  }

  validation {
    condition     = alltrue([for store in values(var.stores) : can(regex("^arn:aws:s3:::[a-z0-9.-]+$", store.bucket_arn))])
    error_message = "bucket_arn must be the ARN of one bucket, without wildcards."
  }
}

variable "metadata_store" {
  description = "Id of the store at whose address the metadata chain lives: the address of the cluster is its url."
  type        = string

  validation {
    condition     = contains(keys(var.stores), var.metadata_store)
    error_message = "metadata_store must be one of the ids of stores."
  }
}

variable "trusted" {
  description = "Who may take each role: AWS services, such as ecs-tasks.amazonaws.com, and ARNs of principals. Roles are producer, consumer, maintenance, coordinator, agent and operator; a role without any of these is not created, but its policy is in policy_json."
  type = map(object({
    services = optional(list(string), [])
    arns     = optional(list(string), [])
  }))
  default = {}

  validation {
    condition     = alltrue([for role in keys(var.trusted) : contains(["producer", "consumer", "maintenance", "coordinator", "agent", "operator"], role)])
    error_message = "trusted must name the roles producer, consumer, maintenance, coordinator, agent and operator, and no others."
  }

  validation {
    condition     = alltrue(flatten([for who in values(var.trusted) : [for service in who.services : can(regex("^[a-z0-9.-]+[.]amazonaws[.]com$", service))]]))
    error_message = "A service must be a name such as ecs-tasks.amazonaws.com."
  }

  validation {
    condition     = alltrue(flatten([for who in values(var.trusted) : [for arn in who.arns : !strcontains(arn, "*")]]))
    error_message = "An ARN in trusted must name one principal: * would let anybody in."
  }
}

variable "embedded" {
  description = "The cluster has no coordinators: producers, agents and jobs commit by themselves, so they write the metadata chain, and consumers read it. A consumer of a group then commits its offsets, and needs the role of a producer besides."
  type        = bool
  default     = false
}

variable "account_id" {
  description = "The AWS account in which services take the roles. With it, no service can be talked into taking them for another account."
  type        = string
  default     = null

  validation {
    condition     = var.account_id == null || can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must have 12 digits."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of a policy that bounds what the roles may do, if your account demands one."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the roles."
  type        = map(string)
  default     = {}
}
