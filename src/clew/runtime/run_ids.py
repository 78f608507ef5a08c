"""Run ids: which strings may name a run.

A run id has 1 to 255 characters, at least one of which is visible, and no control characters, so that it can be
printed on one line, read, and stored in a database column. This is checked when a run is created: by `run`, `fork`,
`rerun` and `import_run`. The id of an existing run only has to be a string.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from typing import Any

from clew.errors import InputError
from clew.state.type_names import a

MAX_LENGTH = 255
CHILD_PREFIX = "child-"  # of the ids of all children

_INVISIBLE = frozenset({"Cf", "Zs"})  # such as a zero-width space or a byte order mark; spaces
_FORBIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, lone surrogate, line and paragraph separator


def new_run_id(given: Any = None) -> str:
    """Return the id of a new run: the given one if it is valid, else a random one."""
    if given is None:
        return os.urandom(16).hex()
    problem = run_id_problem(given)
    if problem:
        raise InputError(f"run_id {problem}; give 1 to {MAX_LENGTH} visible characters")
    return str(given)


def checked_run_id(run_id: Any) -> str:
    """Return the id of an existing run. Raises InputError if it is not a string."""
    if isinstance(run_id, str):
        return run_id
    own = getattr(run_id, "run_id", None)
    give = (
        f"give its run_id, {own!r}"
        if isinstance(own, str)
        else "give the run_id of a result, such as result.run_id"
    )
    raise InputError(f"a run id is a string, got {a(type(run_id))}; {give}")


def may_be_child(run_id: Any) -> bool:
    """Return whether a run may be a child: without this test, every claim would have to read the row of its run."""
    return isinstance(run_id, str) and run_id.startswith(CHILD_PREFIX)


def seed_of(run_id: str) -> int:
    """Return the seed of a run that is given none."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7], "big")


def run_id_problem(run_id: Any) -> str:
    """Return why a value cannot name a run, or an empty string if it can."""
    if type(run_id) is not str:
        return f"is {a(type(run_id))}, not a string"
    if not run_id:
        return "is empty"
    if len(run_id) > MAX_LENGTH:
        return f"has {len(run_id)} characters"
    if run_id.isprintable() and not run_id.isspace():  # nearly always
        return ""
    for character in run_id:
        if unicodedata.category(character) in _FORBIDDEN:
            return f"contains {character!r}"
    if all(unicodedata.category(character) in _INVISIBLE for character in run_id):
        return f"has no visible character: {run_id!a}"
    return ""
