"""Violations as scripts that show them on a fresh service: a pytest function, and a shell script with curl.

A script has every request of the path: logins, calls and follow-ups. Ids and tokens that an earlier response gave out
are taken from that response again, so the script works on another database. Credentials that a user gave are taken
from variables (`CLEW_LOGIN_1`), so that no script contains them. A violation that only the database shows
(a rejected request that was written) uses the fixture `rows`, which returns what the database holds; a shell script
uses the command in the variable `ROWS`, which prints it.

A running service may commit after it answers, so a shell script pauses after each accepted write. So does a pytest
function if the service was explored at an address; a test client waits by itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.explore.api.checks import ACCEPTED, names_in
from clew.explore.api.credential_mask import CredentialMask
from clew.explore.api.late_writes import SCRIPT_PAUSE
from clew.explore.api.logins import LoginValue
from clew.explore.api.reports.value_origins import Pieces, References
from clew.explore.api.sending import SentRequest
from clew.explore.api.transports.messages import NOT_JSON
from clew.explore.model.violations import Violation

_READS = ("get", "head", "options")


class Reproduction(msgspec.Struct, frozen=True):
    """The requests that show a violation."""

    name: str
    message: str
    requests: tuple[SentRequest, ...]
    pause: float = 0.0  # seconds after an accepted write, if the service was explored at an address
    given: Mapping[
        str, Sequence[LoginValue]
    ] = {}  # credentials that a user gave: a script has variables instead
    answer: str = ""  # the body of the response that shows the violation, without credentials

    @property
    def check(self) -> str:
        """Return the check that the violation breaks."""
        return self.name.split(":", 1)[0]

    @property
    def function_name(self) -> str:
        """Return a name for a test."""
        return "test_" + re.sub(r"\W+", "_", self.name.split(" (")[0]).strip("_").lower()

    def pytest(self) -> str:
        """Return a pytest function. It needs a fixture `client`, such as `httpx.Client` or a test client."""
        return _pytest(self)

    def curl(self) -> str:
        """Return a shell script that uses curl and jq."""
        return _curl(self)


def reproduction_of(
    violation: Violation,
    log: Sequence[SentRequest],
    pause: float,
    given: Mapping[str, Sequence[LoginValue]],
    mask: CredentialMask,
) -> Reproduction:
    """Return the reproduction of a violation from the requests of its path.

    Follow-ups of earlier steps were undone, so the script leaves them out. Of a repeated one the last counts.
    """
    last = max((n for n, each in enumerate(log) if each.purpose == "call"), default=0)
    kept = [
        each
        for n, each in enumerate(log)
        if each.purpose != "follow-up"
        or (n > last and not (each.request.method == "get" and _is_repeated(log, n)))
    ]
    found = Reproduction(violation.name, mask.text(violation.message), tuple(kept), pause, given)
    body = kept[_shown(found)].response.body.decode("utf-8", "replace")
    return msgspec.structs.replace(found, answer=mask.text(body))


def _is_repeated(log: Sequence[SentRequest], number: int) -> bool:
    return number + 1 < len(log) and log[number + 1].request == log[number].request


# What a script expects of the last call: a Python expression and the statuses that a fixed service answers with.
_EXPECTED = {
    "server error": ("{last}.status_code < 500", "[1-4]??"),
    "write without credentials": ("{last}.status_code in (401, 403)", "40[13]"),
    "read without credentials": ("{last}.status_code in (401, 403)", "40[13]"),
    "resource of another actor": ("{last}.status_code in (401, 403, 404)", "40[134]"),
    "unknown id accepted": ("{last}.status_code >= 400", "[45]??"),
    "created, but not there": ("{last}.status_code < 400", "[23]??"),
}
_READ = ("{last}.status_code in (404, 410)", "404|410")
# The same for what only the database shows: a fixed service answers like this, or the rows are equal (`==`) or not.
_IN_DATABASE = {
    "rejected, yet written": ("{last}.status_code < 400", "[1-3]??", "=="),
    "read that writes": ("", "", "=="),
    "time column touched by a read": ("", "", "=="),
    "PUT twice is not PUT once": ("", "", "=="),
    "deleted, but still there": ("{last}.status_code >= 400", "[45]??", "!="),
}
_AS_ANOTHER = "answers as another actor"


def _by_status(found: Reproduction) -> tuple[str, str] | None:
    return _EXPECTED.get(found.check) if _read_again(found) is None else _READ


def _by_rows(found: Reproduction) -> tuple[str, str, str] | None:
    return _IN_DATABASE.get(found.check) if _read_again(found) is None else None


def _read_again(found: Reproduction) -> int | None:
    """Return the position of a read that shows that something was not deleted; otherwise only the database does."""
    if found.check != "deleted, but still there":
        return None
    called = found.requests[_last_call(found)].request
    for number, each in enumerate(found.requests):
        is_read = each.purpose == "follow-up" and each.request.path == called.path
        if is_read and each.response.status < ACCEPTED:
            return number
    return None


def _last_call(found: Reproduction) -> int:
    return max(n for n, each in enumerate(found.requests) if each.purpose == "call")


def _shown(found: Reproduction) -> int:
    """Return the position of the request that shows the violation."""
    statuses, last = [each.response.status for each in found.requests], len(found.requests) - 1
    if found.check == "server error":
        return max((n for n, status in enumerate(statuses) if status >= 500), default=last)
    read = _read_again(found)
    if read is not None:
        return read
    if found.check in ("PUT twice is not PUT once", _AS_ANOTHER):
        return last
    if found.check == "created, but not there":
        return max((n for n, status in enumerate(statuses) if status == 404), default=last)
    return _last_call(found)


def _pauses_after(found: Reproduction, number: int) -> bool:
    """Return whether a script pauses after a request: it wrote, and something is read later."""
    each = found.requests[number]
    is_write = each.request.method not in _READS and each.response.status < ACCEPTED
    return is_write and (number < _shown(found) or _by_rows(found) is not None)


def _wrong_names(found: Reproduction) -> list[str]:
    """Return the names of another user with which an actor was answered."""
    return sorted(names_in(found.requests[_shown(found)].response))


def _python_text(pieces: Pieces) -> str:
    if not any(origin for _, origin in pieces):
        return repr("".join(text for text, _ in pieces))
    braced = [
        re.sub(r'(["\\])', r"\\\1", text).replace("{", "{{").replace("}", "}}")
        if origin is None
        else "{" + origin.python() + "}"
        for text, origin in pieces
    ]
    return 'f"' + "".join(braced) + '"'


def _python_literal(references: References, value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(
            f"{key!r}: {_python_literal(references, each, key)}" for key, each in value.items()
        )
        return "{" + inside + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_python_literal(references, each, name) for each in value) + "]"
    origin = references.find_named(name, value)
    return repr(value) if origin is None else origin.python()


def _pytest(found: Reproduction) -> str:
    references = References(found.requests, found.given)
    shown, rows = _shown(found), _by_rows(found)
    lines = [
        f"def {found.function_name}(client{', rows' if rows else ''}):",
        f"    # {' '.join(found.message.split())}",
    ]
    if found.pause:
        lines.append("    from time import sleep  # the service may commit after it answers\n")
    for number, each in enumerate(found.requests[: shown + 1]):
        request = each.request
        references.begin(request)
        parts = [repr(request.method.upper()), _python_text(references.in_path(request.path))]
        if request.query:
            parts.append(f"params={_python_literal(references, dict(request.query))}")
        if request.json is not NOT_JSON:
            parts.append(f"json={_python_literal(references, request.json)}")
        elif request.form is not None:
            parts.append(f"data={_python_literal(references, dict(request.form))}")
        headers = references.headers(request)
        if headers:
            inside = ", ".join(f"{name!r}: {_python_text(pieces)}" for name, pieces in headers.items())
            parts.append("headers={" + inside + "}")
        if number == shown and rows:
            lines.append("    before = rows()")
        lines.append(f"    r{number} = client.request({', '.join(parts)})  # answered {each.response.status}")
        if found.pause and _pauses_after(found, number):
            lines.append(f"    sleep({found.pause:g})")
        references.learn(number, each.request, each.response)
    lines[2:2] = _imports(references)
    return "\n".join([*lines, f"    assert {_asserted(found, f'r{shown}')}"]) + "\n"


def _imports(references: References) -> list[str]:
    """Return what a test imports to read the variables that it needs, if any."""
    needed = [f"{name}: {content}" for name, content in sorted(references.variables.items())]
    basic = ["    from base64 import b64encode"] if references.uses_basic else []
    return [f"    import os  # {', '.join(needed)}", *basic, ""] if needed else []


def _asserted(found: Reproduction, last: str) -> str:
    """Return what holds for a fixed service."""
    status, rows = _by_status(found), _by_rows(found)
    if status is not None:
        return status[0].format(last=last)
    if rows is not None:
        answered = f"{rows[0].format(last=last)} or " if rows[0] else ""
        return f"{answered}rows() {rows[2]} before"
    if found.check == _AS_ANOTHER:
        return " and ".join(f"{name!r} not in str({last}.json())" for name in _wrong_names(found))
    return f"{last}.content != {found.answer[:2000].encode()!r}"


def _curl(found: Reproduction) -> str:
    references = References(found.requests, found.given)
    shown, rows = _shown(found), _by_rows(found)
    lines = [
        "#!/bin/sh -e",
        f"# {found.name}",
        f"# {' '.join(found.message.split())}",
        'BASE="${1:-http://127.0.0.1:8000}"',
        "DIR=$(mktemp -d)",
        "trap 'rm -rf \"$DIR\"' EXIT",
    ]
    if any(_pauses_after(found, number) for number in range(shown + 1)):
        pause = max(found.pause, SCRIPT_PAUSE)
        lines.append(f'PAUSE="${{PAUSE:-{pause:g}}}"  # seconds: the service may commit after it answers')
    if rows:
        lines.append(': "${ROWS:?must be a command that prints what the database holds}"')
    for number, each in enumerate(found.requests[: shown + 1]):
        if number == shown and rows:
            lines.append('BEFORE=$(eval "$ROWS")')
        lines.append(_curl_line(number, each, references, last=number == shown))
        if _pauses_after(found, number):
            lines.append('sleep "$PAUSE"')
        references.learn(number, each.request, each.response)
    lines[3:3] = [
        f': "${{{name}:?must be {content}}}"' for name, content in sorted(references.variables.items())
    ]
    return "\n".join([*lines, *_curl_verdict(found)]) + "\n"


def _curl_verdict(found: Reproduction) -> list[str]:
    fixed, wrong = 'echo "fixed: $STATUS"', 'echo "shown: $STATUS"; exit 1'
    status, rows = _by_status(found), _by_rows(found)
    if status is not None:
        return [f'case "$STATUS" in {status[1]}) {fixed};; *) {wrong};; esac']
    if rows is not None:
        compared = f'[ "$BEFORE" {rows[2].replace("==", "=")} "$(eval "$ROWS")" ]'
        tested = f"if {compared}; then {fixed}; else {wrong}; fi"
        return [f'case "$STATUS" in {rows[1]}) {fixed};; *) {tested};; esac' if rows[1] else tested]
    if found.check == _AS_ANOTHER:
        names = " ".join(f"-e {shlex.quote(name)}" for name in _wrong_names(found))
        return [f'if grep -q -F {names} "$DIR/body"; then {wrong}; else {fixed}; fi']
    return ['echo "answered $STATUS:"', 'cat "$DIR/body"']


def _curl_line(number: int, each: SentRequest, references: References, *, last: bool) -> str:
    request = each.request
    references.begin(request)
    path = _shell_text(references.in_path(request.path))
    path += _shell_text(references.in_query(request.query))
    words = [f'-X {request.method.upper()} "$BASE{path}"']
    for name, pieces in references.headers(request).items():
        if pieces:  # curl keeps no cookies by itself
            words.append(f'-H "{name}: {_shell_text(pieces)}"')
    if request.json is not NOT_JSON:
        words.append("-H 'Content-Type: application/json' -d " + _curl_body(references, request.json))
    for name, value in (request.form or {}).items():
        origin = references.find_named(name, value)
        field = shlex.quote(f"{name}={value}") if origin is None else f'"{name}={origin.shell()}"'
        words.append(f"--data-urlencode {field}")
    command = " ".join(words)
    if last:
        return f"STATUS=$(curl -s -o \"$DIR/body\" -w '%{{http_code}}' {command})"
    kept = f'-D "$DIR/{number}" ' if each.response.cookies() else ""
    return f"R{number}=$(curl -s {kept}{command})  # answered {each.response.status}"


def _shell_text(pieces: Pieces) -> str:
    """Return a text for double quotes."""
    return "".join(
        re.sub(r'([$`"\\])', r"\\\1", text) if origin is None else origin.shell() for text, origin in pieces
    )


def _curl_body(references: References, value: Any) -> str:
    pieces, plain, name = [], "", ""
    for piece in re.split(r'("(?:[^"\\]|\\.)*"(?:: )?|-?\d+)', json.dumps(value)):
        bare = json.loads(piece) if piece.endswith('"') else piece
        if piece.endswith('": '):
            name, bare = json.loads(piece[:-2]), ""
        origin = references.find_named(name, bare) if bare else None
        if origin is None:
            plain += piece
            continue
        quote = '\\"' if piece.startswith('"') else ""
        text = origin.shell_json() if isinstance(origin, LoginValue) else f"{quote}{origin.shell()}{quote}"
        pieces += [shlex.quote(plain) if plain else "", f'"{text}"']
        plain = ""
    return "".join([*pieces, shlex.quote(plain) if plain else ""])


def as_test_module(found: Sequence[Reproduction]) -> str:
    head = (
        '"""Tests of what an exploration found.\n\n'
        "Each needs the fixture `client`, a client of a fresh service. Some need `rows`, a function that returns\n"
        'what the database holds.\n"""\n'
    )
    taken: dict[str, int] = {}
    bodies = []
    for each in found:
        text, name = each.pytest(), each.function_name
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            text = text.replace(f"def {name}(", f"def {name}_{taken[name]}(", 1)
        bodies.append(text)
    return head + "\n\n" + "\n\n".join(bodies)
