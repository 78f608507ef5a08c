"""`explore_api`: explore a service from its OpenAPI document.

Phases inside `within`: calibration (at most 15 %), exploration, confirmation (at least 30 %). Each phase starts and
ends with the systems in their initial state. Calibration is an exploration of one probe, so it has the same guarantees:
with a store, the systems are restored if the process is killed, and its result is stored for a resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec

from clew.errors import DefinitionError, RefusedServiceError
from clew.explore.agent import Agent
from clew.explore.api.calibration import Calibration, CalibrationResult
from clew.explore.api.calls import CallTable
from clew.explore.api.checks import ACCEPTED
from clew.explore.api.logins import Authentication
from clew.explore.api.naming import SESSION, StateNames
from clew.explore.api.openapi.document import ApiDocument
from clew.explore.api.opening import (
    check_systems,
    check_url,
    find_document,
    load_app,
    open_systems,
    run_migrations,
)
from clew.explore.api.reports.outcome import ServiceExplorationResult, ServiceReport
from clew.explore.api.reports.reproductions import Reproduction, reproduction_of
from clew.explore.api.sending import Sender, SentRequest
from clew.explore.api.transports.in_process import in_process
from clew.explore.api.transports.messages import Transport
from clew.explore.api.transports.network_guard import BlockedConnections, guarded, unguarded_libraries
from clew.explore.api.transports.over_http import HttpTransport
from clew.explore.api.turns import CallTurns
from clew.explore.model.actions import Action
from clew.explore.model.world import World
from clew.explore.progress import CalibrationProgress
from clew.explore.reports.result import ExplorationResult
from clew.explore.systems.http.session import HTTPSession
from clew.live import live
from clew.stores.factory import open_table

CALIBRATION_SHARE = 0.15
EXPLORATION_SHARE = 0.95  # of what calibration left; the rest is for the scripts
SETTLE = 1.1  # seconds between two calibrations of a call, so that times in seconds differ
_RESULT = "calibration"


def explore_api(
    app: Any = None,
    *,
    url: str | None = None,
    openapi: Any = None,
    systems: Any = None,
    login: str | Iterable[str] = (),
    within: float = 60.0,
    max_requests: int | None = None,
    resources: int = 2,
    actors: int = 2,
    skip: Iterable[str] = (),
    migrate: bool = False,
    allow_remote: bool = False,
    allow_stale: bool = False,
    settle: float = SETTLE,
    store: Any = None,
    name: str = "api",
    progress: bool = True,
) -> ServiceExplorationResult:
    """Explore a service from its OpenAPI document, and return what it shows.

    Args:
        app: An ASGI or WSGI application, or `module:name`. It runs in this process, and its outgoing connections are
            blocked.
        url: The address of a running service, instead of `app`.
        openapi: The document: a dict, a file, or a path of the service. [default: what the application provides]
        systems: What the service stores its data in: a database address, a system, or several by name. They are
            rolled back.
        login: `name:password`, an API key or a token, for each actor. [default: a sign-up operation]
        within: Maximum number of seconds.
        max_requests: Measure the phases by the number of requests instead of seconds.
        resources: Maximum number of resources that an operation creates on one path.
        actors: Maximum number of actors.
        skip: Operations that are not called: `"DELETE /items/{id}"`.
        migrate: Apply the pending Django or Alembic migrations of the current folder first. They are not rolled back.
        allow_remote: Permit a service or a database on another machine.
        allow_stale: Explore a service that holds state which is not rolled back.
        settle: Seconds between the two calibrations of a call.
        store: Where to record progress; a killed exploration resumes from it.
        name: Name of the exploration in the store.
        progress: Show progress, if standard error is a terminal.
    """
    if (app is None) == (url is None):
        raise DefinitionError("explore_api needs either app= or url=")
    logins = [login] if isinstance(login, str) else list(login)
    if migrate:
        check_systems(systems, allow_remote=allow_remote)
        run_migrations()
    with ExitStack() as stack:
        guard: BlockedConnections | None = None
        if url is not None:
            check_url(url, allow_remote=allow_remote)
            transport: Transport = HttpTransport(url)
        else:
            app = load_app(app)
            guard = stack.enter_context(guarded())
            transport = in_process(app)
        stack.callback(transport.close)
        document = ApiDocument(find_document(openapi, app, transport))
        found, opened = open_systems(systems, allow_remote=allow_remote)
        for system in opened:
            stack.callback(system.close)
        authentication = Authentication(document, logins, actors)
        table = CallTable(document, authentication, resources)
        unknown = [each for each in skip if each not in document.by_name]
        if unknown:
            raise DefinitionError(f"skip: the document has no operation {unknown[0]!r}")
        table.skipped = set(skip)
        exploration = _Exploration(Sender(transport, table, HTTPSession(), found), store, name, progress)
        exploration.limit(within, max_requests)
        exploration.sender.late.is_active = url is not None
        calibrated = exploration.calibrate(settle)
        _refuse(calibrated, exploration.sender, allow_stale)
        result, scripts = exploration.explore()
        report = exploration.report(calibrated, guard, _notes(exploration.sender, guard))
        return ServiceExplorationResult(result, report, scripts, exploration.sender.mask)


class _Exploration:
    """The phases of an exploration."""

    def __init__(self, sender: Sender, store: Any, name: str, progress: bool) -> None:
        self.sender = sender
        self._store = store
        self._name = name
        self._progress = progress
        self._names = StateNames(sender.schemas, sender.times, sender.volatile)
        systems = {**sender.systems, SESSION: sender.session}
        self._world = World(api=sender, systems=systems, canonicalize=self._names)
        self._clock: Callable[[], float] = time.monotonic
        self._end = 0.0
        self._within = 0.0

    def limit(self, within: float, max_requests: int | None) -> None:
        """Set the limit of all phases, in seconds or in requests."""
        if max_requests is not None:
            self._clock = lambda: float(self.sender.traffic.sent)
        self._within = float(within if max_requests is None else max_requests)
        if not self._within > 0:
            raise DefinitionError(f"within must be a number of seconds > 0, got {within!r}")
        self._end = self._clock() + self._within

    def calibrate(self, settle: float) -> CalibrationResult:
        """Calibrate, or take the stored result of an exploration that is resumed."""
        known = self._stored()
        if known is None:
            known = self._calibrated(settle)
            self._write(known)
        sender = self.sender
        sender.times.update(known.times)
        sender.volatile.update(known.volatile)
        sender.table.shift.update(known.shift)
        sender.table.seeds.update(known.seeds)
        sender.table.independent.update(known.independent)
        sender.identities = known.identities
        sender.late.seen.update(known.late)
        self._names.forget()
        return known

    def _calibrated(self, settle: float) -> CalibrationResult:
        late = self._end - self._within * (1 - CALIBRATION_SHARE)
        calibration = Calibration(
            self.sender, self._world, settle=settle, out_of_time=lambda: self._clock() >= late
        )
        raised: list[Exception] = []

        def run(world: World) -> None:
            try:
                calibration.run()
            except Exception as error:
                raised.append(error)

        with live(CalibrationProgress(lambda: self.sender.traffic.sent), show=self._progress):
            Agent(
                self._world,
                [Action("calibrate", run, probe=True)],
                store=self._store,
                name=f"{self._name}/calibration",
                progress=False,
            ).explore()
        if raised:
            raise raised[0]
        return calibration.result

    def _stored(self) -> CalibrationResult | None:
        if self._store is None:
            return None
        table = open_table(self._store, f"explore-api:{self._name}")
        try:
            data = table.read(_RESULT)
        finally:
            table.close()
        return None if data is None else msgspec.json.decode(data, type=CalibrationResult)

    def _write(self, found: CalibrationResult) -> None:
        if self._store is None:
            return
        table = open_table(self._store, f"explore-api:{self._name}")
        try:
            table.write([(_RESULT, msgspec.json.encode(found))])
        finally:
            table.close()

    def explore(self) -> tuple[ExplorationResult, list[Reproduction]]:
        """Explore and confirm; return the result, and a script for each confirmed violation."""
        agent = Agent(
            self._world,
            self.sender.offer,
            strategy=CallTurns(self.sender.calls.get, self._was_rejected),
            within=max((self._end - self._clock()) * EXPLORATION_SHARE, 1e-3),
            store=self._store,
            name=self._name,
            progress=self._progress,
        )
        agent._clock = self._clock
        self.sender.signed_in.is_active = True
        try:
            result = agent.explore()
        finally:
            self.sender.signed_in.release(self._world)
        return result, self._reproductions(result)

    def _was_rejected(self) -> bool:
        last = self.sender.last
        return last is not None and last[2].status >= ACCEPTED

    def _reproductions(self, result: ExplorationResult) -> list[Reproduction]:
        world, found = self._world, []
        confirmed = [each for each in result.violations if each.confirmed]
        if not confirmed:
            return []
        start = world.checkpoint("before the scripts")
        self.sender.forget_logins()
        try:
            for violation in confirmed:
                log: list[SentRequest] = []
                self.sender.traffic.log = log
                for step in violation.path:
                    world.act(result.graph.actions[step.action_name])
                sender = self.sender
                given, pause = sender.authentication.given_values, sender.late.pause
                found.append(reproduction_of(violation, log, pause, given, sender.mask))
                world.rollback(start)
                self.sender.forget_logins()
        finally:
            self.sender.traffic.log = None
            world.rollback(start)
            world.release(start)
        return found

    def report(
        self, calibrated: CalibrationResult, guard: BlockedConnections | None, notes: list[str]
    ) -> ServiceReport:
        """Return what was sent, and what was treated as volatile."""
        sender, traffic = self.sender, self.sender.traffic
        return ServiceReport(
            requests=traffic.sent,
            operations={
                each.name: dict(traffic.statuses.get(each.name, {})) for each in sender.document.operations
            },
            undeclared=dict(traffic.undeclared),
            volatile=_texts(sender.volatile),
            times=_texts(sender.times),
            stale=tuple(calibrated.stale),
            blocked={} if guard is None else dict(guard.counts),
            unguarded=() if guard is None else tuple(unguarded_libraries()),
            actors=tuple(each.name for each in sender.authentication.actors),
            notes=tuple(notes),
            calibrated=calibrated.calls,
        )


def _texts(columns: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    return tuple(sorted(f"{table}.{column}" for _, table, column in columns))


def _refuse(found: CalibrationResult, sender: Sender, allow_stale: bool) -> None:
    """Refuse a service that cannot be explored, and say why."""
    if found.rate_limited:
        raise RefusedServiceError(
            f"the service limits the rate of {', '.join(found.rate_limited)} (429); switch the limit off"
        )
    if not found.accepted:
        failed = _failed_logins(sender.traffic.failed_logins)
        raise RefusedServiceError(
            f"no operation answered 2xx{f'; {failed}' if failed else ''}; check --login, the database and the document"
        )
    if found.stale and not allow_stale and not sender.systems:
        raise RefusedServiceError(
            f"nothing is rolled back, because no database was given: {'; '.join(found.stale)}; "
            "give the database of the service with --db, or explore with --allow-stale"
        )
    if found.stale and not allow_stale:
        raise RefusedServiceError(
            "the service holds state that is not rolled back (a cache, a limit): "
            f"{'; '.join(found.stale)}; switch it off, or explore with --allow-stale"
        )
    if found.writes and not found.shown and sender.systems and not allow_stale:
        raise RefusedServiceError(
            "accepted writes do not show in the given systems; check that --db is the database of the service"
        )


def _failed_logins(failed: Mapping[str, int]) -> str:
    return ", ".join(
        f"the login of {name} "
        + ("gave out no credentials" if 0 < status < ACCEPTED else "failed")
        + (f" ({status})" if status else "")
        for name, status in failed.items()
    )


def _notes(sender: Sender, guard: BlockedConnections | None) -> list[str]:
    notes = []
    actors_off = sender.authentication.describe()
    if actors_off:
        notes.append(actors_off)
    if sender.shared:
        notes.append(
            f"every actor may change what another created, and nothing stored says whose it is: "
            f"{', '.join(sorted(sender.shared))}"
        )
    if sender.traffic.failed_logins:
        notes.append(_failed_logins(sender.traffic.failed_logins))
    if guard is None:
        notes.append("the service runs in another process: its outgoing connections are not guarded")
    elif unguarded_libraries():
        notes.append(f"connections in native code are not guarded: {', '.join(unguarded_libraries())}")
    late = sender.late.seen
    if late:
        longest = max(each.seconds for each in late.values())
        notes.append(
            f"the service answers before it commits: writes of {', '.join(sorted(late))} "
            f"showed up to {longest * 1000:.0f} ms later"
        )
    if not sender.systems:
        notes.append("no systems: nothing is rolled back")
    return notes
