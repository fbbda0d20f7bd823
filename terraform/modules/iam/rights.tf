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

  mark     = ["INCARNATION"] # a store is still the one that was registered
  owners   = ["OWNER/*"]     # no other chain owns the store since a restore
  in_parts = ["append/*", "topics/*"]
  chain    = ["meta/log/*", "meta/snapshot/*", "meta/chunks/*", "meta/commands/*", "meta/void/*"]

  # Who commits puts entries and snapshots, also those that other stores have copies of; bodies belong to large appends.
  entries      = ["meta/log/*", "meta/snapshot/*", "meta/chunks/*"]
  bodies       = ["meta/commands/*"]
  entry_copies = ["copies/*/log/*", "copies/*/snapshot/*", "copies/*/chunks/*", "copies/*/commands/*"]

  # Without coordinators each process reads the chain, and all but consumers commit.
  embedded = {
    chain        = var.embedded ? local.chain : []
    entries      = var.embedded ? local.entries : []
    bodies       = var.embedded ? local.bodies : []
    owners       = var.embedded ? local.owners : []
    clock        = var.embedded ? ["probe/*-clock"] : [] # shows a job the store's time after a quiet day
    copies       = var.embedded ? ["copies/*"] : []
    entry_copies = var.embedded ? local.entry_copies : []
  }

  rights = {
    producer = {
      metadata = {
        get  = local.embedded.chain
        put  = concat(local.embedded.entries, local.embedded.bodies)
        list = local.embedded.chain
      }
      stores = {
        get   = concat(local.mark, ["append/*"], local.embedded.owners, local.embedded.copies)
        put   = concat(["append/*"], local.embedded.entry_copies)
        abort = ["append/*"]
        list  = concat(local.mark, local.embedded.owners, local.embedded.copies)
      }
    }

    consumer = {
      metadata = { get = local.embedded.chain, list = local.embedded.chain }
      stores   = { get = local.in_parts, list = local.in_parts }
    }

    agent = {
      metadata = { get = local.embedded.chain, put = local.embedded.entries, list = local.embedded.chain }
      stores = {
        get   = concat(local.mark, local.in_parts, local.embedded.owners, local.embedded.copies)
        put   = concat(local.mark, local.in_parts, local.embedded.entry_copies)
        abort = local.in_parts
        list  = concat(local.mark, local.in_parts, local.embedded.owners, local.embedded.copies)
      }
    }

    # Vacuum goes to the metadata itself, also where coordinators lead. Only it puts marks (void) and deletes entries.
    maintenance = {
      metadata = {
        get    = local.chain
        put    = concat(["meta/void/*"], local.embedded.entries, local.embedded.clock)
        delete = concat(local.entries, local.bodies, local.embedded.clock)
        list   = concat(local.chain, local.embedded.clock)
      }
      stores = {
        get     = concat(local.mark, local.owners, local.in_parts, ["copies/*"])
        put     = concat(local.in_parts, ["copies/checkpoints/*", "copies/*/void/*"], local.embedded.entry_copies)
        abort   = local.in_parts
        delete  = concat(local.in_parts, ["copies/checkpoints/*"], local.entry_copies)
        list    = concat(local.mark, local.owners, local.in_parts, ["copies/*"])
        uploads = true
      }
    }

    coordinator = {
      metadata = {
        get    = local.chain
        put    = concat(local.entries, local.bodies)
        delete = ["meta/snapshot/*", "meta/chunks/*"]
        list   = local.chain
      }
      stores = {
        get    = concat(local.mark, local.owners, ["copies/*"])
        put    = concat(["copies/checkpoints/*"], local.entry_copies)
        delete = ["copies/checkpoints/*", "copies/*/snapshot/*", "copies/*/chunks/*"]
        list   = concat(local.mark, local.owners, ["copies/*"])
      }
    }

    # A new store must be empty, so all of it is listed, and must not be the place of another chain. Health and doctor try
    # writes under probe/.
    operator = {
      metadata = {
        get = concat(local.chain, ["meta/restores/*"])
        put = concat(local.entries, local.bodies, ["meta/restores/*"])
      }
      stores = {
        get    = concat(local.mark, local.owners, local.in_parts, ["meta/log/*", "copies/*", "probe/*"])
        put    = concat(local.mark, local.owners, ["copies/peers/*", "probe/*"], local.entry_copies)
        abort  = ["probe/*"]
        delete = ["probe/*"]
        list   = ["*"]
      }
    }
  }
}
