variable "name" {
  description = "Prefix of the names of everything that is made."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }

  validation {
    condition     = !startswith(var.name, "internal-")
    error_message = "name must not begin with internal-: AWS refuses load balancers with such a name."
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

variable "coordinators" {
  description = "How many coordinators run: one leads, the others stand by, each in the next of the subnets."
  type        = number
  default     = 2

  validation {
    condition     = var.coordinators >= 2 && var.coordinators <= 5 && floor(var.coordinators) == var.coordinators
    error_message = "coordinators must be from 2 to 5: with one, nothing is committed while it is replaced."
  }
}

variable "image" {
  description = "The image, with a tag that never moves or a digest. conf/kubernetes/Dockerfile builds it from what make dist writes."
  type        = string

  validation {
    condition     = can(regex("^[^:@]+(:[0-9]+/[^:@]+)?(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "image must have a tag other than latest, or a digest: otherwise coordinators that start later may run another version."
  }
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories that hold the image. Empty if it comes from elsewhere."
  type        = list(string)
  default     = []
}

variable "metadata_url" {
  description = "Address of the metadata chain: the url of the metadata store, such as s3://bucket/log. Only coordinators, vacuum and operators get it; everybody else gets the output url."
  type        = string

  validation {
    condition     = can(regex("^s3://[a-z0-9][a-z0-9-]+[a-z0-9](/[A-Za-z0-9_.-]+)+$", var.metadata_url))
    error_message = "metadata_url must be s3://BUCKET/PREFIX."
  }
}

variable "dns_name" {
  description = "The host name of the coordinators, for which the certificate is made out. It leads to the load balancer."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?[.])+[a-z][a-z0-9-]*[a-z0-9]$", var.dns_name))
    error_message = "dns_name must be a host name such as log.example.org."
  }
}

variable "hosted_zone" {
  description = "The Route 53 zone that gets the record of dns_name, a private one of this VPC as a rule. Null: make the record yourself, for the output load_balancer."
  type        = object({ id = string })
  default     = null
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets, each in another zone."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "subnet_ids must have two or more subnets, so that a zone may fail."
  }
}

variable "security_group_ids" {
  description = "Security groups of the coordinators, which let the load balancer in at port 7400."
  type        = list(string)

  validation {
    condition     = length(var.security_group_ids) > 0
    error_message = "security_group_ids must have at least one group: the default group of a VPC lets everything out."
  }
}

variable "load_balancer_security_group_ids" {
  description = "Security groups of the load balancer, which let clients in at the ports from 7400 on."
  type        = list(string)

  validation {
    condition     = length(var.load_balancer_security_group_ids) > 0
    error_message = "load_balancer_security_group_ids must have at least one group."
  }
}

variable "task_role_arn" {
  description = "ARN of the role of the coordinators: role_arns[\"coordinator\"] of the module iam, which ecs-tasks.amazonaws.com may take."
  type        = string
}

variable "tls_secret_arn" {
  description = "ARN of the secret with the certificate, as JSON with the keys certificate (it and those up to its CA, PEM) and private_key (PEM)."
  type        = string

  validation {
    condition     = can(regex("^arn:aws:secretsmanager:", var.tls_secret_arn))
    error_message = "tls_secret_arn must be the ARN of a secret in Secrets Manager."
  }
}

variable "access_secret_arn" {
  description = "ARN of the secret with the access file (TOML), as docs/security.md describes it."
  type        = string

  validation {
    condition     = can(regex("^arn:aws:secretsmanager:", var.access_secret_arn))
    error_message = "access_secret_arn must be the ARN of a secret in Secrets Manager."
  }
}

variable "operator" {
  description = "Makes a task definition NAME-operator, by which an operator runs commands of sparklog in the VPC (output operator_function): ARN of the role operator of the module iam, which ecs-tasks.amazonaws.com may take; ARN of the secret with the operator's token, as plain text; the security group of clients; the certificate of the CA of the coordinators, unless the image's own list of CAs has it. Null: none."
  type = object({
    task_role_arn      = string
    token_secret_arn   = string
    security_group_ids = list(string)
    ca_pem             = optional(string)
  })
  default = null

  validation {
    condition     = var.operator == null || can(regex("^arn:aws:secretsmanager:", var.operator.token_secret_arn))
    error_message = "operator.token_secret_arn must be the ARN of a secret in Secrets Manager."
  }

  validation {
    condition     = try(var.operator.ca_pem, null) == null || can(regex("-----BEGIN CERTIFICATE-----", var.operator.ca_pem)) && !can(regex("PRIVATE KEY", var.operator.ca_pem))
    error_message = "operator.ca_pem must be a certificate in PEM, without a private key."
  }
}

variable "secret_key_arns" {
  description = "ARNs of the keys that encrypt these secrets. Empty: the key of AWS."
  type        = list(string)
  default     = []
}

variable "log_group" {
  description = "The log group of the coordinators. It gets what they print, the audit, and the metrics. That of Container Insights, which is made here, gets the same key and is kept as long. The policy of the key must let CloudWatch Logs use it for /aws/ecs/containerinsights/NAME/performance, too, as that of the module observability does."
  type        = object({ name = string, arn = string, retention_days = optional(number, 365), kms_key_arn = optional(string) })
}

variable "emf_namespace" {
  description = "Namespace of the metrics in CloudWatch. Null: the coordinators print none."
  type        = string
  default     = "sparklog"

  validation {
    condition     = var.emf_namespace == null || can(regex("^[0-9A-Za-z._/#-][0-9A-Za-z._/#:-]{0,254}$", var.emf_namespace)) && !startswith(coalesce(var.emf_namespace, "-"), "AWS/")
    error_message = "emf_namespace must have 1 to 255 of 0-9, A-Z, a-z, ., -, _, /, # and :, and begin with neither : nor AWS/."
  }
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
  description = "CPU of a coordinator in units of 1/1024."
  type        = number
  default     = 1024

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192, 16384], var.cpu)
    error_message = "cpu must be 256, 512, 1024, 2048, 4096, 8192 or 16384."
  }
}

variable "memory_mib" {
  description = "Memory of a coordinator in MiB. It holds the state of the cluster: docs/benchmarks.md says how much that is."
  type        = number
  default     = 2048

  validation {
    condition     = var.memory_mib >= var.cpu * 2 && var.memory_mib <= var.cpu * 8
    error_message = "memory_mib must be from 2 to 8 times cpu."
  }
}

variable "running" {
  description = "False: no coordinator runs. For the time before the cluster is initialised, and during a restore."
  type        = bool
  default     = true
}

variable "wait_for_steady_state" {
  description = "Let terraform apply wait until each coordinator is up. With -parallelism=1, an upgrade then replaces one after another."
  type        = bool
  default     = true
}

variable "deletion_protection" {
  description = "Refuse to delete the load balancer."
  type        = bool
  default     = false
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
