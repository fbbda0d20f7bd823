variable "name" {
  description = "Prefix of the names of everything that is made. Names of buckets are unique in the whole of AWS."
  type        = string
}

variable "region" {
  description = "Region of the first store, the metadata chain, the coordinators, the agents and the jobs."
  type        = string
  default     = "eu-central-1"
}

variable "second_region" {
  description = "Region of the second store."
  type        = string
  default     = "eu-west-1"

  validation {
    condition     = var.second_region != var.region
    error_message = "second_region is another one than region."
  }
}

variable "availability_zones" {
  description = "Two or three zones of region."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]
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
  description = "ARNs of the keys that encrypt these secrets."
  type        = list(string)
}

variable "trusted" {
  description = "Further principals that may take roles, as the module iam takes them: producer, consumer, operator."
  type = map(object({
    services = optional(list(string), [])
    arns     = optional(list(string), [])
  }))
  default = {}
}

variable "running" {
  description = "True: coordinators and agents run, and the schedules start jobs. Set it once the cluster is initialised."
  type        = bool
  default     = false
}
