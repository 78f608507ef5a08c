"""Find the functions that a query calls, for databases with user-defined functions.

The guard identifies functions by name. A name means the built-in function only if the database does not
define another one with the same name. Sources whose databases allow this look up the defined functions, and
reject a query that could call one.
"""

from __future__ import annotations

from itertools import pairwise

import sqlglot

from clew_nl2sql.errors import SecurityViolationError


def called_names(sql: str, dialect: str) -> list[str]:
    """Return every word before an opening parenthesis, in lower case: all functions, and some other words."""
    words = pairwise(sqlglot.tokenize(sql, dialect=dialect))
    return sorted(
        {word.text.lower() for word, after in words if after.text == "(" and word.text.isidentifier()}
    )


def refuse_defined(names: list[str]) -> None:
    """Raise an error if any user-defined function could be called."""
    if names:
        raise SecurityViolationError(
            f"{', '.join(sorted(names))}: this database defines its own function with that name"
        )
