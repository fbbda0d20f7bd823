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

variable "account_id" {
  description = "The AWS account. Its log groups and topic are encrypted with a key that only they may use."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must have 12 digits."
  }
}

variable "log_groups" {
  description = "The log groups: each is called /sparklog/NAME/GROUP."
  type        = set(string)
  default     = ["agents", "coordinators", "jobs"]

  validation {
    condition     = alltrue([for group in var.log_groups : can(regex("^[a-z][a-z0-9-]{0,30}$", group))])
    error_message = "A log group must have 1 to 31 of a-z, 0-9 and -, and begin with a letter."
  }
}

variable "retention_days" {
  description = "Days that logs are kept. The audit of the coordinators is among them."
  type        = number
  default     = 365

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.retention_days)
    error_message = "retention_days must be 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

variable "metadata_url" {
  description = "Address of the metadata chain: the dimension Cluster of the coordinators' metrics. Null: there are no coordinators."
  type        = string
  default     = null
}

variable "emf_namespace" {
  description = "Namespace of the coordinators' metrics: emf_namespace of the module coordinator."
  type        = string
  default     = "sparklog"
}

variable "load_balancer" {
  description = "What CloudWatch calls the load balancer and the target groups of the coordinators: load_balancer.arn_suffix and target_groups of the module coordinator."
  type        = object({ arn_suffix = string, target_groups = map(string) })
  default     = null
}

variable "dead_letter_queue" {
  description = "The queue of the module schedules. Null: there are no schedules."
  type        = object({ name = string })
  default     = null
}

variable "application" {
  description = "The EMR Serverless application of the module spark. Null: there are no jobs."
  type        = object({ id = string })
  default     = null
}

variable "running" {
  description = "False: no alarm is sent. For the time before the cluster is initialised, and during a restore."
  type        = bool
  default     = true
}

variable "emails" {
  description = "Addresses that get the alarms. Each gets a mail from AWS, and gets alarms only once it has confirmed that."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for email in var.emails : can(regex("^[^@\\s]+@[^@\\s]+$", email))])
    error_message = "emails must have addresses such as oncall@example.org."
  }
}

variable "alarm_actions" {
  description = "ARNs of further topics or actions that alarms call."
  type        = list(string)
  default     = []
}

variable "server_errors_per_minute" {
  description = "Requests answered with 5xx in a minute above which an alarm goes off, if it stays so for five minutes. A busy or new coordinator answers some with 503, and clients try again."
  type        = number
  default     = 10

  validation {
    condition     = var.server_errors_per_minute >= 0
    error_message = "server_errors_per_minute must not be negative."
  }
}

variable "max_lag_records" {
  description = "Records that the replica furthest behind on any store may lack for half an hour before an alarm goes off."
  type        = number
  default     = 1000000

  validation {
    condition     = var.max_lag_records >= 0
    error_message = "max_lag_records must not be negative."
  }
}

variable "key_deletion_days" {
  description = "Days between the deletion of the key of logs and alarms and its end."
  type        = number
  default     = 30

  validation {
    condition     = var.key_deletion_days >= 7 && var.key_deletion_days <= 30
    error_message = "key_deletion_days must be from 7 to 30."
  }
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
