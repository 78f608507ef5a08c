"""What a query calls, by name: for databases in which somebody may have defined another `lower`.

The guard knows functions by name. That name means the database's own function only if nobody has defined one by the
same name in the database; sources whose databases allow that ask what was defined, and refuse a query that could
mean it.
"""

from __future__ import annotations

from itertools import pairwise

import sqlglot

from clew_nl2sql.errors import SecurityViolationError


def called_names(sql: str, dialect: str) -> list[str]:
    """Every word that stands before a bracket, in lower case: all functions, and a few words more."""
    words = pairwise(sqlglot.tokenize(sql, dialect=dialect))
    return sorted(
        {word.text.lower() for word, after in words if after.text == "(" and word.text.isidentifier()}
    )


def refuse_defined(names: list[str]) -> None:
    """Refuse a query for the functions that it could mean."""
    if names:
        raise SecurityViolationError(
            f"{', '.join(sorted(names))}: this database has a function of its own by that name"
        )
