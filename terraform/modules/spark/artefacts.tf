# Files for drivers and executors, in a separate bucket: stores hold the log and nothing else.
locals {
  bucket     = "${var.name}-artefacts-${var.region}"
  bucket_arn = "arn:aws:s3:::${local.bucket}"
  artefacts  = "s3://${local.bucket}/artefacts"
  jobs_dir   = "${path.module}/../../../jobs"
  job_files  = fileset(local.jobs_dir, "*.py")

  # A run fetches its archive whenever it gets another executor. So the key has the checksum, which changes with each build,
  # and an archive in dist_dir/former keeps its object: runs of the former build still name that.
  archives = {
    for file in setunion(fileset(var.dist_dir, "sparklog-environment-*.tar.gz"), fileset(var.dist_dir, "former/sparklog-environment-*.tar.gz")) :
    "${substr(filesha256("${var.dist_dir}/${file}"), 0, 12)}/${basename(file)}" => file...
  }
  archive = one([for key, files in local.archives : key if anytrue([for file in files : !startswith(file, "former/")])])

  texts = merge(
    var.ca_pem == null ? {} : { "ca.crt" = var.ca_pem },
    var.config == null ? {} : { "sparklog.toml" = var.config },
  )
}

resource "aws_kms_key" "artefacts" {
  #checkov:skip=CKV2_AWS_64:without a policy of its own, a key has the one that lets IAM policies of the account decide
  description             = "Artefacts of the jobs of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = var.key_deletion_days
  tags                    = var.tags
}

resource "aws_kms_alias" "artefacts" {
  name          = "alias/${var.name}-artefacts"
  target_key_id = aws_kms_key.artefacts.key_id
}

resource "aws_s3_bucket" "artefacts" {
  #checkov:skip=CKV_AWS_144:everything in it is made again by make dist and terraform apply
  #checkov:skip=CKV2_AWS_62:nothing waits for the events of this bucket
  #checkov:skip=CKV_AWS_18:only the jobs read it; CloudTrail has their requests
  bucket        = local.bucket
  force_destroy = true # see above
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "artefacts" {
  bucket                  = aws_s3_bucket.artefacts.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "artefacts" {
  bucket = aws_s3_bucket.artefacts.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "artefacts" {
  bucket = aws_s3_bucket.artefacts.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "artefacts" {
  bucket = aws_s3_bucket.artefacts.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.artefacts.arn
    }
  }
}

resource "aws_s3_bucket_policy" "artefacts" {
  bucket = aws_s3_bucket.artefacts.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "DenyWithoutTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.artefacts]
}

resource "aws_s3_bucket_lifecycle_configuration" "artefacts" {
  bucket = aws_s3_bucket.artefacts.id

  rule {
    id     = "drop-old-versions"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }

  depends_on = [aws_s3_bucket_versioning.artefacts]
}

resource "aws_s3_object" "archives" {
  for_each = local.archives

  bucket      = aws_s3_bucket.artefacts.id
  key         = "artefacts/${each.key}"
  source      = "${var.dist_dir}/${each.value[0]}"
  source_hash = filesha256("${var.dist_dir}/${each.value[0]}")
  tags        = var.tags

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.artefacts, aws_s3_bucket_versioning.artefacts]

  # So an old archive is deleted only after the schedules name the new one.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_s3_object" "jobs" {
  for_each = local.job_files

  bucket      = aws_s3_bucket.artefacts.id
  key         = "artefacts/jobs/${each.key}"
  source      = "${local.jobs_dir}/${each.key}"
  source_hash = filesha256("${local.jobs_dir}/${each.key}")
  tags        = var.tags

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.artefacts, aws_s3_bucket_versioning.artefacts]
}

resource "aws_s3_object" "texts" {
  for_each = local.texts

  bucket  = aws_s3_bucket.artefacts.id
  key     = "artefacts/${each.key}"
  content = each.value
  tags    = var.tags

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.artefacts, aws_s3_bucket_versioning.artefacts]
}
