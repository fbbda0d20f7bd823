"""Buckets: closed, encrypted, versioned, over TLS only, and no rule ever expires the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.terraform.deployment import Deployment, Resource
from tests.terraform.rules.statements import OF_RESOURCES, statements

_BLOCKS: Final = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")


def buckets_are_closed(deployment: Deployment) -> list[str]:
    """The public is blocked in four ways, and no object has an owner or rights of its own."""
    wrong = []
    for bucket in deployment.of("aws_s3_bucket"):
        blocks = list(_settings(deployment, bucket, "aws_s3_bucket_public_access_block"))
        if not blocks or not all(each.get(name) is True for each in blocks for name in _BLOCKS):
            wrong.append(f"{bucket.address} does not block the public")
        owners = list(_settings(deployment, bucket, "aws_s3_bucket_ownership_controls"))
        if [rule["object_ownership"] for each in owners for rule in each["rule"]] != ["BucketOwnerEnforced"]:
            wrong.append(f"{bucket.address} lets objects have owners and rights of their own")
    return wrong


def buckets_are_encrypted(deployment: Deployment) -> list[str]:
    """By a key of KMS that belongs to this deployment, and with bucket keys."""
    keys = {each.values["arn"] for each in deployment.of("aws_kms_key")}
    wrong = []
    for bucket in deployment.of("aws_s3_bucket"):
        found = list(_settings(deployment, bucket, "aws_s3_bucket_server_side_encryption_configuration"))
        rules = [rule for each in found for rule in each["rule"]]
        if len(rules) != 1 or not rules[0]["bucket_key_enabled"]:
            wrong.append(f"{bucket.address} has no bucket key")
        for rule in rules:
            (how,) = rule["apply_server_side_encryption_by_default"]
            if how["sse_algorithm"] != "aws:kms" or how["kms_master_key_id"] not in keys:
                wrong.append(f"{bucket.address} is not encrypted by a key of its own")
    return wrong


def buckets_are_versioned(deployment: Deployment) -> list[str]:
    """An object deleted by mistake can be brought back for some days."""
    return [
        f"{bucket.address} is not versioned"
        for bucket in deployment.of("aws_s3_bucket")
        if [
            status["status"]
            for each in _settings(deployment, bucket, "aws_s3_bucket_versioning")
            for status in each["versioning_configuration"]
        ]
        != ["Enabled"]
    ]


def buckets_refuse_plain_http(deployment: Deployment) -> list[str]:
    """Nobody reaches a bucket or an object of it without TLS, or a store with a version before 1.2."""
    wrong = []
    for bucket in deployment.of("aws_s3_bucket"):
        arn = f"arn:aws:s3:::{bucket.values['bucket']}"
        places = {each.address for each in _of(deployment, bucket, "aws_s3_bucket_policy")}
        if not any(
            not each.allows
            and each.address in places
            and each.principals == (("*", "*"),)
            and each.actions == ("s3:*",)
            and set(each.resources) == {arn, f"{arn}/*"}
            and each.condition("aws:SecureTransport") == ("false",)
            for each in statements(deployment, OF_RESOURCES)
        ):
            wrong.append(f"{bucket.address} takes requests without TLS")
        old = [
            version
            for each in statements(deployment, OF_RESOURCES)
            if each.address in places and not each.allows
            for operator, key, (version, *_) in each.conditions
            if (operator, key) == ("NumericLessThan", "s3:TlsVersion")
        ]
        if "sparklog:store" in (bucket.values.get("tags") or {}) and old != ["1.2"]:
            wrong.append(f"{bucket.address} takes requests by an old TLS")
    return wrong


def log_data_never_expires(deployment: Deployment) -> list[str]:
    """A rule removes deleted objects and broken uploads, and nothing else."""
    wrong = []
    for bucket in deployment.of("aws_s3_bucket"):
        found = list(_settings(deployment, bucket, "aws_s3_bucket_lifecycle_configuration"))
        rules = [rule for each in found for rule in each["rule"] if rule["status"] == "Enabled"]
        for rule in rules:
            if any(each.get("days") or each.get("date") for each in rule["expiration"]):
                wrong.append(f"{bucket.address}: rule {rule['id']} expires objects that are there")
            if rule["transition"]:
                wrong.append(f"{bucket.address}: rule {rule['id']} moves objects out of reach of quick reads")
        if not any(_whole(rule) and rule["noncurrent_version_expiration"] for rule in rules):
            wrong.append(f"{bucket.address} keeps what was deleted for ever")
        if not any(_whole(rule) and rule["abort_incomplete_multipart_upload"] for rule in rules):
            wrong.append(f"{bucket.address} keeps uploads that were not completed for ever")
    return wrong


def stores_are_where_the_outputs_say(deployment: Deployment) -> list[str]:
    """The command that creates the cluster names one bucket of this deployment for each store, and no other."""
    command = deployment.outputs["init_command"]
    named = re.findall(r"s3://([a-z0-9-]+)/", command)
    stores = {
        each.values["bucket"]
        for each in deployment.of("aws_s3_bucket")
        if "sparklog:store" in (each.values.get("tags") or {})
    }
    cluster = re.search(r"--cluster\s+s3://([a-z0-9-]+)/", command)
    wrong = [f"init_command names {bucket}, which is not made" for bucket in sorted(set(named) - stores)]
    wrong += [f"init_command does not name {bucket}" for bucket in sorted(stores - set(named))]
    return wrong if cluster else [*wrong, "init_command has no --cluster s3://…"]


def _whole(rule: dict[str, Any]) -> bool:
    """True if the rule holds for each object of the bucket."""
    filters = rule.get("filter") or [{}]
    return not rule.get("prefix") and not any(
        each.get("prefix") or each.get("and") or each.get("tag") or each.get("object_size_greater_than")
        for each in filters
    )


def _of(deployment: Deployment, bucket: Resource, type_: str) -> Iterator[Resource]:
    names = {bucket.values["bucket"], bucket.values["id"]}
    yield from (each for each in deployment.of(type_) if each.values["bucket"] in names)


def _settings(deployment: Deployment, bucket: Resource, type_: str) -> Iterator[dict[str, Any]]:
    yield from (dict(each.values) for each in _of(deployment, bucket, type_))
