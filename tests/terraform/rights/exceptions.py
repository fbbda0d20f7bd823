"""What the policies allow although no recorded run asks for it, and what their wildcards are for. One reason each."""

from __future__ import annotations

_REPLACED = "a snapshot that is found to be broken just after it was written is taken back, a damaged chunk replaced"
_ABSENT = "what vacuum deletes while it is read must be absent, not denied: then the newest snapshot is read instead"
_BODY = "an entry that refers to the body of a large append, not yet covered by a snapshot"
_SETTLES = "who finds that another process's entry lacks its copies makes them, the body of a large append included"

# (role, action, key pattern): what a cluster comes to in years, and in no run of minutes.
NOT_RUN: dict[tuple[str, str, str], str] = {
    **{
        ("coordinator", "s3:DeleteObject", key): _REPLACED
        for key in ("meta/snapshot/*", "meta/chunks/*", "copies/*/snapshot/*", "copies/*/chunks/*")
    },
    **{
        (role, "s3:ListBucket", key): _ABSENT
        for role in ("producer", "consumer", "agent", "coordinator")
        for key in ("meta/chunks/*", "meta/commands/*")
    },
    **{(role, "s3:PutObject", "copies/*/commands/*"): _SETTLES for role in ("maintenance", "agent", "operator")},
    ("operator", "s3:PutObject", "meta/commands/*"): f"a restore copies {_BODY}",
}

_DRAWN = "writers draw the names of their objects"

# Key patterns with a wildcard: a key is made by the process that writes it, so no policy can name it.
WILDCARDS: dict[str, str] = {
    "append/*": _DRAWN,
    "topics/*": "topics come and go, and each object of one has a name of its own",
    "probe/*": "each probe draws an id",
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
