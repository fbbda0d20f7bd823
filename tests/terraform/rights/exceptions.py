"""What the policies allow although no recorded run asks for it, and what their wildcards are for. One reason each."""

from __future__ import annotations

from tests.terraform.rights.exactness import FAMILIES, Name

_REPLACED = "a snapshot that is found to be broken just after it was written is taken back, a damaged chunk replaced"
_ABSENT = "what vacuum deletes while it is read must be absent, not denied: then the newest snapshot is read instead"
_QUIET = "after a quiet day the newest entry does not show a job what time it is by the store's clock"
_PROBES = "its probes have one pattern, which is also for what maintenance puts after a quiet day"

# (role, action, family of keys): what a cluster comes to in years, and in no run of minutes.
NOT_RUN: dict[Name, str] = {
    **{
        ("coordinator", "s3:DeleteObject", key): _REPLACED
        for key in ("meta/snapshot/*", "meta/chunks/*", "copies/*/snapshot/*", "copies/*/chunks/*")
    },
    **{
        (role, "s3:ListBucket", key): _ABSENT
        for role in ("producer", "consumer", "agent", "coordinator")
        for key in ("meta/chunks/*", "meta/commands/*")
    },
    **{
        ("maintenance", action, "probe/*-clock"): _QUIET
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:ListBucket")
    },
    **{
        ("operator", f"s3:{action}", "probe/*-clock"): _PROBES
        for action in ("GetObject", "PutObject", "AbortMultipartUpload", "DeleteObject")
    },
    ("operator", "s3:PutObject", "meta/commands/*"): "a restore takes over large appends that no snapshot covers",
}

_UNCOVERED = "only if no snapshot covers the large append yet"
_SETTLES = "who finds that another process's entry lacks its copies makes them, the body of a large append included"
_TOGETHER = "copies are read by one pattern: one for each kind would make policies too long for IAM, and hide nothing"
_DUE = "whoever commits writes the snapshot if one is due, with its copies"
_NOTICES = "whether they or its agent notice first that a store has lost its mark"
_MISSED = "whether a consumer or the store's agent notices first that objects are gone"
_FIRST = "recovery writes checkpoints unless a coordinator was faster"

# The same for requests that depend on who comes first: some runs have them, others don't. recorded.json is of several.
BY_CHANCE: dict[Name, str] = {
    **{
        (role, action, family): _TOGETHER
        for role in ("producer", "agent", "maintenance", "coordinator", "operator")
        for action in ("s3:GetObject", "s3:ListBucket")
        for family in FAMILIES
        if family.startswith("copies/")
    },
    **{
        (role, "s3:GetObject", "meta/commands/*"): _UNCOVERED
        for role in ("producer", "consumer", "agent", "maintenance", "coordinator", "operator")
    },
    **{
        ("agent", "s3:PutObject", key): _DUE
        for key in ("meta/snapshot/*", "meta/chunks/*", "copies/*/snapshot/*", "copies/*/chunks/*")
    },
    **{(role, "s3:PutObject", "copies/*/commands/*"): _SETTLES for role in ("maintenance", "agent", "operator")},
    **{("consumer", "s3:ListBucket", key): _MISSED for key in ("append/*", "topics/*")},
    **{(role, "s3:ListBucket", "INCARNATION"): _NOTICES for role in ("producer", "maintenance", "coordinator")},
    **{("maintenance", action, "copies/checkpoints/*"): _FIRST for action in ("s3:PutObject", "s3:DeleteObject")},
}

_DRAWN = "writers draw the names of their objects"

# Key patterns with a wildcard: a key is made by the process that writes it, so no policy can name it.
WILDCARDS: dict[str, str] = {
    "append/*": _DRAWN,
    "topics/*": "topics come and go, and each object of one has a name of its own",
    "probe/*": "each probe draws an id",
    "probe/*-clock": "each job draws an id",
    "OWNER/*": "the number of the restore",
    "meta/log/*": "entries are numbered, in blocks",
    "meta/snapshot/*": "the number of the entry that it was taken after",
    "meta/chunks/*": "the checksum of what it has",
    "meta/commands/*": "the id of the command",
    "meta/void/*": "the number of the block that is gone",
    "meta/restores/*": "the number of the restore",
    "copies/*": "copies of any chain that the store had a part in, checkpoints and peers",
    "copies/checkpoints/*": "by chain, name and entry",
    "copies/peers/*": "by store and entry",
    "copies/*/log/*": "the id of the chain; then as in meta/",
    "copies/*/snapshot/*": "the id of the chain; then as in meta/",
    "copies/*/chunks/*": "the id of the chain; then as in meta/",
    "copies/*/commands/*": "the id of the chain; then as in meta/",
    "copies/*/void/*": "the id of the chain; then as in meta/",
    "*": "the operator lists a whole store before it becomes a new one: it must be empty",
}
