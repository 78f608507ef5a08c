"""Performs a call: signs the actor in, sends the request, judges the response, learns from it, and follows up.

- Credentials that a login gives out without changing a system are the same in every state, if the user exists at the
  start. They are kept outside of the world, so that later calls need no login.
- Other credentials are part of the session, which is rolled back. A call whose actor has not signed in signs it up and
  in first, as a part of the same step.
- A probe learns nothing: the search undoes it.
- A running service may write after it has answered: `late_writes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.explore.api import checks
from clew.explore.api.calls import Call, CallTable, references_of
from clew.explore.api.checks import ACCEPTED, RATE_LIMITED, Exchange
from clew.explore.api.credential_mask import CredentialMask
from clew.explore.api.follow_ups import FollowUps
from clew.explore.api.late_writes import LateWrites
from clew.explore.api.logins import Actor
from clew.explore.api.openapi.document import Operation
from clew.explore.api.openapi.values import PASSWORD, value_of
from clew.explore.api.ownership import is_owned
from clew.explore.api.requests import RequestBuilder
from clew.explore.api.resources import MADE, Made, fields_of, forget_rows, may_hold, new_resource, update
from clew.explore.api.signed_in_states import SignedInStates
from clew.explore.api.table_changes import (
    Change,
    Column,
    Schemas,
    Snapshot,
    changes,
    new_rows,
    observe,
    same,
    values_of,
)
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest, HttpResponse, Transport
from clew.explore.model.actions import Action
from clew.explore.model.violations import Finding
from clew.explore.model.world import World
from clew.explore.systems.http.session import ActorCredentials, HTTPSession

LOGINS = "logins"


class SentRequest(msgspec.Struct, frozen=True):
    """A request that was sent, for a reproduction."""

    request: HttpRequest
    response: HttpResponse
    purpose: str  # "login", "call" or "follow-up"


class Traffic:
    """Counts what was sent and answered, and records it while a reproduction is made."""

    def __init__(self) -> None:
        self.sent = 0
        self.statuses: dict[str, Counter[int]] = {}
        self.undeclared: Counter[str] = Counter()
        self.rate_limited: Counter[str] = Counter()
        self.failed_logins: dict[str, int] = {}
        self.log: list[SentRequest] | None = None

    def count(self, operation: Operation, response: HttpResponse) -> None:
        self.statuses.setdefault(operation.name, Counter())[response.status] += 1
        if not operation.declares(response.status) and response.status < checks.FAILED:
            self.undeclared[f"{operation.name} {response.status}"] += 1
        if response.status == RATE_LIMITED:
            self.rate_limited[operation.name] += 1

    def succeeded(self, name: str) -> bool:
        """Return whether an operation ever answered with 2xx or 3xx."""
        return any(200 <= status < ACCEPTED for status in self.statuses.get(name, ()))


class Sender:
    """Performs calls in a world."""

    def __init__(
        self, transport: Transport, table: CallTable, session: HTTPSession, systems: Mapping[str, Any]
    ) -> None:
        self._transport = transport
        self.table = table
        self.document = table.document
        self.authentication = table.authentication
        self.session = session
        self.systems = dict(systems)
        self.schemas = Schemas(self.systems)
        self.times: set[Column] = self.schemas.times()
        self.volatile: set[Column] = set()
        self.traffic = Traffic()
        self.builder = RequestBuilder(table)
        self.late = LateWrites(self.snapshot)
        self.follow_ups = FollowUps(
            table, lambda request: self.send(request, "follow-up"), self._compared, self.late
        )
        self._stateless: dict[str, ActorCredentials] = {}
        self.signed_in = SignedInStates()
        self._names: dict[str, frozenset[str]] = {}
        self.mask = CredentialMask(each.username for each in self.authentication.actors)
        self.mask.add_given(PASSWORD, *self.authentication.given_values)
        self.calls: dict[str, Call] = {}  # that were offered, by name
        self.identities: list[str] = []  # reads that answer who the actor is
        self.owned: dict[str, bool] = {}  # by the operation that creates a resource
        self.shared: set[str] = set()  # operations that change shared resources
        self.last: tuple[Call, HttpRequest, HttpResponse] | None = None

    # -- actions ------------------------------------------------------------------------------------------------

    def offer(self, world: World) -> list[Action]:
        """Return the actions of the current state."""
        made: Made = world.context.get(MADE) or {}
        calls = self.table.offered(made, world.context.get(LOGINS) or {})
        return [self.action(call) for call in calls]

    def action(self, call: Call) -> Action:
        self.calls[call.name] = call
        return Action(call.name, lambda world: self.perform(world, call), probe=call.probe)

    def snapshot(self) -> Snapshot:
        """Observe the systems that are rolled back."""
        return observe(self.systems, self.systems)

    def after(
        self, operation: Operation, before: Snapshot, response: HttpResponse, **expected: bool
    ) -> Snapshot:
        """Observe the systems after a request, also what an accepted write shows late."""
        if not operation.writes or response.status >= ACCEPTED:
            return self.snapshot()
        return self.late.after(operation.name, before, **expected)

    def perform(self, world: World, call: Call) -> list[Finding]:
        """Perform a call, and return what it shows."""
        operation = self.document.by_name[call.operation]
        made: Made = world.context.get(MADE) or {}
        credentials = self.credentials_of(world, call.actor) if call.role != "login" else None
        made = world.context.get(MADE) or made
        if call.role == "login":
            return self._log_in(world, call, operation)
        request = self.builder.build(call, made, credentials)
        before = self.snapshot()
        response = self.send(request, "call")
        should_show = self._should_show(call, operation, made)
        after = self.after(operation, before, response, should_show=should_show)
        self.traffic.count(operation, response)
        self.last = (call, request, response)
        changed = changes(before, after, self.schemas)
        exchange = self._exchange(call, operation, request, response, changed, made)
        if call.role == "other" and exchange.accepted and exchange.real and not self._is_owned(world, call):
            exchange = msgspec.structs.replace(exchange, owned=False)
        found = checks.judge(exchange)
        if response.status >= ACCEPTED:
            return found
        if not call.probe:
            self._learn(world, exchange, before, after)
        if operation.writes and call.role in ("main", "variant", "again"):
            done = not same(before, after) or (should_show and bool(self.systems))
            found += self._follow_up(world, exchange, done)
        return found

    def _should_show(self, call: Call, operation: Operation, made: Made) -> bool:
        """Return whether a call deletes something that exists."""
        if operation.method != "delete" or call.role != "main" or call.last is None:
            return False
        resource = self.table.resource(call.last, made)
        return resource is not None and not resource["gone"]

    def _exchange(
        self,
        call: Call,
        operation: Operation,
        request: HttpRequest,
        response: HttpResponse,
        changed: list[Change],
        made: Made,
    ) -> Exchange:
        last = call.last
        return Exchange(
            call,
            operation,
            request,
            response,
            changed,
            self.times,
            self.document,
            self.table.resource(last, made)
            if last is not None and self.table.is_about(operation, last)
            else None,
            operation is self.authentication.login,
            bool(self.systems),
            self._names.get(call.actor or "", frozenset()),
            frozenset().union(*(names for name, names in self._names.items() if name != call.actor)),
        )

    def _is_owned(self, world: World, call: Call) -> bool:
        """Return whether what the service stores shows who owns a resource; without evidence it is shared."""
        last = call.last
        resource = None if last is None else self.table.resource(last, world.context.get(MADE) or {})
        if last is None or resource is None:
            return True
        if last.operation not in self.owned:
            kept, self.traffic.log = self.traffic.log, None
            try:
                owned = is_owned(self, world, last.operation, resource, call.actor)
            finally:
                self.traffic.log = kept
            self.owned[last.operation] = owned
        if not self.owned[last.operation]:
            self.shared.add(call.operation)
        return self.owned[last.operation]

    def _follow_up(self, world: World, exchange: Exchange, done: bool) -> list[Finding]:
        call, operation = exchange.call, exchange.operation
        is_marked = operation.method == "put" and not call.probe
        mark = world.checkpoint("before a follow-up") if is_marked else None
        try:
            main = call.role == "main"
            return list(self.follow_ups.of(operation, exchange.request, exchange.response, main, done))
        finally:
            if mark is not None:
                world.rollback(mark)
                world.release(mark)

    def _compared(
        self, operation: Operation, act: Callable[[], HttpResponse]
    ) -> tuple[HttpResponse, list[Change]]:
        before = self.snapshot()
        response = act()
        after = self.after(operation, before, response, repeated=True)
        found = changes(before, after, self.schemas)
        ignored = self.times | self.volatile
        return response, [each for each in found if (each.system, each.table, each.column) not in ignored]

    def send(self, request: HttpRequest, purpose: str) -> HttpResponse:
        """Send a request. The purpose is "login", "call" or "follow-up"."""
        self.traffic.sent += 1
        response = self._transport.send(request)
        if self.traffic.log is not None:
            self.traffic.log.append(SentRequest(request, response, purpose))
        return response

    # -- what responses say -------------------------------------------------------------------------------------

    def _learn(self, world: World, exchange: Exchange, before: Snapshot, after: Snapshot) -> None:
        call, operation, response = exchange.call, exchange.operation, exchange.response
        made: Made = dict(world.context.get(MADE) or {})
        cookies = response.cookies()
        if call.actor is not None and cookies and self.authentication.direct(self._actor(call.actor)) is None:
            self._stateless.pop(call.actor, None)
            self.session.receive_cookies(call.actor, cookies)
            self.mask.add(self.session.credentials(call.actor) or ActorCredentials())
        if operation.method == "post":
            self._created(made, call, operation, exchange.request, response, before, after)
        elif call.last is not None and self.table.is_about(operation, call.last):
            resource = self.table.resource(call.last, made)
            if resource is None or call.last.operation not in made:
                pass
            elif operation.method == "delete":
                if not same(before, after) or not self.systems:
                    resource["gone"] = True
            else:
                update(resource, fields_of(exchange.request.json, response))
        if not same(before, after):
            forget_rows(made, lambda column: set(values_of(after, column)), operation.method == "delete")
        world.context.set(MADE, made)

    def _created(
        self,
        made: Made,
        call: Call,
        operation: Operation,
        request: HttpRequest,
        response: HttpResponse,
        before: Snapshot,
        after: Snapshot,
    ) -> None:
        if operation.body is None:
            return
        sent = request.json if request.json is not NOT_JSON else request.form
        fields = fields_of(sent, response)
        rows = {}
        for system, table, row in new_rows(before, after, self.schemas):
            schema = self.schemas.table(system, table)
            for column in schema.key if schema is not None else ():
                for name, value in fields.items():
                    if name in rows or not may_hold(name, value, column):
                        continue
                    if str(row.get(column)) == str(value):
                        rows[name] = [system, table, column]
        resource = new_resource(fields, references_of(call.args), call.actor, rows)
        made[operation.name] = [*made.get(operation.name, ()), resource]

    def forget_logins(self) -> None:
        """Discard credentials that are the same in every state, so that the next call of an actor shows its login."""
        self._stateless.clear()

    # -- actors -------------------------------------------------------------------------------------------------

    def _actor(self, name: str) -> Actor:
        return next(each for each in self.authentication.actors if each.name == name)

    def credentials_of(self, world: World, name: str | None) -> ActorCredentials | None:
        """Return the credentials of an actor; sign it up and in if necessary."""
        if name is None:
            return None
        actor = self._actor(name)
        direct = self.authentication.direct(actor)
        if direct is not None:
            return ActorCredentials(*(tuple(sorted(part.items())) for part in direct))
        known = self.session.credentials(name) or self._stateless.get(name)
        if known is not None:
            return known
        if not self.signed_in.is_active:
            return self._signed_in(world, actor)
        state = world.observe().digest
        if self.signed_in.restore(world, state, name):
            return self.session.credentials(name)
        found = self._signed_in(world, actor)
        if found is not None and name not in self._stateless:
            self.signed_in.add(world, state, name)
        return found

    def _signed_in(self, world: World, actor: Actor) -> ActorCredentials | None:
        response, stored = self._signed_up(world, actor), True
        if response is not None and any(self.authentication.credentials_of(response)):
            pass  # a sign-up that signs in
        elif self.authentication.login is not None:
            before = self.snapshot()
            response = self.send(self._login_request(world, actor), "login")
            self.traffic.count(self.authentication.login, response)
            stored = not same(before, self.after(self.authentication.login, before, response))
        if response is None or response.status >= ACCEPTED:
            self.traffic.failed_logins[actor.name] = 0 if response is None else response.status
            return None
        headers, cookies = self.authentication.credentials_of(response)
        if not headers and not cookies:
            self.traffic.failed_logins[actor.name] = response.status
        if actor.number is None and not stored:
            found = ActorCredentials(tuple(sorted(headers.items())), (), tuple(sorted(cookies.items())))
            self._stateless[actor.name] = found
            self.mask.add(found)
            return found
        self._sign_in(actor, headers, cookies)
        return self.session.credentials(actor.name)

    def _sign_in(self, actor: Actor, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        self.session.sign_in(actor.name, headers, {}, cookies)
        self.mask.add(self.session.credentials(actor.name) or ActorCredentials())

    def _signed_up(self, world: World, actor: Actor) -> HttpResponse | None:
        """Sign an actor up, unless this path has done that; return the response."""
        operation = self.authentication.sign_up
        if actor.number is None or operation is None or operation.body is None:
            self._names.setdefault(actor.name, frozenset({actor.username}) - {""})
            return None
        made: Made = dict(world.context.get(MADE) or {})
        if any(each["actor"] == actor.name for each in made.get(operation.name, ())):
            return None
        body = value_of(self.document, operation.body.schema, actor.number)
        request = self.builder.with_credentials(operation, operation.path, {}, body, None)
        before = self.snapshot()
        response = self.send(request, "login")
        self.traffic.count(operation, response)
        if response.status < ACCEPTED:
            call = Call(operation.name, actor=actor.name)
            after = self.after(operation, before, response)
            self._created(made, call, operation, request, response, before, after)
            fields = made[operation.name][-1]["fields"]
            names = {str(fields[each]) for each in ("username", "email", "login") if each in fields}
            self._names[actor.name] = frozenset(names)
            world.context.set(MADE, made)
        return response

    def _login_request(self, world: World, actor: Actor) -> HttpRequest:
        login = self.authentication.login
        assert login is not None
        made: Made = world.context.get(MADE) or {}
        known: dict[str, Any] = {}
        if self.authentication.sign_up is not None:
            for each in made.get(self.authentication.sign_up.name, ()):
                if each["actor"] == actor.name:
                    known = each["fields"]
        if self.authentication.logs_in_by_basic:
            headers = self.authentication.basic_header(actor, known)
            request = self.builder.with_credentials(login, login.path, {}, NOT_JSON, None)
            return msgspec.structs.replace(request, headers={**request.headers, **headers})
        body = self.authentication.login_body(actor, known)
        if login.body is None:
            return self.builder.with_credentials(login, login.path, body, NOT_JSON, None)
        return self.builder.with_credentials(login, login.path, {}, body, None)

    def _log_in(self, world: World, call: Call, operation: Operation) -> list[Finding]:
        """Perform a login as a call: it may write, and it replaces the credentials of the actor."""
        actor = self._actor(call.actor or "")
        self._signed_up(world, actor)
        request = self._login_request(world, actor)
        before = self.snapshot()
        response = self.send(request, "call")
        after = self.after(operation, before, response)
        self.traffic.count(operation, response)
        self.last = (call, request, response)
        changed = changes(before, after, self.schemas)
        found = checks.judge(self._exchange(call, operation, request, response, changed, {}))
        if response.status < ACCEPTED and (changed or actor.number is not None):
            self._stateless.pop(actor.name, None)
            self._sign_in(actor, *self.authentication.credentials_of(response))
        if response.status < ACCEPTED and changed:
            logins = dict(world.context.get(LOGINS) or {})
            logins[actor.name] = logins.get(actor.name, 0) + 1
            world.context.set(LOGINS, logins)
        return found + self._answered_as_others() if response.status < ACCEPTED else found

    def _answered_as_others(self) -> list[Finding]:
        """Ask who each signed-in actor is, until one is answered as another: a login must not change other actors."""
        for actor in self.authentication.actors:
            known = self.session.credentials(actor.name) or self._stateless.get(actor.name)
            for name in self.identities if known is not None else ():
                operation = self.document.by_name[name]
                request = self.builder.with_credentials(operation, operation.path, {}, NOT_JSON, known)
                response = self.send(request, "follow-up")
                call = Call(name, actor=actor.name)
                exchange = self._exchange(call, operation, request, response, [], {})
                found = checks.answers_as_another(exchange)
                if found is not None:
                    return [found]
        return []

    def tells_who(self, call: Call, response: HttpResponse) -> bool:
        """Return whether a read answered who the actor is, even incorrectly."""
        known = frozenset().union(*self._names.values())
        return not call.args and call.actor is not None and bool(checks.names_in(response) & known)
