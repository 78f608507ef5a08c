"""Convert JSON data to a type: how an answer that came as JSON becomes what the program expects.

Structs, dataclasses, TypedDicts, enums, dates and their combinations are converted by msgspec, types with a pydantic
model by pydantic. A value that has its type already, and a type that neither knows, is left as it is.
"""

from __future__ import annotations

import sys
import typing
from typing import Any

import msgspec


def converted(expected: Any, value: Any) -> Any:
    """Return JSON data as a value of a type. Raise ValueError if it does not match."""
    if expected is Any or expected is object or _has_type(expected, value):
        return value
    if has_model(expected):
        pydantic = sys.modules["pydantic"]
        try:
            return pydantic.TypeAdapter(expected).validate_python(value)
        except pydantic.ValidationError as error:
            problems = [_problem(each) for each in error.errors(include_url=False)]
            raise ValueError("; ".join(problems)) from error
        except pydantic.errors.PydanticUserError:
            return value
    try:
        return msgspec.convert(value, expected, str_keys=True)  # JSON has no other keys
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    except (TypeError, NameError):  # msgspec does not know this type
        return value


def _has_type(expected: Any, value: Any) -> bool:
    """Return whether a value is an instance of a class that is no plain data."""
    parts = (expected, *typing.get_args(expected))
    plain = (str, int, float, bool, dict, list, tuple, set, frozenset, type(None))
    return type(value) not in plain and any(
        isinstance(part, type) and isinstance(value, part) for part in parts
    )


def has_model(expected: Any) -> bool:
    """Return whether a type contains a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(expected, type) and issubclass(expected, pydantic.BaseModel):
        return True
    return any(has_model(part) for part in typing.get_args(expected))


def _problem(problem: typing.Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
