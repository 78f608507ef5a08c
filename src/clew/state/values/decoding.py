"""Decode trees to values: the reading half of the canonical codec (``codec`` lists the forms).

Only registered classes are built, and nothing is imported by name. An invalid tree, also a hostile one, raises
``DecodeError``. A tree need not be canonical.

A class that is not registered is an error in strict mode, and becomes a `StoredObject` otherwise. With
``keeps_unfit``, so does an instance that its class no longer accepts, and any instance that holds one. No class is
built inside a stored object, registered or not.

The content of a ``$blob`` is loaded when it is reached. Content that contains itself cannot exist under a digest, but
the lookup may return anything, so nesting of contents is limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from clew.errors import ClassChangedError, ClewError, DecodeError
from clew.graph_warnings import warn
from clew.state.registry import OWN, RegisteredType, build, entry_named, lost_message, refuse_unhashable
from clew.state.stored_object import StoredContent, StoredObject
from clew.state.type_names import a
from clew.state.values import scalars
from clew.state.values.libraries import BY_TAG, Format, MissingLibraryError

Lookup = Callable[[str], Any]

_PLAIN = frozenset({str, int, float, bool, type(None)})
_DIGEST = re.compile("[0-9a-f]{64}", re.ASCII)
_MAX_CONTENTS = 8  # Clew never writes more than two levels


class Reading:
    """The options and the results so far of one decoding."""

    __slots__ = (
        "_contents",
        "_entries",
        "_is_strict",
        "_nested",
        "_unbuilt",
        "builds",
        "keeps_unfit",
        "lookup",
        "lost",
    )

    def __init__(
        self,
        lookup: Lookup | None = None,
        *,
        builds: bool = True,
        is_strict: bool = False,
        keeps_unfit: bool = False,
    ) -> None:
        self.lookup = lookup
        self.builds = builds  # classes
        self.keeps_unfit = keeps_unfit
        self._is_strict = is_strict
        self._unbuilt = 0  # how many instances were not built, where classes are
        self._entries: dict[str, RegisteredType | None] = {}
        self._contents: dict[tuple[str, str], str | bytes] = {}  # loaded once
        self._nested = 0
        self.lost: dict[tuple[str, str], None] = {}

    def warn(self) -> None:
        """Warn about dropped fields, once for each."""
        for name, field in self.lost:
            warn(lost_message(name, field))

    def object(self, payload: Any) -> Any:
        name, parts = payload
        if type(name) is not str:
            raise DecodeError(f"{a(type(name))} is not the name of a class")
        if self.builds or name.startswith(OWN):
            try:
                entry = self._entries[name]
            except KeyError:
                entry = self._entries[name] = entry_named(name)
            if entry is not None:
                before = self._unbuilt
                fields = read(parts, self)
                if self._unbuilt == before or not self.keeps_unfit:
                    try:
                        return self._built(entry, name, fields)
                    except ClassChangedError:
                        if not self.keeps_unfit:
                            raise
            elif self._is_strict:
                raise DecodeError(
                    f"the class {name!r} is not registered; call clew.register_type on it before reading"
                )
        return StoredObject(name, self.unbuilt(parts))

    def _built(self, entry: RegisteredType, name: str, fields: Any) -> Any:
        lost: list[str] = []
        instance = build(entry, name, fields, lost)
        for field in lost:
            self.lost[name, field] = None
        return instance

    def unbuilt(self, tree: Any) -> Any:
        """Read a tree without building classes."""
        builds, self.builds = self.builds, False
        self._unbuilt += builds
        try:
            return read(tree, self)
        finally:
            self.builds = builds

    def blob(self, payload: Any) -> Any:
        kind, digest = payload
        form = BY_TAG.get(kind) if type(kind) is str else None
        if form is None and kind not in ("bytes", "bytearray", "str", "json"):
            raise DecodeError(
                f"{kind!r} is not a kind of content; a newer version of clew may have written it"
            )
        if type(digest) is not str or not _DIGEST.fullmatch(digest):
            raise DecodeError(f"{digest!r} is not a digest")
        found = self._contents.get((kind, digest))
        if found is not None:
            return found
        content = self._content(digest)
        if form is not None:
            return self.library_value(form, content)
        if kind == "bytearray":
            return bytearray(content)
        value = (
            self._json(content) if kind == "json" else content if kind == "bytes" else str(content, "utf-8")
        )
        if type(value) is str or type(value) is bytes:  # immutable values may be shared
            self._contents[kind, digest] = value
        return value

    def library_value(self, form: Format, content: Any) -> Any:
        try:
            return form.decoded(content)
        except MissingLibraryError as error:
            if self._is_strict:
                raise DecodeError(f"{error}; install it and read again") from None
            self._unbuilt += self.builds
            return StoredContent(form.tag, content)

    def _content(self, digest: str) -> bytes:
        if self.lookup is None:
            raise DecodeError(
                f"the content {digest} is stored separately; pass blob=, a function that returns it"
            )
        try:
            content = self.lookup(digest)
        except LookupError as error:
            if isinstance(error, ClewError):
                raise
            raise DecodeError(f"the content {digest} is missing") from error
        return content if type(content) is bytes else bytes(memoryview(content))

    def _json(self, content: bytes) -> Any:
        if self._nested == _MAX_CONTENTS:
            raise DecodeError("the content is nested too deeply; clew did not write it")
        self._nested += 1
        try:
            return read(msgspec.json.decode(content), self)
        finally:
            self._nested -= 1


def read(tree: Any, reading: Reading) -> Any:
    kind = type(tree)
    if kind in _PLAIN:
        return tree
    if kind is list:
        return _read_items(tree, reading)
    if kind is not dict:
        raise DecodeError(f"{a(kind)} is not part of a canonical encoding")
    if len(tree) == 1:
        ((tag, payload),) = tree.items()
        if type(tag) is str and tag.startswith("$"):
            return _read_form(tag, payload, reading)
    values = {}
    for key, item in tree.items():
        if type(key) is not str:
            raise DecodeError(f"{a(type(key))} as a key is not part of a canonical encoding")
        values[key] = item if type(item) in _PLAIN else read(item, reading)
    return values


def _read_items(tree: Any, reading: Reading) -> list[Any]:
    if type(tree) is not list:
        raise DecodeError(f"expected a list, found {a(type(tree))}")
    values = []
    for item in tree:
        values.append(item if type(item) in _PLAIN else read(item, reading))
    return values


def _read_form(tag: str, payload: Any, reading: Reading) -> Any:
    scalar = scalars.READERS.get(tag)
    try:
        if scalar is not None:
            return scalar(payload)
        reader = _READERS.get(tag)
        if reader is None:
            raise DecodeError(
                f"{tag} is not a form of the canonical encoding; a newer version of clew may have written it"
            )
        return reader(payload, reading)
    except (ClewError, RecursionError):
        raise
    except Exception as error:  # a constructor may raise anything
        raise DecodeError(f"a {tag} cannot be read: {type(error).__name__}: {error}") from error


def _read_pairs(payload: Any, reading: Reading) -> dict[Any, Any]:
    pairs = [(read(key, reading), read(item, reading)) for key, item in payload]
    try:
        return dict(pairs)
    except Exception as error:
        _check_hashable([key for key, _ in pairs], error, reading)
        return {reading.unbuilt(key): read(item, reading) for key, item in payload}


def _check_hashable(members: list[Any], error: Exception, reading: Reading) -> None:
    """Raise the error, unless the class of a member is to blame and the member may be kept as it was stored."""
    try:
        for member in members:
            refuse_unhashable(member, error)
    except ClassChangedError:
        if reading.keeps_unfit:
            return
        raise
    raise error


def _set_reader(kind: Callable[[Any], Any]) -> Callable[[Any, Reading], Any]:
    def read_set(payload: Any, reading: Reading) -> Any:
        items = _read_items(payload, reading)
        try:
            return kind(items)
        except Exception as error:
            _check_hashable(items, error, reading)
            return kind(reading.unbuilt(payload))

    return read_set


def _library_reader(form: Format) -> Callable[[Any, Reading], Any]:
    if form.is_tree:
        return lambda payload, reading: reading.library_value(form, payload)
    return lambda payload, reading: reading.library_value(form, scalars.from_base64(payload))


_READERS: dict[str, Callable[[Any, Reading], Any]] = {
    "$tuple": lambda payload, reading: tuple(_read_items(payload, reading)),
    "$set": _set_reader(set),
    "$frozenset": _set_reader(frozenset),
    "$dict": _read_pairs,
    "$object": lambda payload, reading: reading.object(payload),
    "$blob": lambda payload, reading: reading.blob(payload),
    **{f"${form.tag}": _library_reader(form) for form in BY_TAG.values()},
}
