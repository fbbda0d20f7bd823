"""Sorts the options that a user gave to a read or a write: sparklog's own, settings of stores, Kafka's, unknown ones.

Case does not matter in names, because Spark passes them on in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn

import msgspec

from sparklog.core.config.key import ConfigValue, nearest
from sparklog.core.config.storage import StorageSettings, storage_settings
from sparklog.core.errors import InvalidOption
from sparklog.options.connector import (
    CONNECTOR_IGNORED,
    KAFKA_ALIASES,
    KAFKA_REFUSED,
    KAFKA_VALUES,
    SPARKS_OWN_IN_STREAMS,
)
from sparklog.options.registry import OPTIONS, Option, Side

_BY_FOLDED: Final = {name.lower(): option for name, option in OPTIONS.items()}
_CONNECTOR_FOLDED: Final = {name.lower(): (name, reason) for name, reason in CONNECTOR_IGNORED.items()}
_PATHS: Final = ("path", "paths")  # of load() and save()
_KAFKA_ADDRESS: Final = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://.*|[^/\s,:]+:[0-9]+(\s*,\s*[^/\s,:]+:[0-9]+)*)", re.IGNORECASE
)


class Ignored(msgspec.Struct, frozen=True):
    """An option that was given but has no effect, and the reason."""

    name: str
    reason: str


class GivenOptions:
    """The options that a user gave to a read or a write. Raises `InvalidOption` for an unknown or refused option.

    Other options without effect are kept in `ignored`.
    """

    def __init__(self, raw: Mapping[str, str], side: Side) -> None:
        self.side = side
        self._texts: dict[str, tuple[str, str]] = {}  # option name -> (text, the name that the user wrote)
        self._ignored: dict[str, str] = {}
        self._storage: dict[str, str] = {}
        aliases: dict[str, tuple[str, str]] = {}
        for name, text in raw.items():
            folded = name.lower()
            option = _BY_FOLDED.get(folded)
            if option is not None and side in option.sides:
                self._texts[option.name] = (text, option.name)
            elif folded in KAFKA_REFUSED[side]:
                raise InvalidOption(
                    f"{name}: not supported, as in Spark's Kafka connector: {KAFKA_REFUSED[side][folded]}"
                )
            elif folded in KAFKA_ALIASES[side]:
                aliases[KAFKA_ALIASES[side][folded]] = (text, name)
            elif folded.startswith("kafka."):
                self._ignored[name] = "a setting of Kafka's clients"
            elif option is not None:
                self._ignored[option.name] = f"an option of a {' and a '.join(_sides_of(option))}"
            elif folded in _CONNECTOR_FOLDED:
                known, reason = _CONNECTOR_FOLDED[folded]
                if not (side.is_stream and known in SPARKS_OWN_IN_STREAMS):
                    self._ignored[known] = reason
            elif folded.startswith("storage."):
                self._take_storage(name, text)
            else:
                self._refuse(name)
        for target, (text, name) in aliases.items():
            self._take_alias(target, text, name)

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def names(self) -> list[str]:
        """The names of the given options of sparklog that this read or write uses, in the order of the registry."""
        return [name for name in OPTIONS if name in self._texts]

    def ignore(self, name: str, reason: str) -> None:
        """Report option `name` as ignored if it was given. `reason` says why it has no effect."""
        if name in self._texts:
            self._ignored[self._texts[name][1]] = reason

    def has_ignored(self, name: str) -> bool:
        """True if this option was given but has no effect."""
        return name in self._ignored

    def text(self, name: str) -> str:
        """The text of a given option, without blanks around it. Raises `InvalidOption` if it is empty or not legal."""
        return str(OPTIONS[name].parse(*self._texts[name], self.side))

    def optional_text(self, name: str) -> str | None:
        """Return the text of an option, or its default, or None without either. Raises `InvalidOption`."""
        value = self._value(name)
        return None if value is None else str(value)

    def optional_integer(self, name: str) -> int | None:
        """Return the value of an integer option, or its default, or None without either. Raises `InvalidOption`."""
        value = self._value(name)
        assert value is None or isinstance(value, int)
        return value

    def integer(self, name: str) -> int:
        """Return the value of an integer option that has a default. Raises `InvalidOption`."""
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a Boolean option that has a default. Raises `InvalidOption`."""
        return self._value(name) is True

    def elements(self, name: str) -> tuple[str, ...] | None:
        """The elements of a list option; None if it was not given. Raises `InvalidOption`."""
        value = self._value(name)
        assert value is None or isinstance(value, tuple)
        return value

    def raw(self, name: str) -> str:
        """The text of a given option, as the user wrote it."""
        return self._texts[name][0]

    def cluster(self, default: str | None) -> str:
        """Return the cluster's address: the option `cluster`, or `default` (from the environment).

        Raises `InvalidOption` if neither is given, if the address is a Kafka cluster's or begins with `memory:`, or if
        the user gave `load` or `save` a path, but no option `cluster`.
        """
        path = next((name for name in _PATHS if name in self._ignored), None)
        if "cluster" not in self._texts and path is not None:
            raise InvalidOption(
                f"{path}: a {self.side} takes no path; name the cluster with the option cluster and its topic with "
                f"{'topic' if self.side.is_write else 'subscribe'}"
            )
        if "cluster" not in self._texts and not default:
            raise InvalidOption(
                "cluster: wanted the address of a cluster (option cluster, or SPARKLOG_CLUSTER in the driver's "
                "environment), found neither"
            )
        given_as = self._texts["cluster"][1] if "cluster" in self._texts else "SPARKLOG_CLUSTER"
        address = self.text("cluster") if "cluster" in self._texts else str(default)
        if _KAFKA_ADDRESS.fullmatch(address):
            raise InvalidOption(
                f"{given_as}: {address!r} is a Kafka address; "
                "cluster is file://, s3://, gs://, abfs://, hdfs:// or http://"
            )
        if address.lower().startswith("memory:"):
            raise InvalidOption(
                f"{given_as}: {address!r} lives in one process, and Spark's tasks run in others; "
                "cluster is file://, s3://, gs://, abfs://, hdfs:// or http://"
            )
        return address

    def storage(self) -> StorageSettings:
        """Return the settings of stores, and the token and certificates for the cluster's coordinators."""
        return storage_settings(self._storage, self.optional_text("cluster.token"), self.optional_text("cluster.ca"))

    def ignored(self) -> tuple[Ignored, ...]:
        """The options that were given but have no effect, sorted by name."""
        return tuple(Ignored(name, reason) for name, reason in sorted(self._ignored.items()))

    def _value(self, name: str) -> ConfigValue | None:
        option = OPTIONS[name]
        return option.parse(*self._texts[name], self.side) if name in self._texts else option.key.default

    def _take_alias(self, target: str, text: str, name: str) -> None:
        if target in self._texts:
            self._ignored[name] = f"{target} is given"
            return
        word = text.strip().lower()
        instead = KAFKA_VALUES.get(name.lower(), {}).get(word)
        if instead is None:
            self._texts[target] = (text, name)
            return
        value, reason = instead
        self._ignored[f"{name}={word}"] = reason
        if value is not None:
            self._texts[target] = (value, name)

    def _take_storage(self, name: str, text: str) -> None:
        store, _, key = name[len("storage.") :].lower().rpartition(".")
        if not store or not key:
            raise InvalidOption(f"{name}: wanted storage.<store>.<key>, found no store or no key in it")
        self._storage[f"{store}.{key}"] = text

    def _refuse(self, name: str) -> NoReturn:
        here = [option.name for option in OPTIONS.values() if self.side in option.sides]
        near = nearest(name, [*OPTIONS, *KAFKA_ALIASES[self.side], *CONNECTOR_IGNORED])
        raise InvalidOption(
            f"{name}: not an option of a {self.side}; "
            + (f"did you mean {near}?" if near else f"there are {', '.join(here)}, and storage.<store>.<key>")
        )


def _sides_of(option: Option) -> list[str]:
    """Name the operations that use an option, as in ["stream read", "write"]; "write" is batch and stream writes."""
    words = {(True, True): "{}", (True, False): "batch {}", (False, True): "stream {}"}
    named = []
    for verb, batch, stream in (
        ("read", Side.BATCH_READ, Side.STREAM_READ),
        ("write", Side.BATCH_WRITE, Side.STREAM_WRITE),
    ):
        used = (batch in option.sides, stream in option.sides)
        if any(used):
            named.append(words[used].format(verb))
    return named


def warning_of(ignored: tuple[Ignored, ...]) -> str | None:
    """Return one line for the log that names every ignored option with the reason; None if no option is ignored."""
    if not ignored:
        return None
    return "options without effect in sparklog: " + "; ".join(f"{option.name} ({option.reason})" for option in ignored)
