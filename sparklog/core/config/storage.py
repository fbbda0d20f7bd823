"""Settings for reaching the stores of a cluster, by store, with the secrets kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

METADATA_STORE: Final = "metadata"  # stands for the place of the chain, and for stores at the same address

# All keys of the settings `storage.<store>.<key>` that are secrets.
SECRET_STORAGE_KEYS: Final = frozenset(
    {"secret_access_key", "session_token", "password", "connection_string", "account_key", "sas_token"}
)

_HALVES_OF_SECRETS: Final = ("access_key_id",)  # useless or misleading without the secret
_HADOOP_KEYS: Final = ("dfs.", "fs.", "hadoop.")  # an HDFS store accepts any key of Hadoop's configuration


class StorageSettings(msgspec.Struct, frozen=True):
    """Settings of stores and of the cluster. The `repr` hides the secrets.

    `plain` and `secret` map "store.key" to a value. The names are in lower case, because Spark passes them on that way.
    `token` is the secret by which a coordinator knows this process. `ca` is a file of certificates to trust, in place
    of the system's, when connecting to coordinators. Both stay out of tasks, which don't connect to coordinators.
    """

    plain: Mapping[str, str] = {}
    secret: Mapping[str, str] = {}
    token: str | None = None
    ca: str | None = None

    def without_secrets(self) -> StorageSettings:
        """Return the settings that may be sent to executors: without secrets, and without the access key ids that go
        with them.

        Executors take both from their own environment.
        """
        with_secret = {name.rpartition(".")[0] for name in self.secret}
        halves = {f"{store}.{key}" for store in with_secret for key in _HALVES_OF_SECRETS}
        return StorageSettings(plain={name: value for name, value in self.plain.items() if name not in halves})

    def over(self, other: StorageSettings) -> StorageSettings:
        """These settings, completed with those of `other` where a setting is missing."""
        return StorageSettings(
            {**other.plain, **self.plain},
            {**other.secret, **self.secret},
            self.token or other.token,
            self.ca or other.ca,
        )

    def of(self, store: str, *, at_root: bool = False) -> dict[str, str]:
        """Return all settings of a store by key, with its secrets.

        `at_root`: the store is at the address of the chain. A setting that the store itself lacks is then taken from
        the settings of METADATA_STORE, the id of the chain's store.
        """
        by_key = self.of(METADATA_STORE) if at_root else {}
        prefix = f"{store.lower()}."
        for settings in (self.plain, self.secret):
            by_key |= {name.removeprefix(prefix): value for name, value in settings.items() if _is_key(name, prefix)}
        return by_key

    def __repr__(self) -> str:
        token = "None" if self.token is None else "***"
        secret = dict.fromkeys(self.secret, "***")
        return f"StorageSettings(plain={dict(self.plain)!r}, secret={secret!r}, token={token}, ca={self.ca!r})"


NO_SETTINGS: Final = StorageSettings()  # the environment's and the platform's own apply


def storage_settings(given: Mapping[str, str], token: str | None = None, ca: str | None = None) -> StorageSettings:
    """Settings from `given`, which maps "store.key" to values. `token` and `ca` are as in `StorageSettings`.

    Names are put in lower case, and secrets are kept apart.
    """
    folded = {name.lower(): value for name, value in given.items()}
    secret = {name: value for name, value in folded.items() if name.rpartition(".")[2] in SECRET_STORAGE_KEYS}
    return StorageSettings({name: value for name, value in folded.items() if name not in secret}, secret, token, ca)


def _is_key(name: str, prefix: str) -> bool:
    """True if `name`, in the form "store.key", is a setting of one store. `prefix`: the store's id and a dot.

    A store id may contain dots. So if the rest of `name` contains one, the setting belongs to a store with a longer id,
    unless the rest is a key of Hadoop's, such as `dfs.replication`.
    """
    key = name.removeprefix(prefix)
    return name.startswith(prefix) and ("." not in key or key.startswith(_HADOOP_KEYS))
