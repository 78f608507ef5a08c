"""The forms of single values that JSON lacks.

A form is an object with one key, the tag: ``{"$decimal": "1.50"}``. This module has the tags of values that contain no
other values; containers and classes are in ``encoding`` and ``decoding``.

A form contains everything that code can see of the value (the fold of a time, the name of a time zone, the zeros of a
decimal); a fixed offset of pydantic is stored as ``datetime.timezone``. It does not depend on the platform, the locale
or the decimal context. ``pathlib`` and ``zoneinfo`` are imported only when they are needed.
"""

from __future__ import annotations

import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from clew.state.type_names import a

# Practically all JSON parsers read numbers within these bounds as integers; larger ones get a form.
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def text_tree(text: str) -> Any:
    """Return the text, or a form if it has lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return escaped(text)
    return text


def escaped(text: str) -> dict[str, str]:
    """Return the form of text with lone surrogates."""
    return {"$str": text.encode("unicode_escape").decode("ascii")}


def read_text(tree: Any) -> str:
    if type(tree) is dict:
        (form,) = tree.items()
        if form[0] == "$str":
            return _unescaped(form[1])
    return _text(tree)


def _text(payload: Any) -> str:
    if type(payload) is not str:
        raise TypeError(f"expected text, found {type(payload).__name__}")
    return payload


def _unescaped(payload: Any) -> str:
    return _text(payload).encode("ascii").decode("unicode_escape")


def large_int_tree(number: int) -> Any:
    # Hexadecimal: decimal conversion takes quadratic time, and Python rejects more than 4,300 digits.
    return {"$int": hex(number)}


def float_tree(number: float) -> Any:
    # JSON has minus zero, but no infinities and no NaN.
    return number if number - number == 0.0 else {"$float": repr(number)}


_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def base64(data: bytes | bytearray) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def from_base64(payload: Any) -> bytes:
    return a2b_base64(_text(payload), strict_mode=True)


def _moment(moment: Any) -> Any:
    """Return a datetime or time as ISO 8601 if that is complete, else as [ISO 8601, time zone, fold]."""
    zone = moment.tzinfo
    if zone is not None and type(zone) is not timezone:
        zone = _plain_zone(zone)
    if not moment.fold and (zone is None or (type(zone) is timezone and not _zone_name(zone))):
        return moment.isoformat()
    return [moment.replace(tzinfo=None, fold=0).isoformat(), zone_tree(zone), moment.fold]


def _read_moment(kind: Any) -> Callable[[Any], Any]:
    def read(payload: Any) -> Any:
        if type(payload) is not list:
            return kind.fromisoformat(payload)
        iso, zone, fold = payload
        return kind.fromisoformat(iso).replace(tzinfo=read_zone(zone), fold=fold)

    return read


def _zone_name(zone: timezone) -> tuple[str, ...]:
    """Return the name of a fixed offset, if it has one."""
    _, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
    return tuple(name)


def _plain_zone(zone: tzinfo) -> tzinfo:
    """Return pydantic's fixed offset, which it gives to each datetime that it parses, as one of Python."""
    core = sys.modules.get("pydantic_core")
    is_core = core is not None and type(zone) is getattr(core, "TzInfo", None)
    return timezone(zone.utcoffset(None) or timedelta()) if is_core else zone


def zone_tree(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is timezone:
        return {"$timezone": _fixed_zone(zone)}
    zoneinfo = sys.modules.get("zoneinfo")
    if zoneinfo is not None and type(zone) is zoneinfo.ZoneInfo:
        return {"$zoneinfo": _zone_key(zone)}
    raise ValueError(f"its time zone is {a(type(zone))}; use datetime.timezone or zoneinfo.ZoneInfo")


def _fixed_zone(zone: timezone) -> list[Any]:
    return [_duration(zone.utcoffset(None)), *map(text_tree, _zone_name(zone))]


def _zone_key(zone: Any) -> str:
    if zone.key is None:
        raise ValueError("its time zone was read from a file and has no key; use zoneinfo.ZoneInfo(key)")
    return str(zone.key)


def read_zone(tree: Any) -> tzinfo | None:
    if tree is None:
        return None
    ((tag, payload),) = tree.items()
    return _ZONE_READERS[tag](payload)


def _read_fixed_zone(payload: Any) -> timezone:
    offset, *name = payload
    return timezone(_read_duration(offset), *map(read_text, name))


def _read_zone_key(payload: Any) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(_text(payload))


_ZONE_READERS: dict[str, Callable[[Any], tzinfo]] = {
    "$timezone": _read_fixed_zone,
    "$zoneinfo": _read_zone_key,
}


def _duration(duration: timedelta) -> list[int]:
    return [duration.days, duration.seconds, duration.microseconds]


def _read_duration(payload: Any) -> timedelta:
    days, seconds, microseconds = payload
    return timedelta(days, seconds, microseconds)


def _path(path: Any) -> Any:
    # Forward slashes, so that a relative path has the same encoding on every platform.
    return text_tree(path.as_posix())


def _read_path(kind: str) -> Callable[[Any], Any]:
    def read(payload: Any) -> Any:
        import pathlib

        return getattr(pathlib, kind)(read_text(payload))

    return read


WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    complex: ("$complex", lambda number: [repr(number.real), repr(number.imag)]),
    datetime: ("$datetime", _moment),
    date: ("$date", date.isoformat),
    time: ("$time", _moment),
    timedelta: ("$timedelta", _duration),
    timezone: ("$timezone", _fixed_zone),
    Decimal: ("$decimal", str),
    UUID: ("$uuid", str),
    type(msgspec.UNSET): ("$unset", lambda unset: None),
}

READERS: dict[str, Callable[[Any], Any]] = {
    "$str": _unescaped,
    "$int": lambda payload: int(_text(payload), 16),
    "$float": lambda payload: _NOT_FINITE[payload],
    "$bytes": from_base64,
    "$bytearray": lambda payload: bytearray(from_base64(payload)),
    "$complex": lambda payload: complex(*(float(_text(part)) for part in payload)),
    "$datetime": _read_moment(datetime),
    "$date": lambda payload: date.fromisoformat(payload),
    "$time": _read_moment(time),
    "$timedelta": _read_duration,
    **_ZONE_READERS,
    "$decimal": lambda payload: Decimal(_text(payload)),
    "$uuid": lambda payload: UUID(_text(payload)),
    "$path": _read_path("Path"),
    "$pure_posix_path": _read_path("PurePosixPath"),
    "$pure_windows_path": _read_path("PureWindowsPath"),
    "$unset": lambda payload: msgspec.UNSET,
}


def late_writer(cls: type) -> tuple[str, Callable[[Any], Any]] | None:
    """Return the writer for a class of a module that is not imported here."""
    zoneinfo = sys.modules.get("zoneinfo")
    if zoneinfo is not None and cls is zoneinfo.ZoneInfo:
        return "$zoneinfo", _zone_key
    core = sys.modules.get("pydantic_core")
    if core is not None and cls is getattr(core, "TzInfo", None):
        return "$timezone", lambda zone: zone_tree(_plain_zone(zone))["$timezone"]
    pathlib = sys.modules.get("pathlib")
    if pathlib is None:
        return None
    if cls is type(pathlib.Path()):
        return "$path", _path
    return {
        pathlib.PurePosixPath: ("$pure_posix_path", _path),
        pathlib.PureWindowsPath: ("$pure_windows_path", _path),
    }.get(cls)
