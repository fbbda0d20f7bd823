"""Keys, endpoint, region and certificates from botocore's sessions. Imported only to build a client."""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import botocore.loaders
import botocore.session
from aiobotocore.session import AioSession
from botocore.configprovider import ConfiguredEndpointProvider
from botocore.credentials import Credentials

from sparklog.core.errors import InvalidInput
from sparklog.storage.s3.settings import S3Settings, check_endpoint


def new_async_session(profile: str | None) -> AioSession:
    """Return a session of `profile` for s3fs. All sessions share one description of the S3 API: parsing it is slow."""
    session = AioSession(profile=profile)
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> botocore.loaders.Loader:
    return botocore.loaders.create_loader(data_path)


def credentials_and_ca_bundle(settings: S3Settings) -> tuple[Any, str | None]:
    """Return botocore's credentials and the path of the file of CA certificates. Each may be None.

    Keys that expire are renewed in time, unless `settings` has them. Raises InvalidInput if the file can't be loaded.
    """
    session = botocore.session.Session(profile=settings.profile)
    ca_bundle = _ca_bundle(session)
    if settings.access_key_id:
        return Credentials(settings.access_key_id, settings.secret_access_key, settings.session_token), ca_bundle
    return session.get_credentials(), ca_bundle


def region_of(settings: S3Settings) -> dict[str, str]:
    """Return the region, as a parameter for botocore's client; {} if neither the settings nor AWS_REGION name one.

    botocore itself reads only AWS_DEFAULT_REGION and the profile. But AWS's own machines set AWS_REGION, and AWS's
    other SDKs read that variable first.
    """
    region = settings.region or os.environ.get("AWS_REGION")
    return {"region_name": region} if region else {}


def addressing(session: Any, settings: S3Settings) -> dict[str, str]:
    """Return botocore's addressing style, as a setting for it; {} to let botocore choose.

    `settings` takes precedence over the profile. If neither sets the style, endpoints other than AWS's get path style,
    because their buckets seldom have host names.
    """
    chosen = settings.path_style
    if chosen is None:
        if (session.get_scoped_config().get("s3") or {}).get("addressing_style"):
            return {}
        endpoint = settings.endpoint_url or _endpoint_of(session)
        host = (urlsplit(endpoint).hostname or "") if endpoint else ""
        if not host or host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
            return {}
        chosen = True
    return {"addressing_style": "path" if chosen else "virtual"}


def _endpoint_of(session: Any) -> str | None:
    """Return the endpoint in AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile; None if none is set."""
    endpoint = ConfiguredEndpointProvider(
        full_config=session.full_config, scoped_config=session.get_scoped_config(), client_name="s3"
    ).provide()
    if endpoint is None:
        return None
    check_endpoint(str(endpoint), "AWS_ENDPOINT_URL")
    return str(endpoint)


def _ca_bundle(session: Any) -> str | None:
    """Return the path of the file of certificates that AWS_CA_BUNDLE or the profile names, or None.

    Raises InvalidInput if the file can't be loaded: the error of a failing request would not name it.
    """
    path: str | None = session.get_config_variable("ca_bundle")
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:  # ssl's errors are OSErrors
            reason = "no certificate in it" if isinstance(error, ssl.SSLError) else error.strerror
            raise InvalidInput(
                "ca_bundle (AWS_CA_BUNDLE or the profile): wanted a file of certificates in PEM, "
                f"found {path}: {reason}"
            ) from error
    return path
