"""What only a second request shows: a deleted resource that can be read, a created one that cannot, a PUT that changes
something when it is repeated, accepted values that break a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from clew.explore.api import checks
from clew.explore.api.late_writes import LateWrites
from clew.explore.api.openapi.document import Operation
from clew.explore.api.openapi.links import field_for, readers_of
from clew.explore.api.resources import fields_of
from clew.explore.api.table_changes import Change
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest, HttpResponse
from clew.explore.model.violations import Finding

if TYPE_CHECKING:
    from clew.explore.api.calls import CallTable

UNREADABLE = (401, 403, checks.RATE_LIMITED)
GONE = 404

Send = Callable[[HttpRequest], HttpResponse]
Compare = Callable[[Operation, Callable[[], HttpResponse]], tuple[HttpResponse, list[Change]]]


class FollowUps:
    """Sends the second requests. `send` sends one; `compare` also says what it changed."""

    def __init__(self, table: CallTable, send: Send, compare: Compare, late: LateWrites) -> None:
        self._document = table.document
        self._send = send
        self._compare = compare
        self._late = late
        self._readers = {
            each.name: readers_of(table.document, each)
            for each in table.document.operations
            if each.method == "post"
        }
        self._lists = [
            each for each in table.document.operations if each.method == "get" and not each.inside("path")
        ]

    def of(
        self, operation: Operation, request: HttpRequest, response: HttpResponse, main: bool, done: bool
    ) -> Iterator[Finding]:
        """Yield the findings of the second requests after an accepted one; `done` is whether it waits for no commit."""
        if operation.method == "delete" and main:
            yield from self._deleted(operation, request, done)
        elif operation.method == "put" and main:
            yield from self._put_again(operation, request, response)
        elif operation.method == "post" and operation.body is not None:
            yield from self._created(operation, request, response, done)
        if main == (operation.method == "delete"):
            yield from self._lists_work(request)

    def _get(self, path: str, request: HttpRequest) -> HttpResponse:
        headers = {name: value for name, value in request.headers.items() if name != "Content-Type"}
        return self._send(HttpRequest("get", path, (), headers))

    def _get_after(
        self,
        operation: Operation,
        path: str,
        request: HttpRequest,
        done: bool,
        is_wrong: Callable[[int], bool],
    ) -> HttpResponse:
        if done:
            return self._get(path, request)
        return self._late.read(operation.name, lambda: self._get(path, request), is_wrong)

    def _deleted(self, operation: Operation, request: HttpRequest, done: bool) -> Iterator[Finding]:
        reader = f"GET {operation.path}"
        if reader not in self._document.by_name or not operation.path.rstrip("/").endswith("}"):
            return
        answer = self._get_after(
            operation, request.path, request, done, lambda status: status < checks.ACCEPTED
        )
        if answer.status < checks.ACCEPTED:
            yield checks.still_there(operation.name, reader, answer.status)
        failed = checks.server_error(reader, answer, f"after {operation.name}, ")
        if failed is not None:
            yield failed

    def _put_again(
        self, operation: Operation, request: HttpRequest, response: HttpResponse
    ) -> Iterator[Finding]:
        answer, changed = self._compare(operation, lambda: self._send(request))
        failed = checks.server_error(operation.name, answer, "the second ")
        if failed is not None:
            yield failed
        elif changed and answer.status < checks.ACCEPTED:
            yield checks.not_idempotent(operation.name, changed, (response.status, answer.status))

    def _created(
        self, operation: Operation, request: HttpRequest, response: HttpResponse, done: bool
    ) -> Iterator[Finding]:
        sent = request.json if request.json is not NOT_JSON else request.form
        fields = fields_of(sent, response)
        for reader in self._readers.get(operation.name, ()):
            parameter = reader.inside("path")[-1].name
            field = field_for(parameter, fields)
            if field is None or any(each.required for each in reader.inside("query")):
                continue
            last = quote(str(fields[field]), safe="")
            parents = request.path.rstrip("/") if len(reader.inside("path")) > 1 else ""
            path = f"{parents}/{last}" if parents else reader.path.replace("{" + parameter + "}", last)
            answer = self._get_after(operation, path, request, done, lambda status: status == GONE)
            failed = checks.server_error(reader.name, answer, f"after {operation.name}, ")
            if failed is not None:
                yield failed
            elif answer.status == GONE:
                yield checks.not_there(operation.name, reader.name, answer.status)

    def _lists_work(self, request: HttpRequest) -> Iterator[Finding]:
        """Unusual values, and rows that refer to something deleted, must not break the operations that list them."""
        for reader in self._lists:
            if any(each.required for each in reader.inside("query")):
                continue
            answer = self._get(reader.path, request)
            failed = checks.server_error(reader.name, answer, "after an accepted write, ")
            if failed is not None:
                yield failed
