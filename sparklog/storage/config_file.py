"""The config file of a process (conf/sparklog.toml): the cluster's address, the command for jobs, settings of stores.

    cluster = "s3://bucket/prefix"       # or, for coordinators: [cluster] with url, token and ca
    job_command = "spark-submit jobs/{job}.py --cluster {cluster} --report {report}"

    [storage.metadata]
    endpoint_url = "http://127.0.0.1:9000"

`--config` names the file on the command line; the variable SPARKLOG_CONFIG names it for any process. Each process that
opens a store reads the file itself. So secrets are never sent to executors: they read their own copy of the file.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from typing import Any, Final

from sparklog.core.config.key import did_you_mean
from sparklog.core.config.storage import StorageSettings, storage_settings
from sparklog.core.errors import InvalidOption

CONFIG_VARIABLE: Final = "SPARKLOG_CONFIG"
TOKEN_VARIABLE: Final = "SPARKLOG_TOKEN"
CA_VARIABLE: Final = "SPARKLOG_CA"
_KEYS: Final = ("cluster", "job_command", "storage")
_CLUSTER_KEYS: Final = ("url", "token", "ca")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The contents of a config file. `cluster` and `job_command` are None if the file does not set them."""

    cluster: str | None
    storage: StorageSettings
    job_command: str | None = None


def read_config_file(path: str, named_by: str) -> ConfigFile:
    """Read a config file; `named_by` is the option or variable that names it. Raises InvalidOption."""
    where = f"{named_by}: {path}"
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        hint = "; a config key is set by --topic-config KEY=VALUE or --cluster-config KEY=VALUE" if "=" in path else ""
        raise InvalidOption(f"{where} can't be read: {error.strerror}{hint}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise InvalidOption(f"{where} is not TOML: {error}") from error
    for key in tables:
        if key not in _KEYS:
            raise InvalidOption(f"{where}: wanted {', '.join(_KEYS)}, found {key!r}{did_you_mean(key, _KEYS)}")
    cluster = _cluster(tables.get("cluster", {}), where)
    stores = storage_settings(_storage(tables.get("storage", {}), where), cluster.get("token"), cluster.get("ca"))
    job_command = tables.get("job_command")
    if job_command is not None and (not isinstance(job_command, str) or not job_command):
        raise InvalidOption(f'{where}: wanted job_command = "local", "none" or a command, found {job_command!r}')
    return ConfigFile(cluster.get("url"), stores, job_command)


def settings_here(given: StorageSettings) -> StorageSettings:
    """Return the settings of stores, the token and the CA file that apply in this process.

    `given` takes precedence over the variables SPARKLOG_TOKEN and SPARKLOG_CA. These take precedence over the file that
    SPARKLOG_CONFIG names. Raises InvalidOption if that file can't be used.
    """
    here = given.over(StorageSettings(token=os.environ.get(TOKEN_VARIABLE), ca=os.environ.get(CA_VARIABLE)))
    path = os.environ.get(CONFIG_VARIABLE)
    return here.over(read_config_file(path, CONFIG_VARIABLE).storage) if path else here


def _cluster(cluster: Any, where: str) -> dict[str, str]:
    """Return url, token and ca from the value of the key `cluster`: a table of these, or the url alone.

    Raises InvalidOption. The error begins with `where`, the file. It never shows a value of the table: it may be the
    token.
    """
    if isinstance(cluster, dict):
        for key, value in cluster.items():
            if key not in _CLUSTER_KEYS:
                wanted = f"[cluster] wants {', '.join(_CLUSTER_KEYS)}"
                raise InvalidOption(f"{where}: {wanted}, found {key!r}{did_you_mean(key, _CLUSTER_KEYS)}")
            if not isinstance(value, str) or not value:
                raise InvalidOption(f"{where}: [cluster] {key}: wanted a string, found another value")
        return cluster
    if not isinstance(cluster, str) or not cluster:
        raise InvalidOption(f'{where}: wanted cluster = "URL", found {cluster!r}')
    return {"url": cluster}


def _storage(tables: Any, where: str) -> dict[str, str]:
    """Return the values in the `[storage.<store>]` tables as text, by `<store>.<key>`.

    Raises InvalidOption. The error begins with `where`, the file. It never shows a value: it may be a secret.
    """
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidOption(f"{where}: wanted tables [storage.<store>], found another value")
    settings = {}
    for store, table in tables.items():
        for key, value in table.items():
            if not isinstance(value, str | int | bool):
                raise InvalidOption(
                    f"{where}: [storage.{store}] {key}: wanted a string, a number or true or false, found another value"
                )
            settings[f"{store}.{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings
