"""The options of a table in Spark's catalog. A Python data source sees them only while Spark creates the table.

    CREATE TABLE … USING sparklog OPTIONS (…)    Spark asks for the schema, with the options, and keeps the schema
    SELECT … FROM [STREAM], readStream.table     Spark passes that schema back, but none of the table's options
    INSERT INTO, saveAsTable, toTable            Spark passes the schema of the rows, and nothing about the table

So the schema carries the options, as metadata of its last column. Spark's `PythonDataSourceV2.getTable` drops the
catalog's options, and a Python data source has no other place to keep them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from sparklog.core.config.storage import SECRET_STORAGE_KEYS
from sparklog.core.errors import InvalidOption
from sparklog.options.registry import OPTIONS
from sparklog.storage.open_store import absolute_url

_METADATA_KEY: Final = "sparklog.table"
_PREFIX: Final = "option."  # marks values from OPTIONS; Spark also passes a copy without it, and its own properties
_PROPERTIES: Final = ("provider", "owner")  # Spark gives every table these
_ADDRESS: Final = ("cluster", "kafka.bootstrap.servers")
_WHAT: Final = (
    "subscribe",
    "subscribepattern",
    "assign",
    "metadata",
)  # options that choose what to read; any of them replaces the table's
_FOR_WRITES: Final = frozenset(
    name.lower() for name, option in OPTIONS.items() if all(side.is_write for side in option.sides)
)
_OF_KAFKA: Final = ("password", "jaas", "secret", "token")  # words in the names of Kafka's secret options
_NO_INSERT: Final = (
    "Spark passes no options of a written table to a Python data source, so INSERT INTO, saveAsTable and "
    'toTable can\'t append to a log: use df.write.format("sparklog").option("cluster", …).option("topic", …)'
    '.mode("append").save(), or writeStream with the same options and start()'
)


def options_of_new_table(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that Spark is about to create; None if Spark is not creating a table.

    Raises InvalidOption for a secret, which the catalog would keep in clear text.
    """
    if not all(name in given for name in _PROPERTIES):
        return None
    table = {name[len(_PREFIX) :]: text for name, text in given.items() if name.startswith(_PREFIX)}
    for name in table:
        if _is_secret(name.lower()):
            raise InvalidOption(
                f"{name}: the catalog keeps a table's options in clear text, so a secret can't be one of them: leave "
                "it out, and give it to driver and executors by their environment or by SPARKLOG_CONFIG"
            )
    return table


def _is_secret(name: str) -> bool:
    if name.startswith("kafka."):
        return any(word in name for word in _OF_KAFKA)
    return name == "cluster.token" or (name.startswith("storage.") and name.rpartition(".")[2] in SECRET_STORAGE_KEYS)


def keep_options(schema: StructType, table: Mapping[str, str]) -> StructType:
    """The schema of a new table, with its options in it. The cluster's address is made absolute.

    Raises InvalidInput if that address is not the address of a store, or holds a password.
    """
    *others, last = schema.fields
    addresses = {name: absolute_url(table[name]) for name in _ADDRESS if name in table}
    kept = json.dumps({"columns": schema.fieldNames(), "options": {**table, **addresses}})
    return StructType([*others, StructField(last.name, last.dataType, last.nullable, {_METADATA_KEY: kept})])


def read_options_of_table(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options for reading rows of `schema`: `given`, and the table's options that `given` does not override.

    The schema carries the table's options. They are ignored if `given` has the address of a cluster. Raises
    InvalidOption if there are no options at all, or if the table's columns were altered and no option chooses what to
    read.
    """
    if any(name in given for name in _ADDRESS):
        return dict(given)
    table = _kept(schema)
    says_what = any(name in given for name in _WHAT)
    if table is None:
        if not says_what:
            _check_unaltered(schema)
        if not given:
            raise InvalidOption(
                "wanted options (cluster and subscribe), found none. Spark passes on the options of a catalog table "
                "only if it was created by CREATE TABLE name USING sparklog OPTIONS (…) without a list of columns, not "
                "by saveAsTable or AS SELECT, and if its columns were never altered"
            )
        return dict(given)
    replaced = _WHAT if says_what else ()
    kept = {name: text for name, text in table.items() if name.lower() not in (*_FOR_WRITES, *replaced)}
    return kept | dict(given)


def check_written_options(given: Mapping[str, str], schema: StructType) -> None:
    """Raise InvalidOption unless the options of a write give its target.

    For INSERT INTO, saveAsTable and toTable, Spark passes neither the options nor the name of the table. For some
    statements, `schema` carries the options of the table that the rows come from. They are not used, because the rows
    would be appended to the log that they come from.
    """
    addressed = any(name in given for name in _ADDRESS)
    if not addressed and "topic" not in given:
        raise InvalidOption(f"wanted the option cluster or topic, found neither. {_NO_INSERT}")
    if not addressed and any(_METADATA_KEY in field.metadata for field in schema):
        raise InvalidOption(
            f"wanted the option cluster, because the rows come from a table of a log, found none. {_NO_INSERT}"
        )


def _check_unaltered(schema: StructType) -> None:
    """Raise InvalidOption if `schema` is that of a table whose columns were altered: added, dropped or moved.

    Spark alters columns in its catalog without asking the data source, so only a read can detect it.
    """
    for field in schema:
        text = field.metadata.get(_METADATA_KEY)
        if text is not None and (columns := json.loads(text)["columns"]) != schema.fieldNames():
            raise InvalidOption(
                f"wanted the columns with which the table of this log was created ({', '.join(columns)}), found "
                f"{', '.join(schema.fieldNames())}: a log's columns are fixed, so ALTER TABLE can't change them. DROP "
                "TABLE removes the table from the catalog but no records; then create it again"
            )


def _kept(schema: StructType) -> dict[str, str] | None:
    """Return the options that `schema` carries as the schema of a catalog table.

    None if it carries none, or if its columns are not those with which the table was created.
    """
    text = schema.fields[-1].metadata.get(_METADATA_KEY) if schema.fields else None
    if text is None:
        return None
    kept = json.loads(text)
    return kept["options"] if kept["columns"] == schema.fieldNames() else None
