"""Pydantic's `ValidationError` as plain data, and back.

Its class cannot be derived from, and its content is not in attributes: only pydantic's own constructor builds one. So
it has its own form: the title and one row for each problem. An input that cannot be stored is replaced by its text, and
an exception in the context of a problem is stored as any error.

Pydantic is never imported here: without it there is no such error to write, and none that a handler could catch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from clew.error_text import encodable, safely

KIND = "pydantic_core._pydantic_core:ValidationError"
"""The stored name of the class."""


def plain_problems(
    error: BaseException, plain: Callable[[BaseException], Any], is_storable: Callable[[Any], bool]
) -> dict[str, Any] | None:
    """Return the content of a `ValidationError` as plain data; None for any other error.

    Args:
        error: The error.
        plain: Returns an error inside it as plain data.
        is_storable: Returns whether a value can be stored.
    """
    if type(error) is not _class():
        return None

    def row(problem: Mapping[str, Any]) -> dict[str, Any]:
        kind, context = problem["type"], dict(problem.get("ctx") or {})
        names = [str(kind.type), str(kind.message_template)] if not isinstance(kind, str) else [str(kind)]
        made: dict[str, Any] = {"type": names, "loc": list(problem["loc"])}
        value = problem["input"]
        made["input"] = value if is_storable(value) else encodable(repr(value))
        made["raised"] = {k: plain(v) for k, v in context.items() if isinstance(v, Exception)}
        rest = {k: v for k, v in context.items() if k not in made["raised"]}
        made["ctx"] = {k: v if is_storable(v) else encodable(str(v)) for k, v in rest.items()}
        return made

    def content() -> dict[str, Any]:
        made: Any = error.__reduce__()
        title, problems, mode, is_hidden = made[1]
        return {"title": title, "rows": list(map(row, problems)), "mode": mode, "hidden": is_hidden}

    found: dict[str, Any] | None = safely(content, None)
    return found


def error_of_problems(stored: Mapping[str, Any], error_of: Callable[[Any], Exception]) -> Exception | None:
    """Build a `ValidationError` from the result of `plain_problems`; None if the process has not loaded pydantic."""
    cls = _class()
    if cls is None:
        return None
    custom = sys.modules["pydantic_core"].PydanticCustomError

    def problem(row: Mapping[str, Any]) -> dict[str, Any]:
        names, loc = row["type"], tuple(row["loc"])
        context = {**row["ctx"], **{name: error_of(each) for name, each in row["raised"].items()}}
        kind = custom(*names, context or None) if len(names) == 2 else names[0]
        return {"type": kind, "loc": loc, "input": row["input"], "ctx": context}

    def build() -> Exception:
        rows = list(map(problem, stored["rows"]))
        made: Exception = cls.from_exception_data(
            stored["title"], rows, input_type=stored["mode"], hide_input=stored["hidden"]
        )
        return made

    # another version of pydantic may not know a type of problem
    found: Exception | None = safely(build, None)
    return found


def _class() -> Any:
    core = sys.modules.get("pydantic_core")
    return None if core is None else getattr(core, "ValidationError", None)
