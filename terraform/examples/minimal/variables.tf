variable "name" {
  description = "Prefix of the names of everything that is made: 2 to 24 of a-z, 0-9 and -. Names of buckets are unique in the whole of AWS."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "region" {
  description = "Region of the cluster."
  type        = string
  default     = "eu-central-1"
}

variable "account_id" {
  description = "The AWS account."
  type        = string
}

variable "dist_dir" {
  description = "The folder that make dist has written."
  type        = string
  default     = "../../../dist"
}

variable "client_arns" {
  description = "ARNs of the roles and users that read and write the log, and set it up."
  type        = list(string)
  default     = []
}

variable "emails" {
  description = "Addresses that get the alarms. Each gets a mail from AWS, and gets alarms only once it has confirmed that."
  type        = set(string)
  default     = []
}

variable "running" {
  description = "True: the schedules start jobs, and alarms are sent. Set it once init_command has run."
  type        = bool
  default     = false
}

variable "force_destroy" {
  description = "Let terraform destroy delete the log, too."
  type        = bool
  default     = false
}
