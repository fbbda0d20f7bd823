mock_provider "aws" {
  mock_resource "aws_kms_key" {
    defaults = {
      arn = "arn:aws:kms:eu-central-1:111122223333:key/00000000-0000-0000-0000-000000000000"
    }
  }
}

variables {
  name   = "acme-log"
  region = "eu-central-1"
  stores = {
    a = { zone = "z1" }
    b = { zone = "z2", bucket = "acme-second", prefix = "prod/log" }
    c = {}
  }
}

run "names" {
  assert {
    condition     = [for id in ["a", "b", "c"] : aws_s3_bucket.this[id].bucket] == ["acme-log-a-eu-central-1", "acme-second", "acme-log-c-eu-central-1"]
    error_message = "A bucket is named by name, store and region, unless it is given."
  }

  assert {
    condition     = [for id in ["a", "b", "c"] : output.stores[id].url] == ["s3://acme-log-a-eu-central-1/log", "s3://acme-second/prod/log", "s3://acme-log-c-eu-central-1/log"]
    error_message = "The url of a store is s3://BUCKET/PREFIX."
  }

  assert {
    condition     = output.init_stores == "--store a@z1=s3://acme-log-a-eu-central-1/log --store b@z2=s3://acme-second/prod/log --store c=s3://acme-log-c-eu-central-1/log"
    error_message = "init_stores is what sparklog cluster init takes."
  }

  assert {
    condition     = output.stores["b"] == { bucket = aws_s3_bucket.this["b"].id, bucket_arn = "arn:aws:s3:::acme-second", url = "s3://acme-second/prod/log", prefix = "prod/log", zone = "z2", kms_key_arn = output.kms_key_arn, region = "eu-central-1" }
    error_message = "A store of the output has all that the other modules need."
  }
}

run "buckets_are_closed" {
  assert {
    condition     = alltrue([for block in values(aws_s3_bucket_public_access_block.this) : block.block_public_acls && block.block_public_policy && block.ignore_public_acls && block.restrict_public_buckets])
    error_message = "Nothing is public."
  }

  assert {
    condition     = alltrue([for owned in values(aws_s3_bucket_ownership_controls.this) : owned.rule[0].object_ownership == "BucketOwnerEnforced"])
    error_message = "The bucket owns its objects, and there are no access lists."
  }

  assert {
    condition     = alltrue([for versions in values(aws_s3_bucket_versioning.this) : versions.versioning_configuration[0].status == "Enabled"])
    error_message = "Buckets keep versions."
  }

  assert {
    condition     = alltrue([for encrypted in values(aws_s3_bucket_server_side_encryption_configuration.this) : alltrue([for rule in encrypted.rule : rule.bucket_key_enabled && rule.apply_server_side_encryption_by_default[0].sse_algorithm == "aws:kms" && rule.apply_server_side_encryption_by_default[0].kms_master_key_id == aws_kms_key.this.arn])])
    error_message = "Objects are encrypted with the key of the module, through a bucket key."
  }

  assert {
    condition     = aws_kms_key.this.enable_key_rotation && aws_kms_key.this.deletion_window_in_days == 30
    error_message = "The key is rotated, and does not go at once."
  }

  assert {
    condition     = alltrue([for id, policy in aws_s3_bucket_policy.this : alltrue([for statement in jsondecode(policy.policy).Statement : statement.Effect == "Deny" && statement.Principal == "*" && statement.Action == "s3:*"])])
    error_message = "The policy of a bucket only denies."
  }

  assert {
    condition     = alltrue([for id, policy in aws_s3_bucket_policy.this : anytrue([for statement in jsondecode(policy.policy).Statement : try(statement.Condition.Bool["aws:SecureTransport"], "") == "false"])])
    error_message = "Requests without TLS are denied."
  }

  assert {
    condition     = jsondecode(aws_s3_bucket_policy.this["b"].policy).Statement[0].Resource == ["arn:aws:s3:::acme-second", "arn:aws:s3:::acme-second/*"]
    error_message = "The policy holds for the bucket and all of its objects."
  }
}

run "nothing_of_the_log_expires" {
  assert {
    condition     = alltrue(flatten([for cycle in values(aws_s3_bucket_lifecycle_configuration.this) : [for rule in cycle.rule : [for expiration in rule.expiration : expiration.days == null || expiration.days == 0]]]))
    error_message = "No rule expires an object that is there."
  }

  assert {
    condition     = alltrue(flatten([for cycle in values(aws_s3_bucket_lifecycle_configuration.this) : [for rule in cycle.rule : length(rule.transition) + length(rule.noncurrent_version_transition) == 0]]))
    error_message = "No rule moves an object."
  }

  assert {
    condition     = alltrue([for cycle in values(aws_s3_bucket_lifecycle_configuration.this) : anytrue([for rule in cycle.rule : try(rule.abort_incomplete_multipart_upload[0].days_after_initiation, 0) == 1])])
    error_message = "Uploads that were not completed go after a day."
  }

  assert {
    condition     = alltrue([for cycle in values(aws_s3_bucket_lifecycle_configuration.this) : anytrue([for rule in cycle.rule : try(rule.noncurrent_version_expiration[0].noncurrent_days, 0) == 7])])
    error_message = "What was deleted costs nothing after a week."
  }
}

run "refuses_no_stores" {
  command = plan

  variables {
    stores = {}
  }

  expect_failures = [var.stores]
}

run "refuses_a_prefix_with_a_wildcard" {
  command = plan

  variables {
    stores = { a = { prefix = "log*" } }
  }

  expect_failures = [var.stores]
}

run "refuses_a_prefix_that_ends_with_a_slash" {
  command = plan

  variables {
    stores = { a = { prefix = "log/" } }
  }

  expect_failures = [var.stores]
}

run "refuses_two_stores_in_one_bucket" {
  command = plan

  variables {
    stores = { a = { bucket = "acme-one" }, b = { bucket = "acme-one", prefix = "b" } }
  }

  expect_failures = [var.stores]
}

run "refuses_ids_that_differ_by_case_only" {
  command = plan

  variables {
    stores = { a = { bucket = "acme-one" }, A = { bucket = "acme-two" } }
  }

  expect_failures = [var.stores]
}

run "refuses_the_id_metadata" {
  command = plan

  variables {
    stores = { metadata = {} }
  }

  expect_failures = [var.stores]
}

run "refuses_a_bucket_with_a_dot" {
  command = plan

  variables {
    stores = { a = { bucket = "acme.log" } }
  }

  expect_failures = [var.stores]
}

run "refuses_a_zone_with_an_equals_sign" {
  command = plan

  variables {
    stores = { a = { zone = "z=1" } }
  }

  expect_failures = [var.stores]
}

run "refuses_deleted_objects_for_ever" {
  command = plan

  variables {
    noncurrent_days = 0
  }

  expect_failures = [var.noncurrent_days]
}

run "refuses_a_short_wait_for_the_end_of_the_key" {
  command = plan

  variables {
    key_deletion_days = 1
  }

  expect_failures = [var.key_deletion_days]
}

run "refuses_a_name_with_capitals" {
  command = plan

  variables {
    name = "Acme"
  }

  expect_failures = [var.name]
}

run "refuses_a_region_that_is_none" {
  command = plan

  variables {
    region = "Frankfurt"
  }

  expect_failures = [var.region]
}

run "refuses_a_region_of_china" {
  command = plan

  variables {
    region = "cn-north-1"
  }

  expect_failures = [var.region]
}

run "refuses_a_region_of_govcloud" {
  command = plan

  variables {
    region = "us-gov-west-1"
  }

  expect_failures = [var.region]
}
