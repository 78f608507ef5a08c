"""What a request, its response and the changes of the systems say: findings with a severity.

Each check is a function of an `Exchange`. A finding is grouped by its check and its operation; server errors also by
the exception and the innermost frame of the application. Time columns that reads touch are grouped by column, because
often every operation touches the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from clew.explore.api.calls import Call
from clew.explore.api.openapi.document import ApiDocument, Operation
from clew.explore.api.resources import Resource, scalars
from clew.explore.api.table_changes import Change, Column
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest, HttpResponse
from clew.explore.model.invariants import Severity
from clew.explore.model.violations import Finding
from clew.json_schema import problems

ACCEPTED = 400  # statuses below are accepted
FAILED = 500
RATE_LIMITED = 429
SHOWN = 4  # changes in a message
_IDENTITY = ("username", "email", "login", "user_name")


class Exchange(msgspec.Struct, frozen=True, eq=False):
    """A call with its request, its response, and what the systems show before and after it."""

    call: Call
    operation: Operation
    request: HttpRequest
    response: HttpResponse
    changes: Sequence[Change]
    times: set[Column]
    document: ApiDocument
    resource: Resource | None = None  # that the last path parameter names
    is_login: bool = False
    rolls_back: bool = True  # there are systems in which a write must show
    own_names: frozenset[str] = frozenset()
    other_names: frozenset[str] = frozenset()
    owned: bool = True  # what the service stores shows who owns the resource

    @property
    def accepted(self) -> bool:
        """Return whether the service accepted the request."""
        return self.response.status < ACCEPTED

    @property
    def real(self) -> list[Change]:
        """Return the changes other than of time columns."""
        return [each for each in self.changes if (each.system, each.table, each.column) not in self.times]

    def answered(self) -> str:
        """Return what was answered, for a message."""
        return f"{self.operation.name} answered {self.response.status}"


Check = Callable[[Exchange], "Finding | None"]


def _named(check: str, exchange: Exchange, message: str, severity: Severity) -> Finding:
    return Finding(f"{check}: {exchange.operation.name}", message, severity)


def listed(changes: Iterable[Change]) -> str:
    """Return changes for a message."""
    texts = [each.text for each in changes]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more


def server_error(name: str, response: HttpResponse, what: str = "") -> Finding | None:
    """Return a finding for a response with 5xx."""
    if response.status < FAILED:
        return None
    error = response.error
    place = ""
    if error is not None and error.exception:
        place = f" ({error.exception}{f' at {error.frame}' if error.frame else ''})"
    message = f"{what}{name} answered {response.status}"
    if error is not None:
        message += f": {error.exception}: {error.message}" if error.exception else f": {error.message}"
    return Finding(f"server error: {name}{place}", message, Severity.HIGH)


def _server_error(exchange: Exchange) -> Finding | None:
    return server_error(exchange.operation.name, exchange.response)


def _rejected_yet_written(exchange: Exchange) -> Finding | None:
    if exchange.accepted or not exchange.real or exchange.is_login or not exchange.operation.writes:
        return None
    message = f"{exchange.answered()}, and changed {listed(exchange.real)}"
    return _named("rejected, yet written", exchange, message, Severity.HIGH)


def _read_writes(exchange: Exchange) -> Finding | None:
    if exchange.operation.writes or not exchange.changes:
        return None
    if exchange.real:
        message = f"{exchange.answered()}, and changed {listed(exchange.real)}"
        return _named("read that writes", exchange, message, Severity.HIGH)
    message = f"{exchange.answered()}, and changed {listed(exchange.changes)}"
    columns = sorted({f"{each.table}.{each.column}" for each in exchange.changes})
    return Finding(f"time column touched by a read: {', '.join(columns)}", message, Severity.LOW)


def _deleted_nothing(exchange: Exchange) -> Finding | None:
    if exchange.operation.method != "delete" or not exchange.accepted or exchange.changes:
        return None
    if exchange.resource is None or exchange.resource["gone"] or not exchange.rolls_back:
        return None
    if exchange.call.role != "main" or not exchange.operation.path.rstrip("/").endswith("}"):
        return None
    message = f"{exchange.answered()}, and nothing was deleted"
    return _named("deleted, but still there", exchange, message, Severity.HIGH)


def _without_credentials(exchange: Exchange) -> Finding | None:
    if exchange.call.role != "anonymous" or not exchange.accepted:
        return None
    if not exchange.operation.writes:
        message = f"{exchange.answered()} without credentials; the document declares security"
        return _named("read without credentials", exchange, message, Severity.MEDIUM)
    severity = Severity.CRITICAL if exchange.real or not exchange.rolls_back else Severity.MEDIUM
    message = f"{exchange.answered()} without credentials, and changed {listed(exchange.real) or 'nothing'}"
    return _named("write without credentials", exchange, message, severity)


def _of_another_actor(exchange: Exchange) -> Finding | None:
    if exchange.call.role != "other" or not exchange.accepted:
        return None
    if (exchange.rolls_back and not exchange.real) or not exchange.owned:
        return None
    owner = exchange.resource["actor"] if exchange.resource is not None else "another actor"
    message = f"{exchange.answered()} to {exchange.call.actor} for a resource of {owner}"
    message += f", and changed {listed(exchange.real)}" if exchange.real else ""
    return _named("resource of another actor", exchange, message, Severity.CRITICAL)


def names_in(response: HttpResponse) -> set[str]:
    """Return the names by which a response identifies a user."""
    found = scalars(response.json)
    return {str(found[each]) for each in _IDENTITY if each in found}


def answers_as_another(exchange: Exchange) -> Finding | None:
    """Return a finding if an actor is answered as another one."""
    if (
        exchange.operation.writes
        or exchange.call.args
        or not exchange.accepted
        or exchange.call.actor is None
    ):
        return None
    names = names_in(exchange.response)
    if names & exchange.own_names or not names & exchange.other_names:
        return None
    message = f"{exchange.operation.name} answered {exchange.call.actor} as {', '.join(sorted(names))}"
    return _named("answers as another actor", exchange, message, Severity.CRITICAL)


def _unknown_accepted(exchange: Exchange) -> Finding | None:
    operation = exchange.operation
    if exchange.call.role not in ("unknown", "huge") or not exchange.accepted or operation.method == "post":
        return None
    if not operation.path.rstrip("/").endswith("}") or exchange.response.status == 201:
        return None
    message = f"{exchange.answered()} for an id that does not exist"
    return _named("unknown id accepted", exchange, message, Severity.MEDIUM)


def _schema(exchange: Exchange) -> Finding | None:
    response = exchange.response
    schema = exchange.operation.response_schema(response.status)
    if schema is None or response.status >= FAILED or response.status in (204, 304):
        return None
    if response.json is NOT_JSON:
        problem: str | None = "the response is not JSON" if response.body else "the response is empty"
    else:
        found = next(problems(schema, response.json, exchange.document.raw), None)
        problem = None if found is None else f"{found[0][1:] or 'the response'}: {found[1]}"
    if problem is None:
        return None
    message = f"{exchange.answered()}: {problem}"
    return _named("response does not match its schema", exchange, message, Severity.MEDIUM)


CHECKS: tuple[Check, ...] = (
    _server_error,
    _rejected_yet_written,
    _read_writes,
    _deleted_nothing,
    _without_credentials,
    _of_another_actor,
    answers_as_another,
    _unknown_accepted,
    _schema,
)


def judge(exchange: Exchange) -> list[Finding]:
    """Return the findings of an exchange. A rate limit says nothing about the service."""
    if exchange.response.status == RATE_LIMITED:
        return []
    return [found for check in CHECKS if (found := check(exchange)) is not None]


def not_there(name: str, reader: str, status: int) -> Finding:
    """Return the finding that something was created, and cannot be read."""
    message = f"{name} created it, and {reader} answered {status}"
    return Finding(f"created, but not there: {name}", message, Severity.HIGH)


def still_there(name: str, reader: str, status: int) -> Finding:
    """Return the finding that something was deleted, and can be read."""
    message = f"{name} deleted it, and {reader} answered {status}"
    return Finding(f"deleted, but still there: {name}", message, Severity.HIGH)


def not_idempotent(name: str, changes: Sequence[Change], statuses: tuple[int, int]) -> Finding:
    """Return the finding that a second PUT changed something."""
    what = f"changed {listed(changes)}" if changes else f"answered {statuses[1]} instead of {statuses[0]}"
    return Finding(f"PUT twice is not PUT once: {name}", f"the second {name} {what}", Severity.MEDIUM)
