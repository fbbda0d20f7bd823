variable "name" {
  description = "Prefix of the names of everything that is made: 2 to 24 of a-z, 0-9 and -. Names of buckets are unique in the whole of AWS."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "region" {
  description = "Region of the cluster and the VPC."
  type        = string
  default     = "eu-central-1"
}

variable "account_id" {
  description = "The AWS account."
  type        = string
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the VPC, each in another zone."
  type        = list(string)
}

variable "s3_prefix_list_id" {
  description = "Id of the prefix list of S3 in this region: aws ec2 describe-managed-prefix-lists."
  type        = string
}

variable "endpoint_cidrs" {
  description = "Addresses at which the VPC reaches ECR, CloudWatch Logs, Secrets Manager, KMS and STS: those of its interface endpoints, or 0.0.0.0/0 for a NAT gateway."
  type        = list(string)
}

variable "dist_dir" {
  description = "The folder that make dist has written."
  type        = string
  default     = "../../../dist"
}

variable "image" {
  description = "The image of the coordinators."
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

variable "hosted_zone_id" {
  description = "Id of the Route 53 zone of dns_name."
  type        = string
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
  description = "The secret with the token of the jobs."
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

variable "running" {
  description = "True: coordinators run, the schedules start jobs, and alarms are sent. Set it once the cluster is initialised."
  type        = bool
  default     = false
}
