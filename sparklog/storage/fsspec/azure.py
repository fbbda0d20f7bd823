"""Requests to Azure's blob storage, sent by Microsoft's client library.

adlfs holds the account, the credentials and the client of that library. Its own `pipe_file(mode="create")` is not used,
for two reasons. It can't set the metadata of an object, where the write id belongs. And with it Microsoft's library
would repeat a request whose answer was lost.
"""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import os
import re
from typing import Any, Final

import adlfs
import aiohttp
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobPrefix

from sparklog.storage.fsspec.bodies import PIECE_BYTES, Body
from sparklog.storage.fsspec.clients import files_of, run
from sparklog.storage.fsspec.cloud import CONNECT_S, ListedObject, ObjectPart, Page
from sparklog.storage.fsspec.connections import connection_failure
from sparklog.storage.fsspec.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.fsspec.settings import AzureSettings

# Without this, the logger prints ten lines for each try with unusable credentials. Here an error reports them.
# Handlers that others added stay.
logging.getLogger("azure.identity").addHandler(logging.NullHandler())

_WRITE_ID: Final = "sparklog_write"
_IS_FOLDER: Final = "hdi_isfolder"  # in the metadata of a directory, in accounts with a hierarchical namespace
_BLOCKS_AT_ONCE: Final = 4
_BUSY: Final = frozenset({408, 409, 425, 429})
_SIZE: Final = re.compile(r".*/(\d+)")
_KIND_OF_CODE: Final = {
    "BlobAlreadyExists": CloudFailure.EXISTS,
    "ConditionNotMet": CloudFailure.EXISTS,
    "UnauthorizedBlobOverwrite": CloudFailure.EXISTS,
    "BlobNotFound": CloudFailure.ABSENT,
    "ContainerNotFound": CloudFailure.NO_BUCKET,
    "ContainerBeingDeleted": CloudFailure.NO_BUCKET,
    "BlobImmutableDueToPolicy": CloudFailure.REFUSED,
    # Another writer's object has replaced the blocks. The next try finds that object.
    "InvalidBlockList": CloudFailure.NOT_DONE,
    "InvalidBlobOrBlock": CloudFailure.NOT_DONE,
}


class Azure:
    """A container of Azure's blob storage."""

    starts_listings_anywhere = False  # the API's parameter for it is new, and older servers ignore it

    def __init__(self, container: str, settings: AzureSettings, try_s: float) -> None:
        self._files = files_of(settings, lambda: _new_files(settings))
        self._container = self._files.service_client.get_container_client(container)
        self._once: dict[str, Any] = {"retry_total": 0, "connection_timeout": CONNECT_S, "read_timeout": try_s}
        self._once["raw_response_hook"] = _check_sender
        self.place = f"the container {container!r}"
        self.endpoint = str(self._files.service_client.primary_endpoint)

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free: in one request, or as blocks that are then committed as an object."""
        self._run(self._put, timeout_s, name, write_id, body)

    async def _put(self, name: str, write_id: str, body: Body) -> None:
        blob = self._container.get_blob_client(name)
        absent = {"metadata": {_WRITE_ID: write_id}, **self._once}
        # Each entry of the chain is this small. Azurite refuses a small object where a dead writer has left blocks.
        if body.size_bytes <= PIECE_BYTES:
            whole = body.read(0, body.size_bytes)
            await blob.upload_blob(whole, overwrite=False, raw_request_hook=_send_bit_by_bit, **absent)
            return
        numbers = range(-(-body.size_bytes // PIECE_BYTES))
        ids = [base64.b64encode(f"{write_id}-{number:05}".encode()).decode() for number in numbers]
        pieces = zip(ids, body.pieces(PIECE_BYTES), strict=True)

        async def stage_blocks() -> None:
            for block_id, piece in pieces:
                await blob.stage_block(block_id, io.BytesIO(piece), len(piece), **self._once)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_BLOCKS_AT_ONCE):
                    group.create_task(stage_blocks())
        except ExceptionGroup as errors:
            failed = _failed(errors.exceptions[0])
            # Blocks that are not committed are no object, so the write has certainly not landed.
            raise CloudRequestFailed(CloudFailure.NOT_DONE, failed.reason) if failed.in_doubt else failed from errors
        blocks = [BlobBlock(block_id) for block_id in ids]
        await blob.commit_block_list(blocks, match_condition=MatchConditions.IfMissing, **absent)

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The write id in an object's metadata, or None if the metadata has no write id."""
        metadata: dict[str, str] = self._properties(name, timeout_s).metadata
        return {key.lower(): value for key, value in metadata.items()}.get(_WRITE_ID)

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        return int(self._properties(name, timeout_s).size)

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, or fewer if the object ends earlier."""

        async def read() -> tuple[bytes, str, str]:
            blob = self._container.get_blob_client(name)
            opened = await blob.download_blob(offset=start, length=end - start, max_concurrency=1, **self._once)
            return await opened.readall(), opened.properties.content_range, opened.properties.etag

        body, content_range, version = self._run(read, timeout_s)
        size = _SIZE.fullmatch(content_range or "")
        if size is None or len(body) != min(end, int(size[1])) - start:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"{len(body)} bytes instead of {start}-{end}")
        return ObjectPart(body, int(size[1]), version)

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """One page of a listing. See Cloud.list_page."""

        async def list_page() -> tuple[list[Any], str | None]:
            walk = self._container.walk_blobs if by_folder else self._container.list_blobs
            pages = walk(name_starts_with=prefix, include=["metadata"], **self._once).by_page(token)
            async for page in pages:
                return [blob async for blob in page], pages.continuation_token
            return [], None

        listed, token = self._run(list_page, timeout_s)
        folders = [blob.name for blob in listed if isinstance(blob, BlobPrefix)]
        objects = [
            ListedObject(blob.name, blob.size, int(blob.last_modified.timestamp() * 1000))
            for blob in listed
            if not isinstance(blob, BlobPrefix) and _IS_FOLDER not in (blob.metadata or {})
        ]
        return Page(objects, folders, token)

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object. An absent one raises CloudRequestFailed."""
        self._run(self._container.delete_blob, timeout_s, name, **self._once)

    def _properties(self, name: str, timeout_s: float) -> Any:
        return self._run(self._container.get_blob_client(name).get_blob_properties, timeout_s, **self._once)

    def _run(self, function: Any, timeout_s: float, *given: Any, **named: Any) -> Any:
        try:
            return run(self._files, function, timeout_s, *given, **named)
        except (AzureError, OSError, aiohttp.ClientError, ValueError) as error:
            raise _failed(error) from error


def _send_bit_by_bit(request: Any) -> None:
    """Replace the request's body, which is bytes, by a stream: other requests are then served while it is sent."""
    request.http_request.data = io.BytesIO(request.http_request.data)


def _check_sender(response: Any) -> None:
    """Raise CloudRequestFailed if a successful answer comes from a server other than Azure, such as a proxy.

    The client would read such an answer as an empty listing, or as a wrong size.
    """
    answer = response.http_response
    if answer.status_code < 300 and "x-ms-request-id" not in answer.headers:
        raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"HTTP {answer.status_code} without the id of the request")


def _failed(error: BaseException) -> CloudRequestFailed:
    if isinstance(error, ClientAuthenticationError) and error.status_code is None:  # nothing was sent
        reason = error.message.partition("\n")[0]
        return CloudRequestFailed(CloudFailure.NOT_DONE, f"the credentials can't be used: {reason}")
    if not isinstance(error, HttpResponseError) or error.status_code is None:
        return connection_failure(error)
    status = error.status_code
    code = getattr(error, "error_code", None)
    code = getattr(code, "value", code)  # a member of an enumeration, or text that the enumeration lacks
    message = (error.message or "").partition("\n")[0]
    reason = f"HTTP {status} {code or ''}: {message}"
    if status == 416:
        return CloudRequestFailed(CloudFailure.PAST_END, reason)
    if code in _KIND_OF_CODE:
        return CloudRequestFailed(_KIND_OF_CODE[code], reason)
    if status == 412:
        return CloudRequestFailed(CloudFailure.EXISTS, reason)
    if status in _BUSY or status >= 500:
        return CloudRequestFailed(CloudFailure.BUSY, reason)
    if status in (401, 403):
        return CloudRequestFailed(CloudFailure.DENIED, reason)
    return CloudRequestFailed(
        CloudFailure.NOT_THE_STORE if code is None or status in (200, 404) else CloudFailure.REFUSED, reason
    )


def _new_files(settings: AzureSettings) -> adlfs.AzureBlobFileSystem:
    files = adlfs.AzureBlobFileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        account_name=settings.account_name,
        account_host=settings.account_host,
        connection_string=settings.connection_string or _connection_string(settings),
        account_key=settings.account_key,
        sas_token=settings.sas_token,
    )
    account = files.service_client.account_name
    if account is not None and settings.account_name not in (None, account):
        raise ValueError(f"connection_string: wanted one of the account {settings.account_name!r}, found {account!r}")
    run(files, _send_once, CONNECT_S, files.service_client)
    return files


def _connection_string(settings: AzureSettings) -> str | None:
    """Return the connection string for a server other than Azure's, such as an emulator; None without `endpoint_url`.

    Raises ValueError if neither the settings nor the environment have the account's name and key.
    """
    if settings.endpoint_url is None:
        return None
    name = settings.account_name or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    key = settings.account_key or os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    if not name or not key:
        raise ValueError("endpoint_url goes with account_name and account_key, found it without")
    return f"AccountName={name};AccountKey={key};BlobEndpoint={settings.endpoint_url.rstrip('/')}/{name}"


async def _send_once(client: Any) -> None:
    """Stop aiohttp from repeating a PUT by itself when a reused connection closes without an answer.

    The first PUT may have succeeded. Neither adlfs nor the client has a setting for this.
    """
    transport = client._pipeline._transport
    await transport.open()
    transport.session._retry_connection = False
