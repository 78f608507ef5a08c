"""``clew explore --app`` and ``--url``: explore a service from its OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

from clew.cli.output import CommandError
from clew.errors import RefusedServiceError, SystemSetupError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Return a duration such as 60s or 5m in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or not float(found[1]):
        raise CommandError(f"{text!r} is not a duration", "give a number and a unit, such as 60s or 5m")
    return float(found[1]) * _UNITS[found[2]]


def explore_service(**options: Any) -> Any:
    """Explore a service; a service that is refused is exit code 2."""
    from clew.explore.api.explorer import explore_api

    try:
        return explore_api(**options)
    except (RefusedServiceError, SystemSetupError) as error:
        what, _, hint = str(error).rpartition("; ")
        raise CommandError(what or hint, hint if what else "see `clew explore --help`", code=2) from error
