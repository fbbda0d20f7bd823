variable "name" {
  description = "Prefix of the names of everything that is made."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 24 of a-z, 0-9 and -, begin with a letter and not end with -."
  }
}

variable "application_arn" {
  description = "ARN of the EMR Serverless application: application.arn of the module spark."
  type        = string
}

variable "job_role_arn" {
  description = "ARN of the role of the jobs: job_role_arn of the module spark."
  type        = string
}

variable "job_runs" {
  description = "The input of StartJobRun for each job: job_runs of the module spark."
  type        = any

  validation {
    condition     = alltrue([for run in values(var.job_runs) : can(run.JobDriver.SparkSubmit.EntryPoint) && can(run.ApplicationId)])
    error_message = "job_runs must have the input of StartJobRun for each job, with ApplicationId and JobDriver.SparkSubmit."
  }
}

variable "schedules" {
  description = "Times at which each job of job_runs starts: rate(…) or cron(…) of EventBridge, in the time zone that timezone names. A run starts at any time of the window, so that jobs don't all start at once."
  type = map(object({
    expression     = string
    window_minutes = optional(number, 5)
    enabled        = optional(bool, true)
  }))
  default = {
    roll       = { expression = "rate(10 minutes)" }
    compaction = { expression = "rate(15 minutes)" }
    retention  = { expression = "rate(1 hour)", window_minutes = 15 }
    vacuum     = { expression = "cron(15 2 * * ? *)", window_minutes = 60 }
    verify     = { expression = "cron(15 3 * * ? *)", window_minutes = 60 }
    recovery   = { expression = "cron(15 4 ? * SUN *)", window_minutes = 60 }
  }

  validation {
    condition     = alltrue([for name in keys(var.schedules) : contains(keys(var.job_runs), name)])
    error_message = "schedules must name jobs of job_runs."
  }

  validation {
    condition     = alltrue([for schedule in values(var.schedules) : can(regex("^(rate|cron)[(].+[)]$", schedule.expression))])
    error_message = "An expression must be rate(…) or cron(…), such as rate(10 minutes)."
  }

  validation {
    condition     = alltrue([for schedule in values(var.schedules) : schedule.window_minutes >= 1 && schedule.window_minutes <= 1440])
    error_message = "window_minutes must be from 1 to 1440."
  }
}

variable "running" {
  description = "False: no schedule starts anything. For the time before the cluster is initialised, and during a restore."
  type        = bool
  default     = true
}

variable "timezone" {
  description = "Time zone of the schedules, such as Europe/Berlin."
  type        = string
  default     = "UTC"
}

variable "retry_attempts" {
  description = "How often EventBridge tries again to start a job that it could not start."
  type        = number
  default     = 5

  validation {
    condition     = var.retry_attempts >= 0 && var.retry_attempts <= 185
    error_message = "retry_attempts must be from 0 to 185."
  }
}

variable "retry_seconds" {
  description = "How long it tries. Then the start goes to the dead letter queue: the next one comes by itself."
  type        = number
  default     = 3600

  validation {
    condition     = var.retry_seconds >= 60 && var.retry_seconds <= 86400
    error_message = "retry_seconds must be from 60 to 86400."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of a policy that bounds what the role of the schedules may do, if your account demands one."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
