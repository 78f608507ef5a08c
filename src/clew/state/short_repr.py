"""Short reprs of values, for the repr of a state."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

from clew.state.libraries import brief


class ShortRepr(Repr):
    """Short reprs of values. Python does not convert an int of more than 4,300 digits to decimal text."""

    def repr1(self, x: Any, level: int) -> str:
        """Return a value on one line, arrays and frames in short form."""
        text = brief(x) or super().repr1(x, level)
        return " ".join(text.split()) if "\n" in text else text

    def repr_int(self, x: int, level: int) -> str:
        """Return an int, a long one in hexadecimal."""
        try:
            return super().repr_int(x, level)
        except ValueError:
            return f"{hex(x)[:20]}… ({x.bit_length()} bits)"
