"""A small queue, for exhaustive exploration: the real code of a store, workers that crash, and a clock that jumps.

Every call of a store is one transaction, so the places between two calls are all the places where a worker can crash or
be suspended. A worker here does what a real one does with the store: it takes a run, commits its steps, receives its
messages, lets it sleep or wait, and ends it. `nothing_is_lost` holds in a state if an undisturbed worker can end all
runs from there, except those that wait for a message that nobody has sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import astuple

from clew import SQLiteStore
from clew.errors import OwnerDeadError, RunOwnedError
from clew.explore import Action, Agent, Invariant, World
from clew.explore.checking.simulated_disk import SimulatedDisk
from clew.explore.model.system import Observation
from clew.state.values.codec import encode
from clew.stores import LogEntry, QueueEntry, RunRow, Store, TakenRun

LEASE = 10.0
TICK = 6.0  # a lease that is not renewed ends with the second tick
STEPS = 2
ENDED = ("completed", "cancelled")


class ModelClock:
    """The clock of the store: ticks that are part of the explored state."""

    boot = "model"

    def __init__(self) -> None:
        self.ticks = 0

    def monotonic(self) -> float:
        return self.ticks * TICK

    def time(self) -> float:
        return self.ticks * TICK


class StoreSystem:
    """The content of a store and its clock, as a system of a world."""

    ordering: Literal["any", "lifo"] = "any"

    def __init__(self, store: Store, clock: ModelClock) -> None:
        self.store = store
        self.clock = clock
        self._tokens: dict[int, tuple[int, Any]] = {}
        self._last = 0

    def observe(self) -> Observation:
        data = self._rows()
        return Observation("store", {"ticks": self.clock.ticks}, {}, sha256(data).digest())

    def checkpoint(self, name: str) -> int:
        self._last += 1
        self._tokens[self._last] = (self.clock.ticks, self._image())
        return self._last

    def rollback(self, token: int) -> None:
        self.clock.ticks, image = self._tokens[token]
        self._load(image)

    def is_valid(self, token: int) -> bool:
        return token in self._tokens

    def release(self, token: int) -> None:
        del self._tokens[token]

    def _rows(self) -> bytes:
        """Return everything that distinguishes two contents."""
        raise NotImplementedError

    def _image(self) -> Any:
        raise NotImplementedError

    def _load(self, image: Any) -> None:
        raise NotImplementedError


class MemorySystem(StoreSystem):
    """A memory store, with the same bytes as a real one."""

    store: SimulatedDisk

    def _rows(self) -> bytes:
        image = self.store.image()
        runs = {
            name: [
                repr(astuple(run.row)),
                run.fence,
                run.owner,
                repr(run.entry),
                sorted(run.named),
                sorted(run.inbox),
            ]
            for name, run in image.runs.items()
        }
        workers = {name: [each.until, each.dead] for name, each in image.workers.items()}
        return encode([self.clock.ticks, runs, workers])

    def _image(self) -> Any:
        return self.store.image()

    def _load(self, image: Any) -> None:
        self.store.load(image)


class FileSystem(StoreSystem):
    """A SQLite file."""

    def __init__(self, store: SQLiteStore, clock: ModelClock) -> None:
        super().__init__(store, clock)
        self._db = sqlite3.connect(store.path, isolation_level=None)
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        self._tables = [name for (name,) in found]

    def close(self) -> None:
        self._db.close()

    def _rows(self) -> bytes:
        return repr([self.clock.ticks, self._image()]).encode()

    def _image(self) -> dict[str, list[tuple[Any, ...]]]:
        select = 'SELECT * FROM "{}" ORDER BY 1, 2'
        return {table: self._db.execute(select.format(table)).fetchall() for table in self._tables}

    def _load(self, image: dict[str, list[tuple[Any, ...]]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for table, rows in image.items():
            self._db.execute(f'DELETE FROM "{table}"')
            for row in rows:
                self._db.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
        self._db.execute("COMMIT")


class Held(msgspec.Struct):
    """The run that a worker has, as the worker knows it."""

    run: str
    fence: int
    done: int
    cancelled: bool = False
    signalled: bool = False


class Queue:
    """Workers and clients of a store. What a worker knows is in the context of the world, so it is rolled back."""

    def __init__(self, system: StoreSystem) -> None:
        self.system = system
        self.store = system.store

    def held(self, world: World, worker: str) -> Held | None:
        known = world.context.get(worker)
        return None if known is None else Held(*known)

    def know(self, world: World, worker: str, held: Held | None) -> None:
        world.context.set(worker, None if held is None else list(msgspec.structs.astuple(held)))

    def name(self, world: World, worker: str) -> str:
        return f"{worker}.{world.context.get(f'{worker} name')}"

    def restart(self, world: World, worker: str) -> None:
        """A process that crashed or was declared dead continues under a new name, and knows nothing."""
        self.know(world, worker, None)
        world.context.set(f"{worker} name", world.context.get(f"{worker} name") + 1)

    # -- what clients do

    def submit(self, run: str) -> None:
        self.store.create(RunRow(run, structure="s", start=b""), queue=QueueEntry())

    def cancel(self, run: str) -> None:
        """End a run that nobody has; tell the owner of another one."""
        try:
            fence = self.store.claim(run, f"client of {run}", lease=LEASE)
        except RunOwnedError:
            self.store.send(run, "cancel", "cancel", b"")
            return
        status = self.store.row(run).status
        self.store.update(
            run,
            status=status if status in ENDED else "cancelled",
            updated=0.0,
            error=None,
            fence=fence,
            release=True,
        )

    # -- what workers do

    def take(self, world: World, worker: str) -> None:
        try:
            taken = _take(self.store, self.name(world, worker))
        except OwnerDeadError:
            self.restart(world, worker)
            return
        for each in taken:
            self.know(world, worker, self._opened(each))

    def _opened(self, taken: TakenRun) -> Held:
        found = [entry.name for entry in self.store.entries(taken.row.run_id)]
        assert taken.is_new == (not found)
        steps = [n for kind, _, n in found if kind == "step"]
        assert steps == list(range(1, len(steps) + 1))
        kinds = {kind for kind, *_ in found}
        return Held(taken.row.run_id, taken.fence, len(steps), "cancel" in kinds, "signal" in kinds)

    @contextmanager
    def _fenced(self, world: World, worker: str) -> Iterator[None]:
        try:
            yield
        except RunOwnedError:  # somebody else has the run now
            self.know(world, worker, None)

    def commit(self, world: World, worker: str) -> None:
        held = self.held(world, worker)
        assert held is not None
        with self._fenced(world, worker):
            self.store.append(held.run, [_entry("step", held.done + 1)], held.fence)
            held.done += 1
            world.context.set(f"commits of {held.run}", world.context.get(f"commits of {held.run}", 0) + 1)
            self.know(world, worker, held)

    def receive(self, world: World, worker: str) -> None:
        held = self.held(world, worker)
        assert held is not None
        with self._fenced(world, worker):
            message = self.store.inbox(held.run)[0]
            self.store.append(held.run, [_entry(message.kind, message.n)], held.fence, received=[message.n])
            held.cancelled = held.cancelled or message.kind == "cancel"
            held.signalled = held.signalled or message.kind == "signal"
            self.know(world, worker, held)

    def end(self, world: World, worker: str, status: str, due: float | None = None) -> None:
        held = self.held(world, worker)
        assert held is not None
        with self._fenced(world, worker):
            self.store.update(
                held.run, status=status, updated=0.0, error=None, fence=held.fence, release=True, due=due
            )
            if status in ENDED:
                world.context.set(f"ends of {held.run}", world.context.get(f"ends of {held.run}", 0) + 1)
        self.know(world, worker, None)

    def renew(self, world: World, worker: str) -> None:
        try:
            self.store.renew(self.name(world, worker), lease=LEASE)
        except OwnerDeadError:
            self.restart(world, worker)

    def tick(self) -> None:
        self.system.clock.ticks += 1


def _take(store: Store, owner: str) -> list[TakenRun]:
    return store.take(owner, structures=["s"], queues=["default"], limit=1, lease=LEASE)


def _entry(kind: str, n: int) -> LogEntry:
    return LogEntry(kind, "", n, b"body", sha256(f"{kind} {n}".encode()).digest())


def queue_agent(
    system: StoreSystem, runs: list[str], workers: list[str], limits: dict[str, int], **options: Any
) -> Agent:
    """Return an agent for a queue. `limits` says how often a crash, tick, signal, cancel, sleep and wait may happen."""
    queue = Queue(system)
    context = {f"{worker} name": 1 for worker in workers}
    world = World(api=queue, systems={"store": system}, context=context)
    actions = [
        action
        for run in runs
        for action in (
            Action(f"submit {run}", lambda world, run=run: queue.submit(run), max_calls=1),
            *_limited(
                "signal", run, limits, lambda world, run=run: queue.store.send(run, "m", "signal", b"")
            ),
            *_limited("cancel", run, limits, lambda world, run=run: queue.cancel(run)),
        )
    ]
    for worker in workers:
        actions += _actions_of(queue, worker, limits)
    actions.append(Action("tick", lambda world: queue.tick(), max_calls=limits["tick"]))
    rules = [
        Invariant("committed once", lambda world: all(_is_once(queue, world, run) for run in runs)),
        Invariant("a renewed lease keeps its run", lambda world: _keeps(queue, world, workers)),
        Invariant("nothing is lost", lambda world: _is_drained(queue, system)),
    ]
    return Agent(world, actions, rules, progress=False, **options)


def _limited(what: str, run: str, limits: dict[str, int], do: Any) -> list[Action]:
    """A client repeats what it does not know to have worked."""
    if not limits.get(what):
        return []
    return [Action(f"{what} {run}", do, requires=[f"submit {run}"], max_calls=limits[what])]


def _actions_of(queue: Queue, worker: str, limits: dict[str, int]) -> list[Action]:
    def has(world: World) -> Held | None:
        return queue.held(world, worker)

    def can_end(world: World, *, is_cancelled: bool) -> bool:
        held = has(world)
        return held is not None and held.cancelled == is_cancelled and (is_cancelled or held.done == STEPS)

    found = [
        Action(f"{worker} takes", lambda world: queue.take(world, worker), lambda world: has(world) is None),
        Action(
            f"{worker} commits",
            lambda world: queue.commit(world, worker),
            lambda world: (held := has(world)) is not None and held.done < STEPS,
        ),
        Action(
            f"{worker} receives",
            lambda world: queue.receive(world, worker),
            lambda world: (held := has(world)) is not None and queue.store.inbox(held.run),
        ),
        Action(
            f"{worker} completes",
            lambda world: queue.end(world, worker, "completed"),
            lambda world: can_end(world, is_cancelled=False),
        ),
        Action(
            f"{worker} ends what was cancelled",
            lambda world: queue.end(world, worker, "cancelled"),
            lambda world: can_end(world, is_cancelled=True),
        ),
        Action(f"{worker} renews", lambda world: queue.renew(world, worker), lambda world: has(world)),
    ]
    if limits.get("crash"):
        crash = Action(f"{worker} crashes", lambda world: queue.restart(world, worker), has)
        found.append(msgspec.structs.replace(crash, max_calls=limits["crash"]))
    if limits.get("sleep"):

        def sleep(world: World) -> None:
            queue.end(world, worker, "sleeping", due=queue.system.clock.time() + TICK)

        found.append(Action(f"{worker} lets it sleep", sleep, has, max_calls=limits["sleep"]))
    if limits.get("wait"):

        def waits(world: World) -> bool:  # as far as the worker knows: it has read the inbox before
            held = has(world)
            return held is not None and not held.signalled and not held.cancelled

        def wait(world: World) -> None:
            queue.end(world, worker, "waiting")

        found.append(Action(f"{worker} lets it wait for a signal", wait, waits, max_calls=limits["wait"]))
    return found


def _is_once(queue: Queue, world: World, run: str) -> bool:
    commits, ends = world.context.get(f"commits of {run}", 0), world.context.get(f"ends of {run}", 0)
    if not commits and not ends:
        return True
    steps = [entry.n for entry in queue.store.entries(run) if entry.kind == "step"]
    return steps == list(range(1, commits + 1)) and ends <= 1


def _keeps(queue: Queue, world: World, workers: list[str]) -> bool:
    """A worker whose lease has not ended owns what it has taken."""
    alive = {each.owner: each.expires_in > 0 and each.is_alive for each in queue.store.workers()}
    for worker in workers:
        held, name = queue.held(world, worker), queue.name(world, worker)
        if held is None or not alive.get(name):
            continue
        owner = queue.store.owner(held.run)
        if owner is None or owner.name != name:
            return False
    return True


def _is_drained(queue: Queue, system: StoreSystem) -> bool | str:
    """Let one worker end everything, once all leases have ended; then go back."""
    token, store = system.checkpoint("drain"), queue.store
    try:
        system.clock.ticks += 100
        while taken := _take(store, "drain"):
            run, fence = taken[0].row.run_id, taken[0].fence
            names = {entry.name for entry in store.entries(run)}
            missing = [_entry("step", n) for n in range(1, STEPS + 1) if ("step", "", n) not in names]
            messages = store.inbox(run)
            received = [_entry(each.kind, each.n) for each in messages]
            store.append(run, [*missing, *received], fence, received=[each.n for each in messages])
            is_cancelled = any(kind == "cancel" for kind, *_ in [*names, *(each.name for each in received)])
            status = "cancelled" if is_cancelled else "completed"
            store.update(run, status=status, updated=0.0, error=None, fence=fence, release=True)
        left = [row.run_id for row in store.rows() if row.status not in ENDED]
        left = [run for run in left if store.row(run).status != "waiting" or store.inbox(run)]
        return not left or f"nobody can end {left}"
    finally:
        system.rollback(token)
        system.release(token)


@contextmanager
def memory_system() -> Iterator[StoreSystem]:
    clock = ModelClock()
    yield MemorySystem(SimulatedDisk(clock), clock)


@contextmanager
def file_system(folder: Path) -> Iterator[StoreSystem]:
    clock = ModelClock()
    with (
        closing(SQLiteStore(folder / "queue.db", synchronous="off", clock=clock)) as store,
        closing(FileSystem(store, clock)) as system,
    ):
        yield system
