variable "name" {
  description = "Prefix of the names of everything that is made: 2 to 24 of a-z, 0-9 and -. Names of buckets are unique in the whole of AWS."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "region" {
  description = "Region of store a."
  type        = string
  default     = "eu-central-1"
}

variable "second_region" {
  description = "Region of store b."
  type        = string
  default     = "eu-west-1"

  validation {
    condition     = var.second_region != var.region
    error_message = "second_region must differ from region."
  }
}

variable "metadata_store" {
  description = "Store of the metadata chain, a or b. Coordinators, agents and jobs run in its region. Change it only after a restore into the other region (docs/deploy.md)."
  type        = string
  default     = "a"

  validation {
    condition     = contains(["a", "b"], var.metadata_store)
    error_message = "metadata_store must be a or b."
  }
}

variable "availability_zones" {
  description = "Two or three zones of the region of metadata_store."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]

  validation {
    condition     = alltrue([for zone in var.availability_zones : startswith(zone, var.metadata_store == "a" ? var.region : var.second_region)])
    error_message = "availability_zones must be zones of the region of metadata_store."
  }
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

variable "image" {
  description = "The image of coordinators and agents."
  type        = string
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories that hold it."
  type        = list(string)
  default     = []
}

variable "dns_name" {
  description = "Host name of the coordinators, for which the certificate is made out."
  type        = string
}

variable "hosted_zone" {
  description = "The Route 53 zone of dns_name, as the module coordinator takes it. Null: make the record yourself."
  type        = object({ id = string })
  default     = null
}

variable "tls_secret_arn" {
  description = "ARN of the secret with certificate and private_key."
  type        = string
}

variable "access_secret_arn" {
  description = "ARN of the secret with the access file."
  type        = string
}

variable "token_secret" {
  description = "The secret with the token of jobs and agents."
  type        = object({ arn = string, name = string })
}

variable "secret_key_arns" {
  description = "ARNs of the keys that encrypt these secrets. EMR Serverless reads token_secret only if the policy of its key lets emr-serverless.amazonaws.com decrypt (examples/complete/secrets.tf)."
  type        = list(string)
}

variable "ca_file" {
  description = "File with the certificate of the CA that signed that of the coordinators. Null if every machine's own list has it."
  type        = string
  default     = null
}

variable "emails" {
  description = "Addresses that get the alarms. Each gets a mail from AWS, and gets alarms only once it has confirmed that."
  type        = set(string)
  default     = []
}

variable "trusted" {
  description = "Further principals that may take roles, as the module iam takes them: producer, consumer, operator."
  type = map(object({
    services = optional(list(string), [])
    arns     = optional(list(string), [])
  }))
  default = {}
}

variable "agent_stores" {
  description = "Ids of the stores that have an agent by now. Null: all. Leave a new store out until sparklog store add has registered it: its agent would end at once. After the loss of a region, name the other store only."
  type        = set(string)
  default     = null
}

variable "running" {
  description = "True: coordinators and agents run, the schedules start jobs, and alarms are sent. Set it once the cluster is initialised."
  type        = bool
  default     = false
}
