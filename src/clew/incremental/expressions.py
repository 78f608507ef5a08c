"""Expressions: the names of nodes, as people write them and as keys.

::

    expression := name | name "(" [ argument { "," argument } ] ")"
    argument   := word | digits | quoted text        (spaces between the parts mean nothing)

A schema is read as a *pattern*: a bare word is a variable. A request is read as a *node*: a bare word is a text. In
both, digits are a natural number and quotes (either kind, with escapes) make a text; so ``f(5)`` and ``f("5")`` are
two nodes. ``f()`` and ``f`` are the same one.

The *key* of a node is its one canonical spelling: no spaces, and texts that are not plain words in double quotes.
Reading a key gives the same node again, for every text that Python can hold.

What an expression stands for, and whether any schema knows it, is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clew.errors import InvalidExpressionError

Constant = str | int


class Variable(msgspec.Struct, frozen=True):
    """A place in a pattern that any constant fits."""

    name: str


class Expression(msgspec.Struct, frozen=True):
    """A name and its arguments; without variables it names one node."""

    name: str
    arguments: tuple[Variable | str | int, ...] = ()

    def __str__(self) -> str:
        return spelled(self.name, self.arguments)

    def variables(self) -> Iterator[str]:
        """The names of its variables, as often as they stand there."""
        return (part.name for part in self.arguments if type(part) is Variable)


_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"[0-9]+")
_PLAIN = re.compile(r"(?![0-9]+\Z)\w+\Z")  # a text that a bare word stands for
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


def read_pattern(text: Any) -> Expression:
    """An expression in which a bare word is a variable."""
    return _atom(text) or _Reader(text).expression(Variable)


def read_node(text: Any) -> Expression:
    """An expression in which a bare word is a text."""
    return _atom(text) or _Reader(text).expression(str)


def _atom(text: Any) -> Expression | None:
    """The most frequent expression, found at once."""
    return Expression(text) if type(text) is str and _WORD.fullmatch(text) else None


def node_of(name: Any, arguments: tuple[Any, ...]) -> Expression:
    """The node of a name and plain arguments."""
    reader = _Reader(name)
    reader.skip()
    word = reader.word()
    if reader.skip() < len(name):
        raise reader.fault("the name alone is wanted here, because arguments were given apart")
    for argument in arguments:
        if not (type(argument) is str or (type(argument) is int and argument >= 0)):
            raise InvalidExpressionError(
                f"an argument of {word!r} is {argument!r}; arguments are texts or natural numbers"
            )
    return Expression(word, arguments)


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: Any) -> None:
        if type(text) is not str:
            raise InvalidExpressionError(f"a node's name is a text like 'photo(p5)', not {text!r}")
        self.text = text
        self.at = 0

    def fault(self, what: str, at: int | None = None) -> InvalidExpressionError:
        at = self.at if at is None else at
        text = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        return InvalidExpressionError(f"{text!r}, position {at}: {what}")

    def skip(self) -> int:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.at

    def found(self) -> str:
        return f"found {self.text[self.at]!r}" if self.at < len(self.text) else "the text ends"

    def take(self, sign: str) -> bool:
        self.skip()
        if self.text.startswith(sign, self.at):
            self.at += 1
            return True
        return False

    def word(self) -> str:
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise self.fault(f"a name of letters, digits and _ is wanted; {self.found()}")
        self.at = match.end()
        return match[0]

    def expression(self, bare: type) -> Expression:
        self.skip()
        name = self.word()
        arguments: list[Any] = []
        if self.take("(") and not self.take(")"):
            arguments.append(self.argument(bare))
            while self.take(","):
                arguments.append(self.argument(bare))
            if not self.take(")"):
                raise self.fault(f"',' or ')' is wanted; {self.found()}")
        if self.skip() < len(self.text):
            raise self.fault(f"nothing may follow; {self.found()}")
        return Expression(name, tuple(arguments))

    def argument(self, bare: type) -> Any:
        begin = self.skip()
        if self.text.startswith(('"', "'"), begin):
            return self.quoted()
        match = _WORD.match(self.text, begin)
        if match is None:
            raise self.fault(f"a word, a natural number or a quoted text is wanted; {self.found()}")
        self.at = match.end()
        if _DIGITS.fullmatch(match[0]):
            try:
                return int(match[0])
            except ValueError:
                raise self.fault("this number is too long; quote it to make it a text", begin) from None
        return bare(match[0])

    def quoted(self) -> str:
        begin, quote = self.at, self.text[self.at]
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == quote:
                self.at += 1
                return "".join(parts)
            parts.append(self.escape() if sign == "\\" else sign)
            self.at += 1
        raise self.fault("this quote is never closed", begin)

    def escape(self) -> str:
        """What a backslash and what follows stand for; ends on its last character."""
        begin = self.at
        self.at += 1
        sign = self.text[self.at : self.at + 1]
        if sign in _HEX:
            digits = self.text[self.at + 1 : self.at + 1 + _HEX[sign]]
            try:
                if re.fullmatch(r"[0-9a-fA-F]+", digits) and len(digits) == _HEX[sign]:
                    self.at += len(digits)
                    return chr(int(digits, 16))
            except (ValueError, OverflowError):
                pass  # beyond the last character there is
        elif sign in _ESCAPES:
            return _ESCAPES[sign]
        raise self.fault(r"this is no escape; there are \n \r \t \\ \" \' \xXX \uXXXX \UXXXXXXXX", begin)


# -- writing ----------------------------------------------------------------------------------------------


def spelled(name: str, arguments: tuple[Any, ...]) -> str:
    """The canonical spelling."""
    if not arguments:
        return name
    return f"{name}({','.join(map(_argument, arguments))})"


def _argument(argument: Variable | str | int) -> str:
    if type(argument) is str:
        return argument if _PLAIN.match(argument) else quoted(argument)
    if type(argument) is Variable:
        return argument.name
    try:
        return str(argument)
    except ValueError as error:  # more digits than Python converts
        raise InvalidExpressionError(f"a natural number among the arguments is too long: {error}") from error


def quoted(text: str) -> str:
    """A text in double quotes, with escapes for whatever cannot be printed."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(sign: str) -> str:
    if sign in _ESCAPED:
        return _ESCAPED[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def pattern_text(pattern: Expression) -> str:
    """A pattern as it may be written in a schema: there texts are always in quotes."""
    if not pattern.arguments:
        return pattern.name
    parts = (quoted(part) if type(part) is str else _argument(part) for part in pattern.arguments)
    return f"{pattern.name}({','.join(parts)})"


# -- matching ---------------------------------------------------------------------------------------------


def match(pattern: tuple[Any, ...], arguments: tuple[Any, ...]) -> dict[str, Constant] | None:
    """What the variables of a pattern stand for in a node of the same name and arity; None if it does not fit."""
    bindings: dict[str, Constant] = {}
    for wanted, given in zip(pattern, arguments):
        if type(wanted) is Variable:
            wanted = bindings.setdefault(wanted.name, given)
        if wanted != given:
            return None
    return bindings


def substitute(pattern: Expression, bindings: Mapping[str, Constant]) -> tuple[Constant, ...]:
    """The arguments of a pattern's instance."""
    if not pattern.arguments:
        return ()
    return tuple(bindings[part.name] if type(part) is Variable else part for part in pattern.arguments)  # type: ignore[misc]


def unifies(one: Expression, other: Expression) -> bool:
    """Whether some node fits both patterns; their variables have nothing to do with each other."""
    if one.name != other.name or len(one.arguments) != len(other.arguments):
        return False
    leader: dict[Any, Any] = {}

    def find(term: Any) -> Any:
        while term in leader:
            term = leader[term]
        return term

    for left, right in zip(one.arguments, other.arguments):
        a = find((1, left.name) if type(left) is Variable else ("=", left))
        b = find((2, right.name) if type(right) is Variable else ("=", right))
        if a == b:
            continue
        if a[0] == "=" == b[0]:
            return False
        if a[0] == "=":
            a, b = b, a
        leader[a] = b
    return True
