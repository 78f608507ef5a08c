"""Stored errors: failures as plain data with type, message, notes and place, and back as far as is safe.

Every exception can be stored. If code of its class raises, that part is omitted; type and message are always stored.
The place of a failure (step, node, path, attempt) is stored next to the error, never in its notes.

Decoding runs no code of a class and imports nothing. There are two ways to decode an error:

- **For inspection.** Errors of Python and of this library come back unchanged. For other errors a stand-in class is
  made, with the same name and message, derived from the nearest base that belongs to Python or this library (otherwise
  ``Exception``). `RecordedError` is for the rest: exceptions that stop a process (``KeyboardInterrupt``), and names
  that no class can have.
- **For handling** (`to_handle`), for a node whose recorded call raised. The error has its original class if this
  process has imported it, so that the same ``except`` clauses catch it. It is built with the nearest builtin base,
  without ``__new__`` and ``__init__`` of the class, and attributes are set directly. If a part could not be stored, it
  is a stand-in derived from its class, and reading that part is an error that says so. A class inside a function has
  no name to look up, so a stand-in derives from the nearest base that has one.

Pydantic's ``ValidationError`` has its own form: the title and one row for each problem. Its class cannot be derived
from, and its content is not in attributes, so only pydantic's own constructor builds one. Pydantic is never imported
here: without it there is no such error to write, and none that a handler could catch.

Names in stored data are only looked up among imported classes, and have to be exception classes.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any

from clew.engine.records import Failure
from clew.error_links import LINK, is_link_note
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
from clew.module_names import loaded_module
from clew.state import encode

_DEEP = 16  # depth of causes, groups and errors in errors that are stored with their content
_FRAMES = 100  # innermost calls of a traceback that are stored; each child of a child passes a longer one on


class RecordedError(ClewError):
    """A stored error whose class is not rebuilt; ``kind`` is the name of the class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


# -- writing -----------------------------------------------------------------------------------------------------


def plain_failure(failure: Failure) -> dict[str, Any]:
    """Return a failure as plain data: its error, with its place under ``at``."""
    at: dict[str, Any] = {"step": failure.step, "node": failure.node, "path": failure.path}
    at["attempts"] = failure.attempts
    if failure.around:
        at["around"] = list(failure.around)
    if failure.refused:
        at["refused"] = failure.refused
    if failure.rescued:
        at["rescued"] = True
    if failure.started:
        at["started"], at["duration"] = failure.started, failure.duration
    return {**plain_error(failure.error), "at": at}


def plain_error(error: BaseException) -> dict[str, Any]:
    return _plain(error, ())


def name_of(error: BaseException) -> tuple[str, str]:
    """Return the stored class name and the message of an error; two errors with the same pair are equal."""
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
        # not through the class: it may redefine these names
        said, members = _GROUP_MESSAGE.__get__(error), _GROUP_MEMBERS.__get__(error)
        plain["group"] = [encodable(said), [_plain(each, inside) for each in members]]
    if not issubclass(type(error), RecordedError):
        _add_content(plain, error, inside)
    problems = _plain_problems(error, inside)
    if problems is not None:
        plain["problems"] = problems
    notes = [note for note in notes_of(error) if not is_link_note(note)]
    if notes:
        plain["notes"] = notes
    cause = native(error, "__cause__")
    if cause is not None and all(cause is not each for each in inside):
        plain["cause"] = _plain(cause, inside)
    traceback = native(error, "__traceback__")
    if traceback is not None:
        from traceback import format_tb

        plain["traceback"] = encodable(safely(lambda: "".join(format_tb(traceback, limit=-_FRAMES)), ""))
    return plain


def _add_content(plain: dict[str, Any], error: BaseException, inside: tuple[BaseException, ...]) -> None:
    """Add the arguments and attributes of an error, the errors among them, and its base classes."""
    cls = type(error)
    args, attributes, within, lost = _made_of(error)
    # an argument may be an array, which cannot be compared
    is_message = args is not None and len(args) == 1 and type(args[0]) is str and args[0] == plain["message"]
    if not is_message:
        plain["args"] = args
    if attributes:
        plain["attributes"] = attributes
    if within:
        plain["within"] = {name: _plain(each, inside) for name, each in within.items()}
    if lost:
        plain["lost"] = lost
    bases = [kind_of(each) for each in bases_of(cls)[1:-1] if each not in _COMMON]
    if bases:
        plain["bases"] = bases


def _made_of(
    error: BaseException,
) -> tuple[list[Any] | None, dict[str, Any], dict[str, BaseException], list[str]]:
    """Return the arguments of an error (None if they cannot be stored), its attributes, the errors among both by
    place or name, and the names of what cannot be stored."""
    made = safely(lambda: _native(type(error)).__reduce__(error), None)
    args = list(made[1]) if isinstance(made, tuple) else list(native(error, "args"))
    state = {**attributes_of(error), **dict(_slots(error))}
    attributes: dict[str, Any] = {}
    within: dict[str, BaseException] = {}
    lost: list[str] = list(_namespace(type(error)).get(_MARK, ()))
    for name, value in state.items():
        if name in ("__notes__", LINK) or not isinstance(name, str):
            continue
        if _is_error(value):
            within[name] = value
        elif _is_storable(value) and _is_storable(name):
            attributes[name] = value
        elif name not in lost:
            lost.append(encodable(name))
    if issubclass(type(error), BaseExceptionGroup):
        return [], attributes, within, lost  # its arguments are stored as its members
    for place, value in enumerate(args):
        if _is_error(value):
            within[str(place)], args[place] = value, None
    if not _is_storable(args):
        return None, attributes, within, [*lost, "args"]
    return args, attributes, within, lost


def _slots(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the attributes in slots."""
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


# -- pydantic's validation errors --------------------------------------------------------------------------------

_VALIDATION_ERROR = "pydantic_core._pydantic_core:ValidationError"


def _validation_error() -> Any:
    """Return the class, if this process has loaded pydantic."""
    core = sys.modules.get("pydantic_core")
    return None if core is None else getattr(core, "ValidationError", None)


def _plain_problems(error: BaseException, inside: tuple[BaseException, ...]) -> dict[str, Any] | None:
    """Return the content of a `ValidationError` as plain data; None for any other error.

    An input that cannot be stored is replaced by its text.
    """
    if type(error) is not _validation_error():
        return None

    def row(problem: Mapping[str, Any]) -> dict[str, Any]:
        kind, context = problem["type"], dict(problem.get("ctx") or {})
        names = [str(kind.type), str(kind.message_template)] if not isinstance(kind, str) else [str(kind)]
        made: dict[str, Any] = {"type": names, "loc": list(problem["loc"])}
        value = problem["input"]
        made["input"] = value if _is_storable(value) else encodable(repr(value))
        made["raised"] = {k: _plain(v, inside) for k, v in context.items() if isinstance(v, Exception)}
        rest = {k: v for k, v in context.items() if k not in made["raised"]}
        made["ctx"] = {k: v if _is_storable(v) else encodable(str(v)) for k, v in rest.items()}
        return made

    def content() -> dict[str, Any]:
        made: Any = error.__reduce__()
        title, problems, mode, is_hidden = made[1]
        return {"title": title, "rows": list(map(row, problems)), "mode": mode, "hidden": is_hidden}

    found: dict[str, Any] | None = safely(content, None)
    return found


def _error_of_problems(stored: Mapping[str, Any]) -> Exception | None:
    """Build a `ValidationError` from its content; None if that is not possible."""
    cls = _validation_error()
    if cls is None:
        return None
    custom = sys.modules["pydantic_core"].PydanticCustomError

    def problem(row: Mapping[str, Any]) -> dict[str, Any]:
        names, loc = row["type"], tuple(row["loc"])
        raised = {name: error_of(each, to_handle=True) for name, each in row["raised"].items()}
        context = {**row["ctx"], **raised}
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


_NOTHING = object()
_MARK = (
    "_clew_stand_in"  # marks a class that was made for a stored error: the names of what could not be stored
)
_COMMON = (Exception, BaseException)
_NATIVE = {cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)}
_GROUP_MESSAGE: Any = vars(BaseExceptionGroup)["message"]
_GROUP_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]


def _native(cls: type) -> Any:
    """Return the nearest builtin base of an exception class."""
    return next(each for each in bases_of(cls) if each in _NATIVE)


# -- reading -----------------------------------------------------------------------------------------------------


def failure_of(plain: Mapping[str, Any]) -> Failure:
    """Decode the result of `plain_failure`."""
    at = plain["at"]
    step, attempts, around = at["step"], at["attempts"], at.get("around", [])
    texts = (at["node"], at["path"], at.get("refused", ""), *around)
    if not all(type(number) is int for number in (step, attempts)):
        raise TypeError("the step and the attempts of a failure have to be integers")
    if type(around) is not list or not all(type(text) is str for text in texts):
        raise TypeError("the node and the path of a failure have to be strings")
    return Failure(
        error_of(plain),
        step,
        at["node"],
        at["path"],
        attempts,
        tuple(around),
        at.get("refused", ""),
        at.get("rescued") is True,
        *(number if isinstance(number := at.get(name), float) else 0.0 for name in ("started", "duration")),
    )


def error_of(plain: Mapping[str, Any], *, to_handle: bool = False) -> Exception:
    """Decode the result of `plain_error`; with `to_handle`, for code that handled the original error."""
    kind, message = plain["type"], plain["message"]
    if type(kind) is not str or type(message) is not str:
        raise TypeError("the type and the message of an error have to be strings")
    args, attributes = _contents(plain, to_handle)
    lost = [name for name in plain.get("lost", ()) if type(name) is str]
    error, cls = None, _class_of(kind)
    if to_handle and kind == _VALIDATION_ERROR and "problems" in plain:
        error = _error_of_problems(plain["problems"])
    elif cls is not None and args is not None and not lost and (to_handle or _is_ours(cls)):
        error = _built(cls, args, attributes)
    if error is None:
        error = _stand_in(kind, message, [kind, *plain.get("bases", ())], args, attributes, lost, to_handle)
    if notes := [note for note in plain.get("notes", ()) if type(note) is str]:
        attributes_of(error)["__notes__"] = notes
    if "cause" in plain:
        set_native(error, "__cause__", error_of(plain["cause"], to_handle=to_handle))
    return error


def _contents(plain: Mapping[str, Any], to_handle: bool) -> tuple[Any, dict[str, Any]]:
    """Return the arguments and the attributes of an error, with the errors in them."""
    args = plain.get("args", [plain["message"]])
    within = {name: error_of(each, to_handle=to_handle) for name, each in plain.get("within", {}).items()}
    if args is not None and within:
        args = [within.get(str(place), arg) for place, arg in enumerate(args)]
    if "group" in plain:
        said, members = plain["group"]
        args = [said, [error_of(each, to_handle=to_handle) for each in members]]
    named = {name: error for name, error in within.items() if not name.isdecimal()}
    return args, {**plain.get("attributes", {}), **named}


def _class_of(kind: Any) -> type[Exception] | None:
    """Return an exception class that this process has imported, or None. Look up names only; call nothing."""
    if type(kind) is not str:
        return None
    module, _, name = kind.partition(":")
    found: Any = loaded_module(module)
    for part in name.split("."):
        names = _namespace(found)
        found = names.get(part) if part in names else None
    return found if _is_class(found) and Exception in bases_of(found) else None


def _namespace(holder: Any) -> Mapping[str, Any]:
    """Return the namespace of a module or class, without inherited names; {} for any other object."""
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
    """Return whether a class belongs to Python or this library."""
    return cls in _NATIVE or kind_of(cls).startswith("clew.")


def _built(cls: type[Exception], args: Any, attributes: Mapping[str, Any]) -> Exception | None:
    """Build an error without running code of its class; return None if data is missing."""
    below = _native(cls)
    try:
        error: Exception = below.__new__(cls, *args)
        below.__init__(error, *args)
        _put(error, attributes)
    except Exception:
        return None
    return error


def _put(error: Exception, attributes: Mapping[str, Any]) -> None:
    """Set attributes directly in slots or in the instance dictionary, without code of the class."""
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
    lost: Sequence[str],
    to_handle: bool,
) -> Exception:
    """Build an error that the handlers of the original error catch, with the same message."""
    known = [cls for base in bases if (cls := _class_of(base)) is not None and cls not in _COMMON]
    if to_handle:
        known = [cls for cls in (*known, Exception) if _may_be_derived_from(cls)]
    else:
        known = [cls for cls in known if _is_ours(cls)]
        known += [Exception] if _may_be_a_name(kind) else []
    for cls in known:
        try:
            error = _derived(cls, kind, message, args, lost)
            _put(error, attributes)
        except Exception:  # the class cannot be subclassed, or data is missing
            continue
        if issubclass(type(error), Exception):
            return error
    return RecordedError(kind, message)


def _derived(cls: type[Exception], kind: str, message: str, args: Any, lost: Sequence[str]) -> Exception:
    """Return an instance of a new class with the name of the original one, derived from a class of this process."""
    module, _, name = kind.partition(":")
    body = {"__module__": module, "__qualname__": name, "__str__": lambda self: message, _MARK: tuple(lost)}
    if lost:
        body["__getattr__"] = _missing(name, lost)
    made: type[Exception] = type(name.rpartition(".")[2], (cls,), body)
    below = _native(made)
    try:
        error: Exception = below.__new__(made, *args)
        below.__init__(error, *args)
    except Exception:  # its arguments differ, or could not be stored
        error = below.__new__(made, message)
        set_native(error, "args", tuple(args or (message,)))
    return error


def _missing(name: str, lost: Sequence[str]) -> Callable[[Any, str], Any]:
    """Return the ``__getattr__`` of a stand-in, which says what is missing."""

    def missing(self: Any, wanted: str) -> Any:
        raise AttributeError(
            f"{name!r} object has no attribute {wanted!r}; it was read from a store, and these parts of the original"
            f" could not be stored: {', '.join(lost)}; catch the error inside the recorded call, and raise or return"
            " what the node reads",
            name=wanted,
            obj=self,
        )

    return missing


def _may_be_a_name(kind: str) -> bool:
    """Return whether this can be the name of a user's exception class. Builtin ones would have been found."""
    module, _, name = kind.partition(":")
    return module != "builtins" and name.rpartition(".")[2].isidentifier()


def _may_be_derived_from(cls: type) -> bool:
    """Return whether subclassing runs no code of the class or its metaclass."""
    if type(cls) is not type:
        return False
    return not any("__init_subclass__" in _namespace(each) for each in bases_of(cls) if each is not object)
