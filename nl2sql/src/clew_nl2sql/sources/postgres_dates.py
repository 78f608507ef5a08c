"""Dates of PostgreSQL that Python has none for: infinity, years before 1 and after 9999. They come as text.

One such value would otherwise cost all rows of the query that it is in.
"""

from __future__ import annotations

from typing import Any


def tell_odd_moments(connection: Any) -> None:
    """Let a connection give what it cannot read as a date as PostgreSQL writes it."""
    from psycopg import DataError
    from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader

    for name, loader in (
        ("date", DateLoader),
        ("timestamp", TimestampLoader),
        ("timestamptz", TimestamptzLoader),
    ):

        class Tolerant(loader):  # type: ignore[misc, valid-type]
            def load(self, data: Any) -> Any:
                try:
                    return super().load(data)
                except DataError:
                    return bytes(data).decode()

        connection.adapters.register_loader(name, Tolerant)
