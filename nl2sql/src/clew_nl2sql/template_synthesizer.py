"""Write the answer by template."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from clew_nl2sql.schemas import AggregatorResponse

LISTED = 10


class TemplateSynthesizer:
    """Writes small results as a sentence, and the first row of larger ones."""

    def synthesize(self, question: str, result: AggregatorResponse) -> str:
        """Return the text of the answer."""
        columns, rows = result.columns, result.rows
        if not rows:
            return "Nothing matches."
        if len(rows) == 1 and len(columns) == 1:
            return f"{_sentence(_label(columns[0]))}: {shown(rows[0][0])}."
        if len(rows) == 1:
            return f"{_sentence(_row(columns, rows[0]))}."
        count = _sentence(f"{'more than ' if result.truncated else ''}{len(rows)} rows")
        if len(columns) == 1:
            listed = ", ".join(shown(row[0]) for row in rows[:LISTED])
            rest = f" and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
            return f"{count}: {listed}{rest}."
        return f"{count}; the first: {_row(columns, rows[0])}."


def _row(columns: tuple[str, ...], row: tuple[Any, ...]) -> str:
    return ", ".join(f"{_label(name)} {shown(value)}" for name, value in zip(columns, row))


def shown(value: Any) -> str:
    """Return a value as text for people."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"  # or inf, or nan
    if isinstance(value, Decimal):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _label(name: str) -> str:
    return name.replace("_", " ")
