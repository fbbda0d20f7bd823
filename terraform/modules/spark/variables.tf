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

variable "release_label" {
  description = "Release of EMR Serverless. It must have Spark 4 and the Python of the environment archive."
  type        = string
  default     = "emr-spark-8.0.0"

  validation {
    condition     = !can(regex("^emr-[1-7][.]", var.release_label))
    error_message = "release_label must have Spark 4, such as emr-spark-8.0.0: the Spark of EMR 7 knows no data sources in Python."
  }
}

variable "dist_dir" {
  description = "The folder that make dist has written. Its environment archive is uploaded for the drivers and executors. Those in its folder former stay in the bucket for runs that have begun with them."
  type        = string

  validation {
    condition     = length(fileset(var.dist_dir, "sparklog-environment-*.tar.gz")) == 1
    error_message = "dist_dir must have exactly one sparklog-environment-*.tar.gz: run make dist, and remove those of other versions."
  }

  validation {
    condition     = alltrue([for archive in fileset(var.dist_dir, "sparklog-environment-*.tar.gz") : can(regex("-linux_x86_64[.]tar[.]gz$", archive))])
    error_message = "dist_dir must have an archive for linux_x86_64, as EMR Serverless runs it: run make dist on Linux with an x86-64 processor."
  }

  validation {
    condition     = !startswith(var.release_label, "emr-spark-8.") || alltrue([for archive in fileset(var.dist_dir, "sparklog-environment-*.tar.gz") : can(regex("-cp31[123]-", archive))])
    error_message = "dist_dir must have an archive for a Python of release_label: emr-spark-8 has 3.11, 3.12 and 3.13 (cp311, cp312, cp313)."
  }
}

variable "cluster" {
  description = "Address of the cluster: the output url of the module coordinator, or s3:// of the metadata if there are no coordinators."
  type        = string

  validation {
    condition     = can(regex("^(s3://|https://)[^\\s'\"]+$", var.cluster))
    error_message = "cluster must be s3://BUCKET/PREFIX, or https://HOST:PORT, several separated by commas."
  }
}

variable "metadata_url" {
  description = "Address of the metadata chain: the url of the metadata store. Only vacuum gets it, which deletes old entries of the chain."
  type        = string

  validation {
    condition     = can(regex("^s3://[a-z0-9][a-z0-9-]+[a-z0-9](/[A-Za-z0-9_.-]+)+$", var.metadata_url))
    error_message = "metadata_url must be s3://BUCKET/PREFIX."
  }
}

variable "jobs" {
  description = "The jobs by name: job is the file in jobs/ (default: the name), arguments are added to --cluster, spark_conf to Spark's settings. docs/maintenance.md says what each job does."
  type = map(object({
    job             = optional(string)
    arguments       = optional(list(string), [])
    cluster         = optional(string)
    max_executors   = optional(number, 4)
    driver_cores    = optional(number, 2)
    driver_memory   = optional(string, "6g")
    executor_cores  = optional(number, 2)
    executor_memory = optional(string, "6g")
    timeout_minutes = optional(number, 360)
    max_attempts    = optional(number, 1)
    spark_conf      = optional(map(string), {})
  }))
  default = {
    roll       = {}
    retention  = {}
    compaction = {}
    recovery   = {}
    verify     = { arguments = ["--share", "7"] }
    vacuum     = {}
  }

  validation {
    condition = alltrue([
      for name, job in var.jobs :
      contains(["produce", "roll", "retention", "compaction", "replication", "recovery", "verify", "vacuum", "materialize"], coalesce(job.job, name))
    ])
    error_message = "A job must be produce, roll, retention, compaction, replication, recovery, verify, vacuum or materialize; give job if the name is another one."
  }

  validation {
    condition     = alltrue([for name in keys(var.jobs) : can(regex("^[A-Za-z0-9_.-]{1,50}$", name))])
    error_message = "The name of a job must have 1 to 50 of A-Z, a-z, 0-9, _, . and -."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.jobs) : [for key, value in job.spark_conf : can(regex("^[^\\s'\"\\\\]+$", "${key}=${value}"))]]))
    error_message = "spark_conf must not have blanks, quotes or backslashes: EMR Serverless splits its parameters there."
  }

  validation {
    condition     = alltrue(flatten([for job in values(var.jobs) : [for key in keys(job.spark_conf) : !startswith(key, "spark.executorEnv.AWS_SECRET")]]))
    error_message = "spark_conf must not hold keys of AWS: executors have the rights of the role of the job, and Spark writes its settings into logs."
  }

  validation {
    condition     = alltrue([for job in values(var.jobs) : job.timeout_minutes >= 5 && job.max_attempts >= 1 && job.max_executors >= 1])
    error_message = "timeout_minutes must be at least 5; max_attempts and max_executors must be at least 1."
  }
}

variable "job_role" {
  description = "The role of the jobs: role_arns[\"maintenance\"] and role_names[\"maintenance\"] of the module iam, which emr-serverless.amazonaws.com may take. It gets rights to the artefacts and the log."
  type        = object({ arn = string, name = string })
}

variable "token_secret" {
  description = "The secret with the token of the jobs, as plain text, encrypted with a key of your own. It has the rights maintain:* and describe:*. The secret gets a policy that lets this application read it, and no other. Null if cluster is s3://."
  type        = object({ arn = string, name = string })
  default     = null

  validation {
    condition     = startswith(var.cluster, "s3://") || var.token_secret != null
    error_message = "token_secret must be given: coordinators ask for a token."
  }
}

variable "ca_pem" {
  description = "Certificate of the CA that signed that of the coordinators (PEM; it is no secret). Null if the machine's own list of CAs has it."
  type        = string
  default     = null

  validation {
    condition     = var.ca_pem == null || strcontains(coalesce(var.ca_pem, "-"), "-----BEGIN CERTIFICATE-----") && !strcontains(coalesce(var.ca_pem, "-"), "PRIVATE KEY")
    error_message = "ca_pem must be a certificate in PEM, without a private key."
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

variable "network" {
  description = "Where the jobs run: private subnets, and the security group of clients. Null: outside of any VPC, where they reach stores but no coordinators."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null

  validation {
    condition     = startswith(var.cluster, "s3://") || var.network != null
    error_message = "network must be given: coordinators are reached from their VPC only."
  }
}

variable "log_group" {
  description = "The log group of the jobs. Null: EMR keeps their logs for 30 days."
  type        = object({ name = string, arn = string })
  default     = null
}

variable "maximum_capacity" {
  description = "What all jobs together may use at once: a bound for what they cost. The default is the 16 vCPUs that a new account may use in EMR Serverless: for more, have that quota raised first (Max concurrent vCPUs per account)."
  type        = object({ cpu = string, memory = string, disk = optional(string) })
  default     = { cpu = "16 vCPU", memory = "64 GB", disk = "500 GB" }
}

variable "idle_timeout_minutes" {
  description = "Minutes without a job after which the application stops. It costs nothing while no job runs."
  type        = number
  default     = 15

  validation {
    condition     = var.idle_timeout_minutes >= 1 && var.idle_timeout_minutes <= 10080
    error_message = "idle_timeout_minutes must be from 1 to 10080."
  }
}

variable "key_deletion_days" {
  description = "Days between the deletion of the key of the artefacts and its end."
  type        = number
  default     = 7

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
