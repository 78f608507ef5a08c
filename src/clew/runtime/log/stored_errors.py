"""Failures as data: an error that is stored says its type, message, notes and place, and comes back as far as is safe.

Every exception can be stored. Its class may do as it likes: whatever of the class's own code raises is left out, and
type and message are always there. The place of a failure (step, node, path, attempt) is stored beside the error, never
in the error's notes.

No code of a class runs while an error is read, and nothing is imported. There are two ways back:

- **To look at.** Errors of Python itself and of this library come back as they were. For any other one there is a
  stand-in: of a class made for it, with the same name, derived from the nearest base that is Python's or this
  library's (``Exception`` if there is no nearer one), with the message that it had. `RecordedError` is for the rest:
  what only stops a process (``KeyboardInterrupt``), and what has no name that a class can have.
- **To handle** (`to_handle`), for the node that made a recorded call and must meet the same exception again. It comes
  back as its own class, if this process has imported that class already, so that the same ``except`` clauses catch
  it. It is built by the builtin exception below it, without the class's own ``__new__`` and ``__init__``; attributes
  are put into place directly. If something of it could not be stored, it is a stand-in derived from its own class.

What data names is only ever looked up among the classes that are there, and has to be an exception class.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any

from clew.engine.records import Failure
from clew.error_text import (
    attributes_of,
    bases_of,
    encodable,
    kind_of,
    message_of,
    native,
    notes_of,
    safely,
    set_native,
)
from clew.errors import ClewError
from clew.state import encode

_DEEP = 16  # causes of causes, groups in groups and errors in errors that are stored whole


class RecordedError(ClewError):
    """An error of a stored run whose class is not built again: ``kind`` is its name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


# -- writing -----------------------------------------------------------------------------------------------------


def plain_failure(failure: Failure) -> dict[str, Any]:
    """A failure as plain data: its error, and under ``at`` its place."""
    at: dict[str, Any] = {"step": failure.step, "node": failure.node, "path": failure.path}
    at["attempt"] = failure.attempt
    if failure.around:
        at["around"] = list(failure.around)
    if failure.refused:
        at["refused"] = failure.refused
    return {**plain_error(failure.error), "at": at}


def plain_error(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    return _plain(error, ())


def name_of(error: BaseException) -> tuple[str, str]:
    """An error's class, as it is stored, and its message: what makes two errors the same."""
    if issubclass(type(error), RecordedError):
        known = attributes_of(error)
        return known["kind"], known["message"]
    return kind_of(type(error)), message_of(error)


def _plain(error: BaseException, around: tuple[BaseException, ...]) -> dict[str, Any]:
    kind, message = name_of(error)
    plain: dict[str, Any] = {"type": kind, "message": message}
    if len(around) >= _DEEP or any(error is each for each in around):
        return plain
    inside = (*around, error)
    if issubclass(type(error), BaseExceptionGroup):
        # past the class: it may define members of its own under these names
        said, members = _GROUP_MESSAGE.__get__(error), _GROUP_MEMBERS.__get__(error)
        plain["group"] = [encodable(said), [_plain(each, inside) for each in members]]
    if not issubclass(type(error), RecordedError):
        _add_content(plain, error, inside)
    notes = notes_of(error)
    if notes:
        plain["notes"] = notes
    cause = native(error, "__cause__")
    if cause is not None and all(cause is not each for each in inside):
        plain["cause"] = _plain(cause, inside)
    traceback = native(error, "__traceback__")
    if traceback is not None:
        from traceback import format_tb

        plain["traceback"] = encodable(safely(lambda: "".join(format_tb(traceback)), ""))
    return plain


def _add_content(plain: dict[str, Any], error: BaseException, inside: tuple[BaseException, ...]) -> None:
    """Add what an error is made of: its arguments, its attributes, the errors among both, the classes below its own."""
    cls = type(error)
    args, attributes, within, is_whole = _made_of(error)
    if args != [plain["message"]]:
        plain["args"] = args
    if attributes:
        plain["attributes"] = attributes
    if within:
        plain["within"] = {name: _plain(each, inside) for name, each in within.items()}
    if not is_whole:
        plain["partial"] = True
    bases = [kind_of(each) for each in bases_of(cls)[1:-1] if each not in _COMMON]
    if bases:
        plain["bases"] = bases


def _made_of(
    error: BaseException,
) -> tuple[list[Any] | None, dict[str, Any], dict[str, BaseException], bool]:
    """What an error is made of: its arguments (None if they cannot be stored), its attributes, the errors among both by
    place or name, and whether that is all of it."""
    made = safely(lambda: _native(type(error)).__reduce__(error), None)
    args = list(made[1]) if isinstance(made, tuple) else list(native(error, "args"))
    state = {**attributes_of(error), **dict(_slots(error))}
    attributes: dict[str, Any] = {}
    within: dict[str, BaseException] = {}
    is_whole = _MARK not in _namespace(type(error))
    for name, value in state.items():
        if name == "__notes__" or not isinstance(name, str):
            continue
        if _is_error(value):
            within[name] = value
        elif _is_storable(value) and _is_storable(name):
            attributes[name] = value
        else:
            is_whole = False
    if issubclass(type(error), BaseExceptionGroup):
        return [], attributes, within, is_whole  # what it is made of is stored as its members
    for place, value in enumerate(args):
        if _is_error(value):
            within[str(place)], args[place] = value, None
    if not _is_storable(args):
        return None, attributes, within, False
    return args, attributes, within, is_whole


def _slots(error: BaseException) -> Iterator[tuple[str, Any]]:
    """The attributes that a class keeps in slots."""
    for cls in bases_of(type(error)):
        if cls not in _NATIVE:
            for name, slot in _namespace(cls).items():
                if type(slot) is MemberDescriptorType:
                    value = safely(lambda slot=slot: slot.__get__(error), _NOTHING)  # type: ignore[misc]
                    if value is not _NOTHING:
                        yield name, value


def _is_error(value: Any) -> bool:
    return issubclass(type(value), Exception)


def _is_storable(value: Any) -> bool:
    return bool(safely(lambda: encode(value, ordered=True), b""))


_NOTHING = object()
_MARK = "_clew_stand_in"  # a class that was made for a stored error
_COMMON = (Exception, BaseException)
_NATIVE = {cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)}
_GROUP_MESSAGE: Any = vars(BaseExceptionGroup)["message"]
_GROUP_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]


def _native(cls: type) -> Any:
    """The builtin exception that a class is built on."""
    return next(each for each in bases_of(cls) if each in _NATIVE)


# -- reading -----------------------------------------------------------------------------------------------------


def failure_of(plain: Mapping[str, Any]) -> Failure:
    """The failure that `plain_failure` wrote."""
    at = plain["at"]
    step, attempt, around = at["step"], at["attempt"], at.get("around", [])
    texts = (at["node"], at["path"], at.get("refused", ""), *around)
    if not all(type(number) is int for number in (step, attempt)):
        raise TypeError("the step and the attempt of a failure are numbers")
    if type(around) is not list or not all(type(text) is str for text in texts):
        raise TypeError("the node and the path of a failure are text")
    return Failure(
        error_of(plain),
        step,
        at["node"],
        at["path"],
        attempt,
        tuple(around),
        at.get("refused", ""),
    )


def error_of(plain: Mapping[str, Any], *, to_handle: bool = False) -> Exception:
    """The error that `plain_error` wrote; `to_handle` by code that saw it before, and must not see a difference."""
    kind, message = plain["type"], plain["message"]
    if type(kind) is not str or type(message) is not str:
        raise TypeError("the type and the message of an error are text")
    args = plain.get("args", [message])
    within = {name: error_of(each, to_handle=to_handle) for name, each in plain.get("within", {}).items()}
    attributes = {**plain.get("attributes", {}), **{n: e for n, e in within.items() if not n.isdecimal()}}
    if args is not None and within:
        args = [within.get(str(place), arg) for place, arg in enumerate(args)]
    if "group" in plain:
        said, members = plain["group"]
        args = [said, [error_of(each, to_handle=to_handle) for each in members]]
    error = None
    cls = _class_of(kind)
    is_whole = args is not None and not plain.get("partial", False)
    if cls is not None and is_whole and (to_handle or _is_ours(cls)):
        error = _built(cls, args, attributes)
    if error is None:
        error = _stand_in(kind, message, [kind, *plain.get("bases", ())], args, attributes, to_handle)
    notes = [note for note in plain.get("notes", ()) if type(note) is str]
    if notes:
        attributes_of(error)["__notes__"] = notes
    if "cause" in plain:
        set_native(error, "__cause__", error_of(plain["cause"], to_handle=to_handle))
    return error


def _class_of(kind: Any) -> type[Exception] | None:
    """An exception class that this process has imported, or None. Only names are looked up: nothing is called."""
    if type(kind) is not str:
        return None
    module, _, name = kind.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        names = _namespace(found)
        found = names.get(part) if part in names else None
    return found if _is_class(found) and Exception in bases_of(found) else None


def _namespace(holder: Any) -> Mapping[str, Any]:
    """The names that a module or a class has itself; nothing for anything else."""
    if ModuleType in bases_of(type(holder)):
        names = object.__getattribute__(holder, "__dict__")
        return names if type(names) is dict else {}
    if _is_class(holder):
        found: MappingProxyType[str, Any] = vars(type)["__dict__"].__get__(holder)
        return found
    return {}


def _is_class(value: Any) -> bool:
    return type in bases_of(type(value))


def _is_ours(cls: type) -> bool:
    """Whether a class is Python's or this library's, and not a program's."""
    return cls in _NATIVE or kind_of(cls).startswith("clew.")


def _built(cls: type[Exception], args: Any, attributes: Mapping[str, Any]) -> Exception | None:
    """An error of a class, without any code of that class; None if it needs more than was stored."""
    below = _native(cls)
    try:
        error: Exception = below.__new__(cls, *args)
        below.__init__(error, *args)
        _put(error, attributes)
    except Exception:
        return None
    return error


def _put(error: Exception, attributes: Mapping[str, Any]) -> None:
    """Set attributes past the class: in its slots, and else in its dictionary."""
    slots: dict[str, Any] = {}
    for cls in reversed(bases_of(type(error))):
        if cls not in _NATIVE:
            slots |= {n: s for n, s in _namespace(cls).items() if type(s) is MemberDescriptorType}
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(error, value)
        elif name != "__notes__":
            attributes_of(error)[name] = value


def _stand_in(
    kind: str,
    message: str,
    bases: Sequence[Any],
    args: Any,
    attributes: Mapping[str, Any],
    to_handle: bool,
) -> Exception:
    """An error that handlers take for the one that was stored, with its message."""
    known = [cls for base in bases if (cls := _class_of(base)) is not None and cls not in _COMMON]
    if to_handle:
        known = [cls for cls in (*known, Exception) if _may_be_derived_from(cls)]
    else:
        known = [cls for cls in known if _is_ours(cls)]
        known += [Exception] if _may_be_a_name(kind) else []
    for cls in known:
        module, _, name = kind.partition(":")
        body = {"__module__": module, "__qualname__": name, "__str__": lambda self: message, _MARK: True}
        try:
            made: type[Exception] = type(name.rpartition(".")[2], (cls,), body)
            below = _native(made)
            try:
                error = below.__new__(made, *args)
                below.__init__(error, *args)
            except Exception:  # it was made of something else, or of what could not be stored
                error = below.__new__(made, message)
                set_native(error, "args", tuple(args or (message,)))
            _put(error, attributes)
        except Exception:  # nobody may derive from it, or it needs more than was stored
            continue
        if issubclass(type(error), Exception):
            return error  # type: ignore[no-any-return]
    return RecordedError(kind, message)


def _may_be_a_name(kind: str) -> bool:
    """Whether this can be the name of an exception class of a program. One of Python's own would have been found."""
    module, _, name = kind.partition(":")
    return module != "builtins" and name.rpartition(".")[2].isidentifier()


def _may_be_derived_from(cls: type) -> bool:
    """Whether deriving from a class runs no code of it or of its metaclass."""
    if type(cls) is not type:
        return False
    return not any("__init_subclass__" in _namespace(each) for each in bases_of(cls) if each is not object)
