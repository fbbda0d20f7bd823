"""Signatures for bulk bodies. Imported only where a client is in use."""

from __future__ import annotations

from typing import Any

from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth


class UnsignedBodyAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signature version 4 over address and headers. Hashing the body too would cost more than sending it."""

    def payload(self, request: Any) -> str:
        """What stands for the body's hash."""
        return str(UNSIGNED_PAYLOAD)
