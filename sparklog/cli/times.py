"""Times on the command line: ISO 8601 with a zone, milliseconds since the epoch, or a duration before now."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from sparklog.cli.output import now_ms
from sparklog.core.errors import InvalidOption

_BEFORE_NOW: Final = re.compile(r"-([0-9]{1,9})(s|m|h|d)")
_PERIOD: Final = re.compile(
    r"P(?=.)(?:([0-9]{1,9})D)?(?:T(?=.)(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,6})?)S)?)?"
)
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_us(where: str, text: str) -> int:
    """Parse a time into microseconds since the epoch. -90s, -15m, -1h and -7d count back from now.

    Raises InvalidOption, whose message begins with `where`.
    """
    from sparklog.options.starting_offsets import parse_timestamp_us

    before = _BEFORE_NOW.fullmatch(text.strip())
    if before is not None:
        return max(0, now_ms() - int(before[1]) * _UNIT_MS[before[2]]) * 1000
    try:
        return parse_timestamp_us(where, text)
    except InvalidOption as error:
        raise InvalidOption(f"{error.message}, or a time before now like -90s, -15m, -1h or -7d") from error


def period_ago_us(where: str, text: str) -> int:
    """Return the time a period before now, in microseconds since the epoch. A period is P7D, PT90S or P1DT2H30M.

    Raises InvalidOption, whose message begins with `where`.
    """
    period = _PERIOD.fullmatch(text.strip())
    if period is None:
        raise InvalidOption(f"{where}: wanted a period as in P7D, PT1H30M or PT90S (ISO 8601), found {text[:80]!r}")
    days, hours, minutes, seconds = (part or "0" for part in period.groups())
    whole_s = (int(days) * 24 + int(hours)) * 3600 + int(minutes) * 60
    return max(0, now_ms() * 1000 - whole_s * 1_000_000 - int(Decimal(seconds) * 1_000_000))
