"""How values and results are shown: short text for a terminal, escaped HTML for a notebook.

Rules:

- `brief` returns one line of bounded length for any value. It shows neither raw bytes nor the content of arrays and
  tables, it does not raise, and it calls `repr` only for objects that are not containers.
- Every text becomes HTML through `escape`, so a hostile value cannot inject markup or scripts. Only a pandas table is
  shown by its own HTML, which pandas escapes.
- The style sheet has class names that begin with ``clew-``, and a dark theme.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping, Set
from html import escape
from itertools import islice
from reprlib import Repr
from typing import Any

from clew.error_text import encodable, line_of
from clew.state.values.libraries import brief as library_form

_LONG_INT = 2_000  # bits
_SHOWN_NAMES = 12
_MOST_ROWS = 100  # of a table in HTML
_BRACKETS = ((list, "[", "]"), (tuple, "(", ")"), (Set, "{", "}"))


class _Brief(Repr):
    """`reprlib` with the rules of this module."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple, self.maxset = 4, 6, 6, 6, 6
        self.maxstring = self.maxother = limit

    def repr1(self, x: Any, level: int) -> str:
        form = self._closed(x)
        if form is not None:
            return form
        if level <= 0:
            return "..."
        if isinstance(x, str):
            return self.repr_str(x, level)
        if type(x) is int and x.bit_length() > _LONG_INT:  # Python refuses to convert it to decimal text
            return f"{hex(x)[:20]}… ({x.bit_length()} bits)"
        if x is None or isinstance(x, (int, float, complex)):
            return super().repr1(x, level)
        return self._opened(x, level)

    def _closed(self, x: Any) -> str | None:
        """Return the short form of a value whose content is not shown at any level; None for other values."""
        if isinstance(x, (bytes, bytearray, memoryview)):
            return f"<{x.nbytes if isinstance(x, memoryview) else len(x):,} bytes>"
        form = library_form(x)
        if form is not None:
            return self._cut(" ".join(form.split()))
        return self._cut(line_of(x)) if isinstance(x, BaseException) else None

    def _opened(self, x: Any, level: int) -> str:
        """Return a container with its first parts, and any other object by its `repr`."""
        kind = type(x)
        fields = _fields(x)
        if fields is not None:
            return self._joined(f"{kind.__name__}(", fields, ")", "=", level)
        name = "" if kind in (dict, list, tuple, set) else kind.__name__
        if isinstance(x, Mapping):
            pairs = ((self.repr1(key, level - 1), value) for key, value in x.items())
            return self._joined(f"{name}{{", pairs, "}", ": ", level)
        for kinds, left, right in _BRACKETS:
            if isinstance(x, kinds):
                shown = [self.repr1(each, level - 1) for each in islice(x, self.maxlist)]
                shown += [f"... {len(x):,} in all"] if len(x) > self.maxlist else []
                return f"{name}{left}{', '.join(shown)}{',' if kind is tuple and len(x) == 1 else ''}{right}"
        try:
            return self._cut(repr(x))
        except Exception:  # the user's code
            return f"<{kind.__name__}>"

    def _joined(self, left: str, pairs: Iterable[tuple[str, Any]], right: str, sign: str, level: int) -> str:
        listed = list(islice(pairs, self.maxdict + 1))
        shown = [f"{name}{sign}{self.repr1(value, level - 1)}" for name, value in listed[: self.maxdict]]
        return f"{left}{', '.join([*shown, *(['...'] if len(listed) > self.maxdict else [])])}{right}"

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.maxother else f"{text[: self.maxother - 3]}..."


def brief(value: Any, limit: int = 120) -> str:
    """Return a value as one line of at most `limit` characters."""
    try:
        text = " ".join(encodable(_Brief(limit).repr(value)).split("\n"))
    except Exception:  # the `repr` or an attribute of the value is the user's code
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _fields(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Return the fields of a dataclass, a struct or a model; None for other values."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        names: Iterable[str] = [field.name for field in dataclasses.fields(kind) if field.repr]
    elif hasattr(kind, "__struct_fields__"):
        names = kind.__struct_fields__
    elif isinstance(getattr(kind, "model_fields", None), Mapping):
        names = kind.model_fields
    else:
        return None
    return ((name, getattr(value, name, "...")) for name in names)


def listed(names: Iterable[str]) -> str:
    """Return names, separated by commas; of many, the first ones and their number."""
    found = list(names)
    more = len(found) - _SHOWN_NAMES
    shown = ", ".join(name if len(name) <= 60 else f"{name[:57]}..." for name in found[:_SHOWN_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown


# Control characters of both ranges, DEL, line separators, lone surrogates, and marks that change the direction of text.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def inline(text: str) -> str:
    """Return text for a place inside a line: every control character is an escape."""
    return text if text.isprintable() else UNSAFE.sub(_escape, text)


# -- HTML

_STYLE = """<style>
.clew-show{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45}
.clew-show table{border-collapse:collapse;margin:6px 0}
.clew-show th,.clew-show td{border:1px solid #8a94a355;padding:2px 8px;text-align:left;vertical-align:top}
.clew-show code,.clew-show pre{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap}
.clew-show pre{margin:4px 0;padding:6px 8px;background:#8a94a31a;overflow:auto}
.clew-show p{margin:4px 0}
.clew-good{color:#2b7a44}.clew-bad{color:#b3261e}.clew-warn{color:#8f5b06}
@media (prefers-color-scheme:dark){.clew-good{color:#5fc283}.clew-bad{color:#ff8a80}.clew-warn{color:#e8bb66}}
</style>"""

VERDICTS = {"completed": "good", "failed": "bad", "cancelled": "bad"}


def page(*parts: str) -> str:
    """Return HTML parts as one output of a notebook."""
    return f'{_STYLE}<div class="clew-show">{"".join(parts)}</div>'


def line(text: str, verdict: str = "") -> str:
    """Return a paragraph; `verdict` is good, bad, warn or empty."""
    kind = f' class="clew-{verdict}"' if verdict else ""
    return f"<p{kind}>{escape(encodable(text))}</p>"


def block(text: str) -> str:
    """Return preformatted text."""
    return f"<pre>{escape(encodable(text))}</pre>"


def table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table. Cells are HTML (see `cell` and `value_cell`); headers are text."""
    found = list(islice(rows, _MOST_ROWS + 1))
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    cells = ("".join(f"<td>{each}</td>" for each in row) for row in found[:_MOST_ROWS])
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    more = line("There are more rows.") if len(found) > _MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def cell(text: object) -> str:
    """Return text as a cell of a table."""
    return escape(encodable(str(text)))


def value_cell(value: Any) -> str:
    """Return a value as a cell of a table."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        with pandas.option_context("display.html.use_mathjax", False, "display.max_rows", 10):
            return str(value.to_html(max_rows=10, max_cols=12, escape=True, border=0))
    return f"<code>{escape(brief(value, 300))}</code>"
