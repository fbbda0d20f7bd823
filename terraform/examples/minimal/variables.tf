variable "name" {
  description = "Prefix of the names of everything that is made. Names of buckets are unique in the whole of AWS."
  type        = string
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
  description = "Addresses that get the alarms."
  type        = set(string)
  default     = []
}

variable "running" {
  description = "True: the schedules start jobs. Set it once init_command has run."
  type        = bool
  default     = false
}

variable "force_destroy" {
  description = "Let terraform destroy delete the log, too."
  type        = bool
  default     = false
}
