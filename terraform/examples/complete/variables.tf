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

variable "availability_zones" {
  description = "Two or three zones of the region."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
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

variable "image_tag" {
  description = "Tag of the image in the repository that this makes."
  type        = string
}

variable "coordinators" {
  description = "How many coordinators run."
  type        = number
  default     = 2
}

variable "dns_zone" {
  description = "A private zone of the VPC, which is made. The certificate is made out for log.DNS_ZONE."
  type        = string
  default     = "sparklog.internal"
}

variable "ca_file" {
  description = "File with the certificate of the CA that signed that of the coordinators. Null if every machine's own list has it."
  type        = string
  default     = null
}

variable "producer_arns" {
  description = "ARNs of the roles and users that write the log."
  type        = list(string)
  default     = []
}

variable "consumer_arns" {
  description = "ARNs of the roles and users that read the log."
  type        = list(string)
  default     = []
}

variable "operator_arns" {
  description = "ARNs of the roles and users that set the cluster up and restore it."
  type        = list(string)
  default     = []
}

variable "emails" {
  description = "Addresses that get the alarms. Each gets a mail from AWS, and gets alarms only once it has confirmed that."
  type        = set(string)
  default     = []
}

variable "agent_stores" {
  description = "Ids of the stores that have an agent by now. Null: all. Leave a new store out until sparklog store add has registered it: its agent would end at once."
  type        = set(string)
  default     = null
}

variable "running" {
  description = "True: coordinators and agents run, the schedules start jobs, and alarms are sent. Set it once the image is pushed, the secrets have values, and init_command has run."
  type        = bool
  default     = false
}

variable "wait_for_steady_state" {
  description = "Let terraform apply wait until coordinators and agents are up."
  type        = bool
  default     = true
}

variable "secret_recovery_days" {
  description = "Days in which a deleted secret can be brought back; 0: none."
  type        = number
  default     = 7
}

variable "force_destroy" {
  description = "Let terraform destroy delete the log and the images, too."
  type        = bool
  default     = false
}
