output "stores" {
  description = "The stores by id, as the other modules take them. Merge the maps of several regions: merge(module.stores_a.stores, module.stores_b.stores)."
  value = {
    for id, store in var.stores : id => {
      bucket      = aws_s3_bucket.this[id].id
      bucket_arn  = local.bucket_arns[id]
      url         = "s3://${local.buckets[id]}/${store.prefix}"
      prefix      = store.prefix
      zone        = store.zone
      kms_key_arn = aws_kms_key.this.arn
      region      = var.region
    }
  }

  # A store is used only once it is complete: encrypted, closed to the public, and over TLS only.
  depends_on = [
    aws_s3_bucket_policy.this,
    aws_s3_bucket_public_access_block.this,
    aws_s3_bucket_server_side_encryption_configuration.this,
    aws_s3_bucket_ownership_controls.this,
  ]
}

output "kms_key_arn" {
  description = "ARN of the key that encrypts the objects of these stores."
  value       = aws_kms_key.this.arn
}

output "init_stores" {
  description = "The stores as sparklog cluster init takes them: --store ID@ZONE=URL, one for each."
  value = join(" ", [
    for id, store in var.stores :
    "--store ${id}${store.zone == null ? "" : "@${store.zone}"}=s3://${local.buckets[id]}/${store.prefix}"
  ])
}
