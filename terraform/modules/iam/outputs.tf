output "role_arns" {
  description = "ARNs of the roles that were made, by role."
  value       = { for role, made in aws_iam_role.this : role => made.arn }
}

output "role_names" {
  description = "Names of the roles that were made, by role: attach more policies to them, such as access to logs."
  value       = { for role, made in aws_iam_role.this : role => made.name }
}

output "policy_json" {
  description = "The policy of every role as JSON, made or not, for your own roles. A job that reads one topic and writes another takes those of consumer and producer."
  value = {
    for role in keys(local.rights) : role => jsonencode({
      Version   = "2012-10-17"
      Statement = concat(local.store_statements[role], local.key_statements[role])
    })
  }
}
