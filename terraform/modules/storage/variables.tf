variable "name" {
  description = "Prefix of the names of the buckets, the key and its alias. Names of buckets are unique in the whole of AWS, so take one that is yours."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "region" {
  description = "Region of the provider that this module is called with. A region needs a call of its own."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}-[a-z]+-[0-9]$", var.region)) && !startswith(var.region, "cn-")
    error_message = "region must be the code of a region, such as eu-central-1, and none of cn-* and us-gov-*: the ARNs here begin with arn:aws, theirs don't."
  }
}

variable "stores" {
  description = "The stores of this region by store id. Each has a bucket of its own (default: NAME-ID-REGION), a prefix in it, and perhaps a zone. Replicas of a partition go to different zones."
  type = map(object({
    bucket = optional(string)
    prefix = optional(string, "log")
    zone   = optional(string)
  }))

  validation {
    condition     = length(var.stores) > 0
    error_message = "stores must have at least one store."
  }

  validation {
    condition     = alltrue([for id in keys(var.stores) : can(regex("^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,62}$", id))])
    error_message = "A store id must have 1 to 63 of A-Z, a-z, 0-9, _, . and -, and not begin with a dot."
  }

  validation {
    condition     = length(distinct([for id in keys(var.stores) : lower(id)])) == length(var.stores) && !contains([for id in keys(var.stores) : lower(id)], "metadata")
    error_message = "Store ids must differ by more than case, and none may be metadata."
  }

  validation {
    condition = alltrue([
      for id, store in var.stores :
      can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", coalesce(store.bucket, "${var.name}-${id}-${var.region}")))
    ])
    error_message = "The name of a bucket must have 3 to 63 of a-z, 0-9 and -. It is made of name, store id and region unless bucket is given; dots would break the certificates of TLS."
  }

  validation {
    condition = alltrue([
      for store in values(var.stores) :
      can(regex("^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$", store.prefix))
    ])
    error_message = "A prefix must have parts of A-Z, a-z, 0-9, _, . and -, separated by /, and no / at its ends."
  }

  validation {
    condition = alltrue([
      for store in values(var.stores) : store.zone == null || can(regex("^[A-Za-z0-9._/-]{1,100}$", store.zone))
    ])
    error_message = "A zone must have 1 to 100 of A-Z, a-z, 0-9, ., _, / and -."
  }

  validation {
    condition = length(distinct([
      for id, store in var.stores : coalesce(store.bucket, "${var.name}-${id}-${var.region}")
    ])) == length(var.stores)
    error_message = "Each store must have its own bucket: two of them name the same one."
  }
}

variable "noncurrent_days" {
  description = "Days after which a deleted object is really gone. Until then it can be brought back, and costs as much as before."
  type        = number
  default     = 7

  validation {
    condition     = var.noncurrent_days >= 1 && floor(var.noncurrent_days) == var.noncurrent_days
    error_message = "noncurrent_days must be a whole number of at least 1: otherwise deleted objects cost for ever."
  }
}

variable "abort_uploads_days" {
  description = "Days after which S3 drops an upload in parts that was not completed. A writer that takes longer for one object fails, and nothing of it can be seen."
  type        = number
  default     = 1

  validation {
    condition     = var.abort_uploads_days >= 1 && floor(var.abort_uploads_days) == var.abort_uploads_days
    error_message = "abort_uploads_days must be a whole number of at least 1."
  }
}

variable "key_deletion_days" {
  description = "Days between the deletion of the key and its end. Without the key nothing in the buckets can be read."
  type        = number
  default     = 30

  validation {
    condition     = var.key_deletion_days >= 7 && var.key_deletion_days <= 30
    error_message = "key_deletion_days must be from 7 to 30."
  }
}

variable "force_destroy" {
  description = "Let terraform destroy delete buckets that still hold objects. For trials: it deletes the log."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
