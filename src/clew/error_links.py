"""The link from an exception to the run that raised it: one note for people, and the result for code.

The link is in the instance dictionary, which every exception of any class has: frozen, with slots, or with a
``__getattr__`` that raises. A weak table would not work, because builtin exceptions cannot be referenced weakly.

An exception has at most one link, to the run that raised it last. The link is not part of the exception: it is neither
stored nor pickled with it.
"""

from __future__ import annotations

from typing import Any

from clew.error_text import attributes_of

LINK = "__clew_result__"
"""The name of the attribute that holds the link."""

_MARK = "clew: run "  # every note begins with it


class _Link:
    """Holds a result. It is pickled without it, so that linked exceptions can be pickled."""

    __slots__ = ("result",)

    def __init__(self, result: Any = None) -> None:
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return _Link, ()


def link(error: BaseException, text: str, result: Any) -> None:
    """Link an error to a result; `text`, which begins with the run, becomes its only note about a run."""
    attributes = attributes_of(error)
    notes = attributes.get("__notes__")
    others = [note for note in notes if not is_link_note(note)] if type(notes) is list else []
    attributes["__notes__"] = [*others, f"clew: {text}"]
    attributes[LINK] = _Link(result)


def linked_result(error: BaseException) -> Any:
    """Return the result behind an error, or None."""
    found = attributes_of(error).get(LINK)
    return found.result if type(found) is _Link else None


def is_link_note(note: Any) -> bool:
    """Return whether a note was added by `link`."""
    return isinstance(note, str) and note.startswith(_MARK)


_CHILD = "__clew_child__"
"""The name of the attribute that holds where in a child an error was raised. Unlike the link, it is stored."""


def set_child_place(error: BaseException, run_id: str, path: str, node: str) -> None:
    """Say where in a child an error was raised: the run id of the child, the path in the outer run, and the node."""
    attributes_of(error)[_CHILD] = (run_id, path, node)


def child_place(error: BaseException, item: str) -> tuple[str, str, str] | None:
    """Return where in a child of an item an error was raised, or None; of a group, the first such place."""
    found: Any = attributes_of(error).get(_CHILD)
    is_place = type(found) is tuple and len(found) == 3 and all(type(each) is str for each in found)
    if is_place and found[1].startswith(f"{item}!"):
        place: tuple[str, str, str] = found
        return place
    if not issubclass(type(error), BaseExceptionGroup):
        return None
    # not through the class: it may redefine the name
    members = vars(BaseExceptionGroup)["exceptions"].__get__(error)
    return next(filter(None, (child_place(each, item) for each in members)), None)
