locals {
  metadata = var.stores[var.metadata_store]

  actions = {
    get     = ["s3:GetObject"]
    put     = ["s3:PutObject"]
    abort   = ["s3:AbortMultipartUpload"]
    delete  = ["s3:DeleteObject"]
    uploads = ["s3:ListBucketMultipartUploads"]
  }

  # Where each right holds: on all stores, or at the place of the metadata chain only.
  places = {
    stores   = var.stores
    metadata = { (var.metadata_store) = local.metadata }
  }

  # One statement for each role, place and kind of request, with the ARNs of all keys.
  object_statements = {
    for role, rights in local.rights : role => flatten([
      for place, kinds in rights : [
        for kind, patterns in kinds : {
          Sid      = "${title(kind)}${title(place)}"
          Effect   = "Allow"
          Action   = local.actions[kind]
          Resource = flatten([for store in values(local.places[place]) : [for pattern in distinct(patterns) : "${store.bucket_arn}/${store.prefix}/${pattern}"]])
        } if !contains(["list", "uploads"], kind) && try(length(patterns), 0) > 0
      ]
    ])
  }

  # S3 compares the prefix of a listing with the condition. For a GET of an object that is not there it compares the
  # object's key, and answers 404 if the key may be listed, else 403.
  list_statements = {
    for role, rights in local.rights : role => [
      for id, store in var.stores : {
        Sid      = "List${index(keys(var.stores), id)}"
        Effect   = "Allow"
        Action   = ["s3:ListBucket"]
        Resource = [store.bucket_arn]
        Condition = { StringLike = { "s3:prefix" = [
          for pattern in distinct(concat(
            lookup(rights.stores, "list", []),
            id == var.metadata_store ? lookup(rights.metadata, "list", []) : [],
          )) : "${store.prefix}/${pattern}"
        ] } }
      } if length(lookup(rights.stores, "list", [])) + (id == var.metadata_store ? length(lookup(rights.metadata, "list", [])) : 0) > 0
    ]
  }

  # This request has no prefix that a condition could compare.
  uploads_statements = {
    for role, rights in local.rights : role => [
      for place, kinds in rights : {
        Sid      = "Uploads${title(place)}"
        Effect   = "Allow"
        Action   = local.actions.uploads
        Resource = [for store in values(local.places[place]) : store.bucket_arn]
      } if contains(keys(kinds), "uploads")
    ]
  }

  store_statements = {
    for role in keys(local.rights) : role =>
    concat(local.object_statements[role], local.list_statements[role], local.uploads_statements[role])
  }

  # A writer of multipart uploads must also decrypt. S3 asks for the caller, and only S3 may.
  key_statements = {
    for role, rights in local.rights : role => [{
      Sid    = "Keys"
      Effect = "Allow"
      Action = anytrue([for kinds in values(rights) : length(lookup(kinds, "put", [])) > 0]) ? ["kms:Decrypt", "kms:GenerateDataKey"] : ["kms:Decrypt"]
      Resource = distinct([
        for store in values(var.stores) : store.kms_key_arn
      ])
      Condition = { StringEquals = { "kms:ViaService" = distinct([
        for store in values(var.stores) : "s3.${store.region}.amazonaws.com"
      ]) } }
    }]
  }

  trusted = { for role, who in var.trusted : role => who if length(who.services) + length(who.arns) > 0 }
}

resource "aws_iam_role" "this" {
  for_each = local.trusted

  name                 = "${var.name}-${each.key}"
  description          = "sparklog: ${local.descriptions[each.key]}"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = merge(var.tags, { "sparklog:role" = each.key })

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for services in [each.value.services] : merge(
        {
          Sid       = "Services"
          Effect    = "Allow"
          Action    = "sts:AssumeRole"
          Principal = { Service = services }
        },
        var.account_id == null ? {} : { Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } } },
      ) if length(services) > 0],
      [for arns in [each.value.arns] : {
        Sid       = "Principals"
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { AWS = arns }
      } if length(arns) > 0],
    )
  })
}

# Two policies, so that a plan shows what may be done in the stores even while their keys do not exist yet.
resource "aws_iam_role_policy" "stores" {
  for_each = local.trusted

  name   = "stores"
  role   = aws_iam_role.this[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.store_statements[each.key] })

  lifecycle {
    precondition {
      condition     = length(jsonencode(local.store_statements[each.key])) <= 9500
      error_message = "The policies of the role ${each.key} are longer than the 10,240 characters that IAM allows. Give buckets and prefixes shorter names (five stores fit if a bucket has 30 characters), or make that role yourself from policy_json, in several managed policies."
    }
  }
}

resource "aws_iam_role_policy" "keys" {
  for_each = local.trusted

  name   = "keys"
  role   = aws_iam_role.this[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.key_statements[each.key] })
}
