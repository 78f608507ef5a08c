"""The time zone of a source: which day "today" is, and where a day begins.

- A source has the time zone of its address (``?timezone=Europe/Paris``). Without one, PostgreSQL and DuckDB have that
  of their database session, and SQLite, which has none, that of this machine.
- "Today" is the date in that zone at the time of the run. It is recorded, so a replay has the same date.
- A timestamp without a time zone is local time of the source. One with a time zone is compared and shown in it.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from clew_nl2sql.errors import UsageError

_PARAMETER = re.compile(r"([?&])timezone=([^&]*)(?:&|$)")


def today_in(timezone: str) -> date:
    """Return the current date in a time zone; in that of this machine, if the name is empty."""
    return datetime.now(ZoneInfo(timezone) if timezone else None).date()


def in_utc(day: date, timezone: str) -> datetime:
    """Return when a day begins in a time zone, in UTC."""
    return datetime.combine(day, time(), ZoneInfo(timezone)).astimezone(UTC)


def without_timezone(address: str) -> tuple[str, str]:
    """Split an address into the address without its time zone, and the time zone."""
    found = _PARAMETER.search(address)
    if found is None:
        return address, ""
    rest = address[: found.start()]
    if found.end() < len(address):
        rest += found[1] + address[found.end() :]
    return rest, check_timezone(found[2].replace("%2F", "/"))


def known_timezone(name: str) -> str:
    """Return the name of a database's time zone; empty if Python does not know it, as "+02"."""
    try:
        return check_timezone(name)
    except UsageError:
        return ""


def check_timezone(name: str) -> str:
    """Return the name of a time zone; raise UsageError if it is unknown."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown, a path, or a folder
        raise UsageError(f"{name!r} is not a time zone; write a name such as Europe/Paris or UTC") from error
    return name
