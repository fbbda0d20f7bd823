mock_provider "aws" {}

variables {
  name           = "acme-log"
  metadata_store = "a"
  stores = {
    a = { bucket_arn = "arn:aws:s3:::acme-a", prefix = "log", kms_key_arn = "arn:aws:kms:eu-central-1:111122223333:key/1", region = "eu-central-1" }
    b = { bucket_arn = "arn:aws:s3:::acme-b", prefix = "prod/log", kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/2", region = "eu-west-1" }
  }
  trusted = {
    coordinator = { services = ["ecs-tasks.amazonaws.com"] }
    producer    = { services = ["emr-serverless.amazonaws.com"], arns = ["arn:aws:iam::111122223333:role/loader"] }
    consumer    = {}
  }
}

run "roles_are_made_for_those_who_may_take_them" {
  assert {
    condition     = join(" ", sort(keys(aws_iam_role.this))) == "coordinator producer"
    error_message = "A role without services or ARNs is not created."
  }

  assert {
    condition     = output.role_names == { coordinator = "acme-log-coordinator", producer = "acme-log-producer" }
    error_message = "Roles are named NAME-ROLE."
  }

  assert {
    condition     = join(" ", sort(keys(output.policy_json))) == "agent consumer coordinator maintenance operator producer"
    error_message = "policy_json has all roles."
  }

  assert {
    condition     = jsondecode(aws_iam_role.this["coordinator"].assume_role_policy).Statement == [{ Sid = "Services", Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = ["ecs-tasks.amazonaws.com"] } }]
    error_message = "Only the service that is named may take the role."
  }

  assert {
    condition     = jsondecode(aws_iam_role.this["producer"].assume_role_policy).Statement[1].Principal == { AWS = ["arn:aws:iam::111122223333:role/loader"] }
    error_message = "A principal that is named may take the role."
  }
}

run "services_act_for_one_account_only" {
  variables {
    account_id = "111122223333"
  }

  assert {
    condition     = jsondecode(aws_iam_role.this["coordinator"].assume_role_policy).Statement[0].Condition == { StringEquals = { "aws:SourceAccount" = "111122223333" } }
    error_message = "With account_id a service can't take the role for another account."
  }
}

run "rights_end_at_the_prefix" {
  assert {
    condition = alltrue(flatten([for policy in values(output.policy_json) : [
      for statement in jsondecode(policy).Statement : [
        for resource in statement.Resource : startswith(resource, "arn:aws:s3:::acme-a/log/") || startswith(resource, "arn:aws:s3:::acme-b/prod/log/")
      ] if startswith(statement.Action[0], "s3:") && !contains(["s3:ListBucket", "s3:ListBucketMultipartUploads"], statement.Action[0])
    ]]))
    error_message = "No right reaches an object outside of the prefixes of the stores."
  }

  assert {
    condition = alltrue(flatten([for policy in values(output.policy_json) : [
      for statement in jsondecode(policy).Statement : [
        for prefix in statement.Condition.StringLike["s3:prefix"] : startswith(prefix, "log/") || startswith(prefix, "prod/log/")
      ] if statement.Action[0] == "s3:ListBucket"
    ]]))
    error_message = "Listings end at the prefixes, too."
  }

  assert {
    condition = alltrue(flatten([for policy in values(output.policy_json) : [
      for statement in jsondecode(policy).Statement : statement.Effect == "Allow" && alltrue([for action in statement.Action : !strcontains(action, "*")])
    ]]))
    error_message = "No action is a wildcard."
  }

  assert {
    condition = alltrue(flatten([for role, policy in output.policy_json : [
      for statement in jsondecode(policy).Statement : !anytrue([for resource in statement.Resource : strcontains(resource, "acme-b/prod/log/meta/")])
      if statement.Action[0] != "s3:GetObject" || role != "operator"
    ]]))
    error_message = "The metadata chain lives in one store only; the operator looks whether there is one elsewhere."
  }
}

run "who_writes_and_who_deletes" {
  assert {
    condition     = !strcontains(output.policy_json["consumer"], "s3:Put") && !strcontains(output.policy_json["consumer"], "s3:Delete") && !strcontains(output.policy_json["consumer"], "s3:Abort") && !strcontains(output.policy_json["consumer"], "kms:GenerateDataKey")
    error_message = "A consumer only reads."
  }

  assert {
    condition     = !strcontains(output.policy_json["producer"], "s3:Delete") && !strcontains(output.policy_json["agent"], "s3:Delete")
    error_message = "Producers and agents delete nothing."
  }

  assert {
    condition     = alltrue([for role in ["producer", "consumer", "agent"] : !strcontains(output.policy_json[role], "/meta/")])
    error_message = "Producers, consumers and agents have no access to the metadata chain."
  }

  assert {
    condition     = alltrue(flatten([for statement in jsondecode(output.policy_json["operator"]).Statement : [for resource in statement.Resource : endswith(resource, "/probe/*")] if contains(statement.Action, "s3:DeleteObject")]))
    error_message = "The operator deletes what its probes wrote, and nothing else."
  }
}

run "without_coordinators_all_but_consumers_commit" {
  variables {
    embedded = true
  }

  assert {
    condition     = alltrue([for role in ["producer", "agent", "maintenance"] : strcontains(output.policy_json[role], "arn:aws:s3:::acme-a/log/meta/log/*") && anytrue([for statement in jsondecode(output.policy_json[role]).Statement : contains(statement.Action, "s3:PutObject") && contains(statement.Resource, "arn:aws:s3:::acme-a/log/meta/log/*")])])
    error_message = "Who commits puts entries of the chain."
  }

  assert {
    condition     = !strcontains(output.policy_json["consumer"], "s3:Put") && strcontains(output.policy_json["consumer"], "/meta/log/*") && !strcontains(output.policy_json["producer"], "s3:Delete")
    error_message = "A consumer reads the chain and writes nothing; a producer deletes nothing."
  }
}

run "keys_are_used_through_s3_only" {
  assert {
    condition = alltrue(flatten([for policy in values(output.policy_json) : [
      for statement in jsondecode(policy).Statement :
      statement.Condition.StringEquals["kms:ViaService"] == ["s3.eu-central-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"] && length(statement.Resource) == 2
      if startswith(statement.Action[0], "kms:")
    ]]))
    error_message = "The keys of both regions may be used, and by S3 for the role only."
  }
}

run "refuses_an_unknown_role" {
  command = plan

  variables {
    trusted = { admin = { services = ["ecs-tasks.amazonaws.com"] } }
  }

  expect_failures = [var.trusted]
}

run "refuses_a_role_for_everybody" {
  command = plan

  variables {
    trusted = { consumer = { arns = ["*"] } }
  }

  expect_failures = [var.trusted]
}

run "refuses_a_service_that_is_none" {
  command = plan

  variables {
    trusted = { consumer = { services = ["example.org"] } }
  }

  expect_failures = [var.trusted]
}

run "refuses_a_metadata_store_that_is_none_of_the_stores" {
  command = plan

  variables {
    metadata_store = "x"
  }

  expect_failures = [var.metadata_store]
}

run "refuses_a_prefix_that_widens_rights" {
  command = plan

  variables {
    stores = {
      a = { bucket_arn = "arn:aws:s3:::acme-a", prefix = "l*", kms_key_arn = "k", region = "eu-central-1" }
    }
  }

  expect_failures = [var.stores]
}

run "refuses_all_buckets" {
  command = plan

  variables {
    stores = {
      a = { bucket_arn = "arn:aws:s3:::*", prefix = "log", kms_key_arn = "k", region = "eu-central-1" }
    }
  }

  expect_failures = [var.stores]
}

run "refuses_an_account_that_is_none" {
  command = plan

  variables {
    account_id = "acme"
  }

  expect_failures = [var.account_id]
}
