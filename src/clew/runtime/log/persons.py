"""The user who answers, resumes or updates a run: the user of this process, if the system knows one."""

from __future__ import annotations

from functools import lru_cache

_LONGEST = 100


@lru_cache(maxsize=1)
def this_user() -> str:
    """Return the name of the user that this process belongs to; "" if it is not known."""
    from getpass import getuser

    try:
        return getuser()[:_LONGEST]
    except (ImportError, KeyError, OSError):  # a container without user names
        return ""
