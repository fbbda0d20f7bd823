locals {
  buckets = { for id, store in var.stores : id => coalesce(store.bucket, "${var.name}-${id}-${var.region}") }

  # Written out, so that a plan shows the policies as they will be.
  bucket_arns = { for id, bucket in local.buckets : id => "arn:aws:s3:::${bucket}" }
}

# The key policy is that of AWS: the account decides by IAM who may use the key, and the module iam says who may.
resource "aws_kms_key" "this" {
  #checkov:skip=CKV2_AWS_64:without a policy of its own, a key has the one that lets IAM policies of the account decide
  description             = "Objects in the stores of ${var.name} in ${var.region}"
  enable_key_rotation     = true
  deletion_window_in_days = var.key_deletion_days
  tags                    = var.tags
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}-stores"
  target_key_id = aws_kms_key.this.key_id
}

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_144:sparklog itself keeps replicas on other stores; a replication of buckets would copy objects in any order
  #checkov:skip=CKV2_AWS_62:nothing waits for the events of a bucket: who reads follows the metadata chain
  #checkov:skip=CKV_AWS_18:access logs cost as much as the requests that they list; CloudTrail can log the same
  for_each = local.buckets

  bucket        = each.value
  force_destroy = var.force_destroy
  tags          = merge(var.tags, { "sparklog:store" = each.key })

  # So the key is deleted after the bucket: one that still has objects ends a destroy before their key is gone.
  depends_on = [aws_kms_key.this]
}

resource "aws_s3_bucket_public_access_block" "this" {
  for_each = aws_s3_bucket.this

  bucket                  = each.value.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  for_each = aws_s3_bucket.this

  bucket = each.value.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "this" {
  for_each = aws_s3_bucket.this

  bucket = each.value.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  for_each = aws_s3_bucket.this

  bucket = each.value.id

  rule {
    bucket_key_enabled = true # else each request to S3 is one to KMS

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.this.arn
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  for_each = local.bucket_arns

  bucket = aws_s3_bucket.this[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "DenyWithoutTls"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [each.value, "${each.value}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "DenyOldTls"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [each.value, "${each.value}/*"]
        Condition = { NumericLessThan = { "s3:TlsVersion" = "1.2" } }
      },
    ]
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}

# No rule expires an object that is there: that would destroy the log. Retention deletes, by the metadata chain.
resource "aws_s3_bucket_lifecycle_configuration" "this" {
  for_each = aws_s3_bucket.this

  bucket = each.value.id

  rule {
    id     = "drop-uploads-that-were-not-completed"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = var.abort_uploads_days
    }
  }

  rule {
    id     = "drop-what-was-deleted"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = var.noncurrent_days
    }

    expiration {
      expired_object_delete_marker = true # a marker with no version behind it
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}
