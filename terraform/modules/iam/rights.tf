# What each role asks of the stores: key patterns below the prefix of a store, by kind of request. tests/terraform/rights
# records the requests of real runs and compares: no request of a role is denied, and no right is without a request.
#
#   get      s3:GetObject
#   put      s3:PutObject, whole or in parts
#   abort    s3:AbortMultipartUpload
#   delete   s3:DeleteObject
#   list     s3:ListBucket with this prefix; also what a role looks for that may not be there
#   uploads  s3:ListBucketMultipartUploads
locals {
  descriptions = {
    producer    = "writes records"
    consumer    = "reads records"
    maintenance = "rewrites, deletes and repairs"
    coordinator = "writes the metadata chain"
    agent       = "copies objects to the store that lacks them"
    operator    = "creates clusters, adds stores, restores"
  }

  # A store is still the one that was registered, and no other chain owns it since a restore.
  life = ["INCARNATION", "OWNER/*"]

  chain = ["meta/log/*", "meta/snapshot/*", "meta/chunks/*", "meta/commands/*", "meta/void/*"]

  # Who commits puts entries, snapshots and large commands; only vacuum puts marks (void).
  entries       = ["meta/log/*", "meta/snapshot/*", "meta/chunks/*", "meta/commands/*"]
  entry_copies  = ["copies/*/log/*", "copies/*/snapshot/*", "copies/*/chunks/*", "copies/*/commands/*"]
  in_parts      = ["append/*", "topics/*"]
  follows       = var.embedded ? local.chain : []
  commits       = var.embedded ? local.entries : []
  sees_copies   = var.embedded ? ["copies/*"] : []
  writes_copies = var.embedded ? local.entry_copies : []

  rights = {
    producer = {
      metadata = { get = local.follows, put = local.commits, list = local.follows }
      stores = {
        get   = concat(local.life, local.sees_copies)
        put   = concat(["append/*"], local.writes_copies)
        abort = ["append/*"]
        list  = concat(local.life, local.sees_copies)
      }
    }

    consumer = {
      metadata = { get = local.follows, list = local.follows }
      stores = {
        get  = ["append/*", "topics/*"]
        list = ["append/*", "topics/*"]
      }
    }

    agent = {
      metadata = { get = local.follows, put = local.commits, list = local.follows }
      stores = {
        get   = concat(local.life, local.in_parts, local.sees_copies)
        put   = concat(["INCARNATION"], local.in_parts, local.writes_copies)
        abort = local.in_parts
        list  = concat(local.life, local.in_parts, local.sees_copies)
      }
    }

    # Vacuum alone goes to the metadata itself, also where coordinators lead.
    maintenance = {
      metadata = {
        get    = local.chain
        put    = concat(["meta/void/*"], local.commits)
        delete = ["meta/log/*", "meta/snapshot/*", "meta/chunks/*", "meta/commands/*"]
        list   = local.chain
      }
      stores = {
        get     = concat(local.life, local.in_parts, ["copies/*"])
        put     = concat(local.in_parts, ["copies/*/void/*"], local.writes_copies)
        abort   = local.in_parts
        delete  = concat(local.in_parts, local.entry_copies)
        list    = concat(local.life, local.in_parts, ["copies/*"])
        uploads = true
      }
    }

    coordinator = {
      metadata = {
        get    = local.chain
        put    = local.entries
        delete = ["meta/snapshot/*", "meta/chunks/*"]
        list   = local.chain
      }
      stores = {
        get    = concat(local.life, ["copies/*"])
        put    = concat(["copies/checkpoints/*"], local.entry_copies)
        delete = ["copies/checkpoints/*", "copies/*/snapshot/*", "copies/*/chunks/*"]
        list   = concat(local.life, ["copies/*"])
      }
    }

    operator = {
      metadata = {
        get  = concat(local.chain, ["meta/restores/*"])
        put  = concat(local.entries, ["meta/restores/*"])
        list = concat(local.chain, ["meta/restores/*"])
      }
      stores = {
        get    = concat(local.life, ["append/*", "topics/*", "copies/*", "probe/*"])
        put    = concat(local.life, ["copies/*", "probe/*"])
        abort  = ["probe/*"]
        delete = ["probe/*"]
        list   = ["*"]
      }
    }
  }
}
