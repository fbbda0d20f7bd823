"""Recorded S3 requests as IAM sees them: the action and resource of each, and what else it needs.

By the Service Authorization Reference (Amazon S3, AWS KMS) and the API reference of each operation. Buckets have names
that stand for store ids. A bucket with SSE-KMS makes a request for an object also one to KMS, by S3 for the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, unquote

from tests.servers.fault_proxy_rules import Request
from tests.terraform.rights.iam_policy import Asked

DECRYPT, ENCRYPT = "kms:Decrypt", "kms:GenerateDataKey"

# The action of each kind of request (FaultProxy's names) on an object, and what it asks of KMS.
OF_OBJECT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "GET": ("s3:GetObject", (DECRYPT,)),
    "HEAD": ("s3:GetObject", (DECRYPT,)),
    "PUT": ("s3:PutObject", (ENCRYPT,)),
    "CREATE_MULTIPART": ("s3:PutObject", (ENCRYPT,)),
    "UPLOAD_PART": ("s3:PutObject", (ENCRYPT, DECRYPT)),
    "COPY": ("s3:PutObject", (ENCRYPT, DECRYPT)),
    "COMPLETE_MULTIPART": ("s3:PutObject", (DECRYPT,)),
    "ABORT_MULTIPART": ("s3:AbortMultipartUpload", ()),
    "DELETE": ("s3:DeleteObject", ()),
}


def asked_by(request: Request, key_arn: str, region: str) -> Iterator[Asked]:
    """All that IAM must allow for one request. Raises ValueError for a request that has no rule here."""
    bucket, _, key = unquote(request.path.lstrip("/")).partition("/")
    bucket_arn = f"arn:aws:s3:::{bucket}"
    if request.kind == "LIST":
        query = parse_qs(request.query, keep_blank_values=True)
        if "uploads" in query:
            yield Asked("s3:ListBucketMultipartUploads", bucket_arn)
        else:
            yield Asked("s3:ListBucket", bucket_arn, {"s3:prefix": query["prefix"][0]} if "prefix" in query else {})
        return
    if request.kind not in OF_OBJECT:
        raise ValueError(f"no rule says what IAM asks for {request}")
    action, of_key = OF_OBJECT[request.kind]
    yield Asked(action, f"{bucket_arn}/{key}")
    if request.status == 404 and request.kind in ("GET", "HEAD"):
        # S3 says that an object is absent only to those who may list its key; to others it answers 403.
        yield Asked("s3:ListBucket", bucket_arn, {"s3:prefix": key})
        of_key = ()
    if source := request.headers.get("x-amz-copy-source"):
        yield Asked("s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/').partition('?')[0]}")
    for each in of_key:
        yield Asked(each, key_arn, {"kms:viaservice": f"s3.{region}.amazonaws.com"})
