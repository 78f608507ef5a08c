"""Return PostgreSQL dates that Python cannot represent as text: infinity, years before 1 and after 9999.

Otherwise one such value would make the whole query fail.
"""

from __future__ import annotations

from typing import Any


def return_odd_dates_as_text(connection: Any) -> None:
    """Make a connection return dates that Python cannot represent as PostgreSQL's text."""
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
