"""Requests to Azure's blob storage, sent by Microsoft's client library.

Its own repeats and parallel transfers are not used: each call here sends one request, except a large `put`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import BlobBlock, BlobPrefix, BlobServiceClient

from sparklog.host.deadline import Deadline
from sparklog.storage.cloud.bodies import PIECE_BYTES, Body
from sparklog.storage.cloud.cloud import ListedObject, ObjectPart, Page
from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.cloud.send_once import CONNECT_S, TOKEN_S, client_of, new_session
from sparklog.storage.cloud.settings import AzureSettings
from sparklog.storage.parallel import in_parallel

# Without this, the logger prints ten lines for each try with unusable credentials. Here an error reports them.
# Handlers that others added stay.
logging.getLogger("azure.identity").addHandler(logging.NullHandler())

_WRITE_ID: Final = "sparklog_write"
_IS_FOLDER: Final = "hdi_isfolder"  # in the metadata of a directory, in accounts with a hierarchical namespace
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
        client = client_of(_new_client, settings, try_s)
        self._container = client.get_container_client(container)
        self.place = f"the container {container!r}"
        self.endpoint = f"{client.scheme}://{client.primary_hostname}"

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free: in one request, or as blocks that are then committed as an object."""
        deadline = Deadline(round(timeout_s * 1000))
        blob = self._container.get_blob_client(name)
        metadata = {_WRITE_ID: write_id}
        # Each entry of the chain is this small. Azurite refuses a small object where a dead writer has left blocks.
        if body.size_bytes <= PIECE_BYTES:
            whole = body.read(0, body.size_bytes)
            _call(blob.upload_blob, timeout_s, whole, overwrite=False, metadata=metadata)
            return
        ids = [f"{write_id}-{number:05}" for number in range(-(-body.size_bytes // PIECE_BYTES))]
        failed: list[CloudRequestFailed] = []

        def stage(number: int) -> None:
            if failed:
                return
            piece = body.read(number * PIECE_BYTES, min((number + 1) * PIECE_BYTES, body.size_bytes))
            try:
                _call(blob.stage_block, deadline.left_s(), ids[number], piece)
            except CloudRequestFailed as error:
                failed.append(error)

        in_parallel(stage, range(len(ids)))
        for error in failed:
            # Blocks that are not committed are no object, so the write has certainly not landed.
            raise CloudRequestFailed(CloudFailure.NOT_DONE, error.reason) if error.in_doubt else error
        blocks = [BlobBlock(block_id) for block_id in ids]
        absent = MatchConditions.IfMissing
        _call(blob.commit_block_list, deadline.left_s(), blocks, match_condition=absent, metadata=metadata)

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The write id in an object's metadata, or None if the metadata has no write id."""
        metadata: dict[str, str] = self._properties(name, timeout_s).metadata
        return {key.lower(): value for key, value in metadata.items()}.get(_WRITE_ID)

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        return int(self._properties(name, timeout_s).size)

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, or fewer if the object ends earlier."""
        blob = self._container.get_blob_client(name)
        opened = _call(blob.download_blob, timeout_s, start, end - start, max_concurrency=1)
        body, content_range, version = opened.readall(), opened.properties.content_range, opened.properties.etag
        size = _SIZE.fullmatch(content_range or "")
        if size is None or len(body) != min(end, int(size[1])) - start:
            raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"{len(body)} bytes instead of {start}-{end}")
        return ObjectPart(body, int(size[1]), version)

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """One page of a listing. See Cloud.list_page."""

        def listed_page(read_timeout: float) -> tuple[list[Any], str | None]:
            walk = self._container.walk_blobs if by_folder else self._container.list_blobs
            pages: Any = walk(name_starts_with=prefix, include=["metadata"], read_timeout=read_timeout).by_page(token)
            return list(next(pages)), pages.continuation_token

        listed, token = _call(listed_page, timeout_s)
        folders = [blob.name for blob in listed if isinstance(blob, BlobPrefix)]
        objects = [
            ListedObject(blob.name, blob.size, int(blob.last_modified.timestamp() * 1000))
            for blob in listed
            if not isinstance(blob, BlobPrefix) and _IS_FOLDER not in (blob.metadata or {})
        ]
        return Page(objects, folders, token)

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object. An absent one raises CloudRequestFailed."""
        _call(self._container.delete_blob, timeout_s, name)

    def _properties(self, name: str, timeout_s: float) -> Any:
        return _call(self._container.get_blob_client(name).get_blob_properties, timeout_s)


def _call(function: Callable[..., Any], timeout_s: float, *given: Any, **named: Any) -> Any:
    """Call a function of the client that sends one request. Raises CloudRequestFailed."""
    try:
        return function(*given, read_timeout=timeout_s, **named)
    except (AzureError, OSError, ValueError) as error:
        raise _failed(error) from error


def _check_sender(response: Any) -> None:
    """Raise CloudRequestFailed if a successful answer comes from a server other than Azure, such as a proxy.

    The client would read such an answer as an empty listing, or as a wrong size.
    """
    answer = response.http_response
    if answer.status_code < 300 and "x-ms-request-id" not in answer.headers:
        raise CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"HTTP {answer.status_code} without the id of the request")


def _failed(error: Exception) -> CloudRequestFailed:
    """Classify an error of the client. `SendOnce` has classified those of a request without an answer."""
    if isinstance(error, ClientAuthenticationError) and error.status_code is None:
        reason = error.message.partition("\n")[0]
        return CloudRequestFailed(CloudFailure.NOT_DONE, f"the credentials can't be used: {reason}")
    if isinstance(error, ValueError):
        return CloudRequestFailed(CloudFailure.NOT_THE_STORE, f"an answer that can't be read ({type(error).__name__})")
    if not isinstance(error, HttpResponseError) or error.status_code is None:
        return CloudRequestFailed(CloudFailure.NOT_DONE, f"no access token ({type(error).__name__})")
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


def _new_client(settings: AzureSettings, try_s: float) -> BlobServiceClient:
    text = settings.connection_string or _connection_string(settings) or _variable("CONNECTION_STRING")
    name = settings.account_name or _variable("ACCOUNT_NAME")
    options = {
        "transport": RequestsTransport(session=new_session(try_s), connection_data_block_size=PIECE_BYTES),
        "retry_total": 0,
        "raw_response_hook": _check_sender,
    }
    if text:
        client = BlobServiceClient.from_connection_string(text, **options)
    elif name:
        host = settings.account_host or f"{name}.blob.core.windows.net"
        client = BlobServiceClient(f"https://{host}", _credential(name, settings), **options)
    else:
        raise ValueError("wanted account_name or connection_string, or an address with the account in it, found none")
    if settings.account_name not in (None, account := client.account_name):
        raise ValueError(f"connection_string: wanted one of the account {settings.account_name!r}, found {account!r}")
    return client


def _credential(account_name: str, settings: AzureSettings) -> Any:
    """Return the credential of the settings or of the environment; None for anonymous access, if that is asked for."""
    if key := settings.account_key or _variable("ACCOUNT_KEY"):
        return AzureNamedKeyCredential(account_name, key)
    if token := settings.sas_token or _variable("SAS_TOKEN"):
        return AzureSasCredential(token)
    limits = {"connection_timeout": CONNECT_S, "read_timeout": TOKEN_S, "retry_total": 0}
    if client_id := _variable("CLIENT_ID"):
        return ClientSecretCredential(_variable("TENANT_ID"), client_id, _variable("CLIENT_SECRET"), **limits)
    if _variable("ANON").lower() not in ("", "false", "0", "f"):
        return None
    return DefaultAzureCredential(process_timeout=round(TOKEN_S), **limits)


def _variable(name: str) -> str:
    return os.environ.get(f"AZURE_STORAGE_{name}", "")


def _connection_string(settings: AzureSettings) -> str | None:
    """Return the connection string for a server other than Azure's, such as an emulator; None without `endpoint_url`.

    Raises ValueError if neither the settings nor the environment have the account's name and key.
    """
    if settings.endpoint_url is None:
        return None
    name = settings.account_name or _variable("ACCOUNT_NAME")
    key = settings.account_key or _variable("ACCOUNT_KEY")
    if not name or not key:
        raise ValueError("endpoint_url goes with account_name and account_key, found it without")
    return f"AccountName={name};AccountKey={key};BlobEndpoint={settings.endpoint_url.rstrip('/')}/{name}"
