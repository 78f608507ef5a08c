"""Expressions: names of nodes, as written by people and as keys.

::

    expression := name | name "(" [ argument { "," argument } ] ")"
    argument   := word | digits | quoted text        (spaces between the parts are ignored)

In a schema an expression is a *pattern*: a bare word is a variable. In a request it is a *node*: a bare word is a
string. In both, digits are a natural number and quotes (either kind, with escapes) denote a string; so ``f(5)`` and
``f("5")`` are different nodes. ``f()`` and ``f`` are the same node.

The *key* of a node is its canonical spelling: no spaces, and double quotes around strings that are not plain words.
Parsing a key returns the same node, for every Python string.

This module does not know which nodes exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clew.errors import InvalidExpressionError

Constant = str | int


class Variable(msgspec.Struct, frozen=True):
    """A placeholder in a pattern that matches any constant."""

    name: str


class Expression(msgspec.Struct, frozen=True):
    """A name and its arguments; without variables it names one node."""

    name: str
    arguments: tuple[Variable | str | int, ...] = ()

    def __str__(self) -> str:
        return spelled(self.name, self.arguments)

    def variables(self) -> Iterator[str]:
        """Yield the names of its variables, with repetitions."""
        return (part.name for part in self.arguments if type(part) is Variable)


_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"[0-9]+")
_PLAIN = re.compile(r"(?![0-9]+\Z)\w+\Z")  # a string that can be written as a bare word
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


def read_pattern(text: Any) -> Expression:
    """Parse an expression in which a bare word is a variable."""
    return _atom(text) or _Reader(text).expression(Variable)


def read_node(text: Any) -> Expression:
    """Parse an expression in which a bare word is a string."""
    return _atom(text) or _Reader(text).expression(str)


def _atom(text: Any) -> Expression | None:
    """Return the expression of a plain word, the most frequent case."""
    return Expression(text) if type(text) is str and _WORD.fullmatch(text) else None


def node_of(name: Any, arguments: tuple[Any, ...]) -> Expression:
    """Return the node with this name and these arguments."""
    reader = _Reader(name)
    reader.skip()
    word = reader.word()
    if reader.skip() < len(name):
        raise reader.fault("expected only the name, because the arguments were given separately")
    for argument in arguments:
        if not (type(argument) is str or (type(argument) is int and argument >= 0)):
            raise InvalidExpressionError(
                f"invalid argument {argument!r} of {word!r}; arguments are strings or natural numbers"
            )
    return Expression(word, arguments)


class _Reader:
    """A parser that reads a text from left to right."""

    def __init__(self, text: Any) -> None:
        if type(text) is not str:
            raise InvalidExpressionError(f"expected a node name such as 'photo(p5)', got {text!r}")
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
            raise self.fault(f"expected a name of letters, digits and _; {self.found()}")
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
                raise self.fault(f"expected ',' or ')'; {self.found()}")
        if self.skip() < len(self.text):
            raise self.fault(f"expected the end of the text; {self.found()}")
        return Expression(name, tuple(arguments))

    def argument(self, bare: type) -> Any:
        begin = self.skip()
        if self.text.startswith(('"', "'"), begin):
            return self.quoted()
        match = _WORD.match(self.text, begin)
        if match is None:
            raise self.fault(f"expected a word, a natural number or a quoted string; {self.found()}")
        self.at = match.end()
        if _DIGITS.fullmatch(match[0]):
            try:
                return int(match[0])
            except ValueError:
                raise self.fault("the number is too long; quote it to use it as a string", begin) from None
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
        raise self.fault("the quote is not closed", begin)

    def escape(self) -> str:
        """Return the character of an escape sequence; stop at its last character."""
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
                pass  # beyond the last code point
        elif sign in _ESCAPES:
            return _ESCAPES[sign]
        raise self.fault(r"unknown escape; valid ones are \n \r \t \\ \" \' \xXX \uXXXX \UXXXXXXXX", begin)


# -- writing ----------------------------------------------------------------------------------------------


def spelled(name: str, arguments: tuple[Any, ...]) -> str:
    """Return the canonical spelling."""
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
        raise InvalidExpressionError(f"an argument has too many digits: {error}") from error


def quoted(text: str) -> str:
    """Return a string in double quotes, with escapes for non-printable characters."""
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
    """Return a pattern as written in a schema, where strings are always quoted."""
    if not pattern.arguments:
        return pattern.name
    parts = (quoted(part) if type(part) is str else _argument(part) for part in pattern.arguments)
    return f"{pattern.name}({','.join(parts)})"


# -- matching ---------------------------------------------------------------------------------------------


def match(pattern: tuple[Any, ...], arguments: tuple[Any, ...]) -> dict[str, Constant] | None:
    """Return the bindings of a pattern for a node of the same name and arity; None if it does not match."""
    bindings: dict[str, Constant] = {}
    for wanted, given in zip(pattern, arguments):
        if type(wanted) is Variable:
            wanted = bindings.setdefault(wanted.name, given)
        if wanted != given:
            return None
    return bindings


def substitute(pattern: Expression, bindings: Mapping[str, Constant]) -> tuple[Constant, ...]:
    """Return the arguments of an instance of a pattern."""
    if not pattern.arguments:
        return ()
    return tuple(bindings[part.name] if type(part) is Variable else part for part in pattern.arguments)  # type: ignore[misc]


def unifies(one: Expression, other: Expression) -> bool:
    """Return whether some node matches both patterns; their variables are independent."""
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
