"""The options of a table in Spark's catalog. Spark shows them to a Python data source only while the table is made.

    CREATE TABLE … USING sparklog OPTIONS (…)    Spark asks for the schema, with the options, and keeps the answer
    SELECT … FROM, INSERT INTO, …                Spark hands that schema back, with none of the table's options

So the answer carries them, as metadata of its last column (Spark 4.2: `PythonDataSourceV2.getTable` drops what the
catalog knows, and a Python data source has no other place).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from sparklog.core.errors import InvalidOption
from sparklog.core.option_registry import OPTIONS, Side
from sparklog.core.storage_settings import SECRET_STORAGE_KEYS
from sparklog.storage.open_store import absolute_url

_METADATA_KEY: Final = "sparklog.table"
_PREFIX: Final = "option."  # of what OPTIONS says, beside a copy of it and Spark's own properties of the table
_PROPERTIES: Final = ("provider", "owner")  # Spark gives every table these
_ADDRESS: Final = ("cluster", "kafka.bootstrap.servers")
# If one of these is given, it says where to read or write, and the rows only happen to come from a table.
_ELSEWHERE: Final[Mapping[Side, tuple[str, ...]]] = {
    Side.BATCH_READ: ("subscribe", "subscribepattern", "assign", "metadata"),
    Side.BATCH_WRITE: ("topic", *_ADDRESS),
}
_ONLY: Final[Mapping[Side, frozenset[str]]] = {
    side: frozenset(name.lower() for name, option in OPTIONS.items() if option.sides == (side,)) for side in Side
}


def options_of_new_table(given: Mapping[str, str]) -> dict[str, str] | None:
    """What OPTIONS says if Spark asks for the schema of a table that it is about to make, else None.

    Raises InvalidOption for a secret: the catalog would keep it in clear.
    """
    if not all(name in given for name in _PROPERTIES):
        return None
    table = {name[len(_PREFIX) :]: text for name, text in given.items() if name.startswith(_PREFIX)}
    for name in table:
        if name == "cluster.token" or (name.startswith("storage.") and name.rpartition(".")[2] in SECRET_STORAGE_KEYS):
            raise InvalidOption(
                f"{name}: a table's options stay in the catalog in clear, so a secret can't be one of them: leave it "
                "out, and give it to driver and executors by their environment or by SPARKLOG_CONFIG"
            )
    return table


def keep_options(schema: StructType, table: Mapping[str, str]) -> StructType:
    """The schema to answer with for a new table. The cluster's address is kept as it reads from everywhere.

    Raises InvalidInput if it is no address of a store, or holds a password.
    """
    *others, last = schema.fields
    addresses = {name: absolute_url(table[name]) for name in _ADDRESS if name in table}
    kept = json.dumps({"columns": schema.fieldNames(), "options": {**table, **addresses}})
    return StructType([*others, StructField(last.name, last.dataType, last.nullable, {_METADATA_KEY: kept})])


def with_options_of_table(
    given: Mapping[str, str], schema: StructType, side: Side, default_cluster: str | None
) -> dict[str, str]:
    """The options to read or write rows of `schema` with: those given, over those of the table they belong to.

    Raises InvalidOption if Spark gave none and the schema carries none.
    """
    if any(name in given for name in _ELSEWHERE[side]):
        return dict(given)
    table = _kept(schema)
    if table is None:
        if not given and (side is Side.BATCH_READ or default_cluster is None):
            where = "cluster and subscribe" if side is Side.BATCH_READ else "cluster and topic"
            raise InvalidOption(
                f"wanted options ({where}), found none. Spark hands over those of a table in its catalog only if it "
                "was made by CREATE TABLE name USING sparklog OPTIONS (…) without a list of columns, not by "
                "saveAsTable and not AS SELECT"
            )
        return dict(given)
    cluster = next((table[name] for name in _ADDRESS if name in table), None)
    elsewhere = default_cluster is not None and cluster not in (None, absolute_url(default_cluster))
    if side is Side.BATCH_WRITE and elsewhere:
        raise InvalidOption(
            f"wanted one cluster to write to, found {cluster!r} of the table that the rows have the columns of, and "
            f"{default_cluster!r} of SPARKLOG_CLUSTER: give the options cluster and topic"
        )
    other = _ONLY[Side.BATCH_WRITE if side is Side.BATCH_READ else Side.BATCH_READ]
    return {name: text for name, text in table.items() if name not in other} | dict(given)


def _kept(schema: StructType) -> dict[str, str] | None:
    """The options of the table whose columns these are, all of them and in their order; else None."""
    text = schema.fields[-1].metadata.get(_METADATA_KEY) if schema.fields else None
    if text is None:
        return None
    kept = json.loads(text)
    return kept["options"] if kept["columns"] == schema.fieldNames() else None
