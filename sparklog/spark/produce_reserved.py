"""Names that the columns of a source can't have, because produce's own columns beside them do."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce_bad_rows import BAD
from sparklog.spark.produce_rows import RAW


def check_column_names(columns: Sequence[str], *, source: str, text: bool, json: bool) -> None:
    """Raise InvalidInput if the source brought one of the names itself; `columns` hold BAD of text, and RAW of JSON.

    A difference of case is none to Spark. A column taken for RAW would be written in place of the row.
    """
    names = [each.lower() for each in columns]
    for name, own in ((BAD, text), (RAW, json)):
        if names.count(name) > own:
            raise InvalidInput(
                f"{source}: wanted columns, fields and folders of other names than {name}, which produce uses itself, "
                f"found one: rename it, or select the columns into a table without it (--table)"
            )
