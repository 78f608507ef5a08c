"""A run of a graph as a system of a `World`: every schedule and every fault can be reached and rolled back.

====================================  =====================================================================
choice                                what happens
====================================  =====================================================================
``begin``                             a process starts the run; a choice only if the store can fail
``complete PATH``                     the item is executed and completes
``retry PATH``                        the wait before the item's next attempt ends
``answer PATH: VALUE``                a question is answered, and the run is resumed
``resume``                            another process resumes the run
``fail PATH``                         fault: the item fails without being executed
``time out PATH``                     fault: the item is executed and times out; or a subgraph with a timeout
                                      times out as a whole
``time out PATH in call N``           fault: the item's Nth call is made, and its response is lost
``crash``                             fault: the process dies between two executions
``crash in CHOICE at POINT N``        fault: the process dies inside a choice, at the Nth crash point of a name
``store HOW in CHOICE at OP N``       fault: the Nth operation of a name inside a choice fails; it is "refused",
                                      or carried out and "unconfirmed"
====================================  =====================================================================

Rules:

- A path has at most `max_faults` faults. A run that failed because of a fault can be resumed.
- A token refers to a `RunSnapshot`: the disk's image, a copy of the machine, and the effects so far.
- An observation shows the log by digest, the running items, the effects and the faults. It does not depend on time, on
  the order of unrelated completions, or on the hash seed.
- Choices that cannot lead to different ends are offered once (`clew.explore.checking.partial_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, Unpack

import msgspec

from clew.display import brief
from clew.error_text import line_of
from clew.errors import DefinitionError, StoreError
from clew.explore.checking.answers import PossibleAnswers
from clew.explore.checking.child_schedules import ChildSchedule, in_every_order, scheduled
from clew.explore.checking.effects import Effect, count_effects, describe, is_recorded
from clew.explore.checking.faults import (
    CallTimedOut,
    CrashFault,
    CrashPointWatch,
    FaultPlan,
    checked_faults,
    failing_operation,
    fault_of,
    inner_faults,
    losing_response,
    text_of,
)
from clew.explore.checking.faulty_store import FaultyStore
from clew.explore.checking.partial_order import PartialOrderReduction
from clew.explore.checking.simulated_children import SimulatedChildren
from clew.explore.checking.simulated_disk import DiskImage, SimulatedDisk
from clew.explore.checking.simulated_process import (
    RUN,
    FrozenClock,
    ProcessSnapshot,
    SimulatedProcess,
    errors_of,
    opened,
)
from clew.explore.model.system import Observation
from clew.explore.systems.version_tokens import TokenSystem
from clew.graph import Graph
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.settings import ScheduleOptions
from clew.state import GraphState, encode

Status = Literal["new", "running", "dead", "completed", "failed", "sleeping", "waiting"]


class RunSnapshot(msgspec.Struct, frozen=True):
    """The complete state of a checked run."""

    image: DiskImage
    process: ProcessSnapshot | None
    status: Status
    effects: tuple[Effect, ...]
    faults: tuple[str, ...]
    depth: int


class RunSystem(TokenSystem[RunSnapshot]):
    """A run of a graph, as a system of a `World`.

    Args:
        graph: The graph to run.
        values: The input values.
        faults: The faults that can happen: "crash", "fail", "timeout", "store".
        max_faults: The maximum number of faults on one path.
        answers: The possible answers, by path or node (see `PossibleAnswers`). [default: True and False]
        node_systems: For each node, the names of the systems that it uses. Other nodes use all of `systems`.
        systems: The names of the other systems of the world.
        partial_order_reduction: Offer equivalent orders once. Use it only if every invariant checks ended runs.
        max_run_steps: A run fails after this number of steps.
        options: Options of an `Engine`, such as `on_error` or `default_node_timeout`.
    """

    ordering: Literal["any"] = "any"

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, Any] | None = None,
        *,
        faults: Iterable[str] = ("crash", "fail", "timeout"),
        max_faults: int = 1,
        answers: Mapping[str, Iterable[Any]] | None = None,
        node_systems: Mapping[str, Iterable[str]] | None = None,
        systems: Iterable[str] = (),
        partial_order_reduction: bool = False,
        max_run_steps: int = 1_000,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        super().__init__()
        self.faults = checked_faults(faults)
        if type(max_faults) is not int or max_faults < 0:
            raise DefinitionError(f"max_faults: expected an int >= 0, got {max_faults!r}")
        self.graph = graph
        self.values = dict(values or {})
        self.max_faults = max_faults
        self.answers = PossibleAnswers(answers, graph)
        self._options = {"max_steps": max_run_steps, **options}
        self._reduction = PartialOrderReduction(graph, self.values, node_systems or {}, tuple(systems))
        self._reduces = partial_order_reduction
        self._now: RunSnapshot | None = None  # of the current state; None after a choice
        self.disk = SimulatedDisk(FrozenClock())
        self._store: Any = FaultyStore(self.disk)  # the process uses this one
        self.status: Status = "new"
        self._effects: list[Effect] = []  # in the order of time
        self.depth = 0  # number of choices so far
        self.had: list[str] = []  # the faults so far, sorted
        self._process: SimulatedProcess | None = None
        self._crash: CrashFault | None = None  # while a choice with a crash is made
        self.keeps_fault_orders = False  # do not reduce while a fault can still happen
        self.has_failed_unprompted = False  # an item failed without a fault; a rollback keeps this
        self._schedule = ChildSchedule()  # of the children in the last choice
        self._raised = 0  # number of bodies that raised in the last trial
        self._is_fault = False  # whether the last choice is a fault
        self.narrative: list[str] = []  # what happened in the last choice
        if "store" not in self.faults:  # otherwise starting the run is a choice, because it can fail
            self._begin()

    def _begin(self) -> None:
        process = self._new_process()
        process.begin(self.values)
        self.status = "running"
        self._settle()

    def _new_process(self) -> SimulatedProcess:
        self._process = SimulatedProcess(*opened(self.graph, self._store, self._options), self._effect)
        self._process.on_raise = self._on_raise
        self._process.start_child = self._start_child
        return self._process

    def _start_child(self, *call: Any) -> Any:
        return SimulatedChildren(self._store, self._schedule, self._effect, self._on_raise).start(*call)

    def _on_raise(self, path: str, error: BaseException) -> None:
        self._raised += 1
        self.has_failed_unprompted = self.has_failed_unprompted or not (
            self._is_fault or isinstance(error, Asking)
        )
        if not isinstance(error, Asking | CallTimedOut | StoreError):  # these are reported elsewhere
            self.narrative.append(f"{path} raises {line_of(error)}")

    def _effect(self, effect: Effect, occurrence: int, run_id: str = RUN, place: str = "") -> None:
        if self._crash is not None:
            self._crash.check()
        is_again = is_recorded(effect, occurrence, self._stored(run_id).whole())
        effect = msgspec.structs.replace(effect, path=place + effect.path, again=is_again)
        earlier = [
            e
            for e in self._effects
            if (e.path, e.within, e.number) == (effect.path, effect.within, effect.number)
        ]
        self._effects.append(effect)
        self.narrative.append(describe(effect, len(earlier)))

    # -- the system --------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Return the log, the running items, the effects and the faults."""
        process = self._process
        data = {
            "status": self.status,
            "disk": self.disk.content(),
            "running": [] if process is None else sorted([p, i.attempt] for p, i in process.running.items()),
            "waiting": [] if process is None else process.waiting,
            "failing": errors_of(process),
            "effects": count_effects(self._effects),
            "faults": self.had,
        }
        return Observation("run", data, {"narrative": list(self.narrative)}, sha256(encode(data)).digest())

    def checkpoint(self, name: str) -> int:
        """Return a token for the current state."""
        return self._versions.keep(self._snapshot())

    def _snapshot(self) -> RunSnapshot:
        if self._now is None:
            process = None if self._process is None else self._process.snapshot()
            effects, faults = tuple(self._effects), tuple(self.had)
            self._now = RunSnapshot(self.disk.image(), process, self.status, effects, faults, self.depth)
        return self._now

    def rollback(self, token: int) -> None:
        """Restore the state of a token."""
        snapshot = self._versions[token]
        self.disk.load(snapshot.image)
        self.status, self.depth = snapshot.status, snapshot.depth
        self._effects, self.had = list(snapshot.effects), list(snapshot.faults)
        self.narrative = []
        if snapshot.process is None:
            self._process = None
        else:
            self._new_process().restore(snapshot.process)
        self._now = snapshot

    # -- the run -------------------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Return whether the run has completed, or has failed and is not resumed again."""
        return self.status == "completed" or (self.status == "failed" and not self.choices())

    @property
    def digest(self) -> str:
        """Return the digest of the last committed state."""
        steps = [name for name in self.disk.names(RUN)[1:] if name[0] == "step" and not name[1]]
        last: bytes = steps[-1][3] if steps else b""
        return last.hex()

    @property
    def state(self) -> GraphState:
        """Return the last committed state, or an empty one."""
        return self._stored().state() if self.disk.has(RUN) else GraphState()

    @property
    def error(self) -> BaseException | None:
        """Return the stored error of a failed run."""
        return self._stored().row.error if self.disk.has(RUN) else None

    def _stored(self, run_id: str = RUN) -> StoredRun:
        return RunReader(self.graph, self.disk, str(self._options.get("on_conflict", "error"))).open(run_id)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Return the effects so far, sorted by path and number, not by time."""
        return tuple(sorted(self._effects, key=lambda e: (e.path, e.number, e.name, e.request, e.again)))

    @property
    def answered(self) -> dict[str, str]:
        """Return the stored answers as text, by the path of the question."""
        if not self.disk.has(RUN):
            return {}
        answers = self._stored().whole().answers
        return {path: text_of(list(given.values())) for path, given in answers.items()}

    @property
    def running(self) -> list[str]:
        """Return the paths of the items that have started and not completed."""
        return [] if self._process is None else sorted(self._process.running)

    # -- choices -------------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """Return the possible choices that are not faults, in a fixed order."""
        if not self.disk.has(RUN):
            return ["begin"]
        if self.status == "failed":
            return ["resume"] if self.had and not self._fails_again() else []
        asked = self._open_questions() if "waiting" in (self.status, self.disk.row(RUN).status) else []
        if asked and self.status in ("waiting", "dead"):
            return [f"answer {path}: {text_of(value)}" for path, values in asked for value in values]
        if self.status == "dead":
            return ["resume"]
        if self._process is None or self.status == "completed":
            return []
        running = sorted(self._process.running, key=lambda path: self._process.running[path].order)  # type: ignore[union-attr]
        return [f"complete {path}" for path in running] + [f"retry {path}" for path in self._process.waiting]

    def offered(self, trial: Callable[[str], FaultPlan]) -> list[str]:
        """Return the choices to try: all, or fewer if some orders cannot end differently. Children try every order."""
        running = {} if self._process is None else self._process.running
        return in_every_order(self._reduced(trial), running, trial)

    def _reduced(self, trial: Callable[[str], FaultPlan]) -> list[str]:
        choices, process = self.choices(), self._process
        if not self._reduces or process is None:
            return choices
        may_fail = len(self.had) < self.max_faults and bool(self.faults & {"fail", "timeout"})
        if may_fail and not self._has_one_clean_fault_left(process):
            return choices
        running = [choice.removeprefix("complete ") for choice in choices if choice.startswith("complete ")]
        items = [(path, process.running[path].order[0]) for path in running]
        first = self._reduction.first(items, no_systems_before=may_fail)
        others = set(running) - {first} if first is not None else self._reduction.deferrable(items)
        if not others:
            return choices
        for path in running:
            tried = trial(f"complete {path}")
            if tried.fails or tried.decisions or (may_fail and tried.raises):
                return choices  # a failure ends running work, so its place matters
        return [choice for choice in choices if choice.removeprefix("complete ") not in others]

    def _has_one_clean_fault_left(self, process: SimulatedProcess) -> bool:
        """Return whether nothing has failed in this process, and one fault can still happen (see `partial_order`)."""
        if (
            self.keeps_fault_orders
            or len(self.had) + 1 != self.max_faults
            or process.waiting
            or errors_of(process)
        ):
            return False
        if "timeout" in self.faults and process.bounded:
            return False
        return not any(item.attempt or any(item.frame.epoch) for item in process.running.values())

    def _fails_again(self) -> bool:
        """Return whether the run has failed more often than it had faults; resuming again would end the same way."""
        resumed = [name for name in self.disk.names(RUN)[1:] if name[0] == "resume"]
        return len(resumed) > len(self.had)

    def fault_choices(self, choices: Iterable[str], trial: Callable[[str], FaultPlan]) -> list[str]:
        """Return the possible faults; `trial` returns the points that a choice reaches."""
        if len(self.had) >= self.max_faults:
            return []
        found: list[str] = []
        for choice in choices:
            verb, _, path = choice.partition(" ")
            if verb == "complete":
                found += [f"fail {path}"] if "fail" in self.faults and " in order " not in path else []
                found += [f"time out {path}"] if "timeout" in self.faults else []
        if "timeout" in self.faults and self._process is not None:
            found += [f"time out {path}" for path in sorted(self._process.bounded)]
        if "crash" in self.faults and self.status == "running":
            found.append("crash")
        for choice in choices if self.faults else ():
            found += inner_faults(self.faults, choice, trial(choice))
        return found

    def _open_questions(self) -> list[tuple[str, list[Any]]]:
        questions = self._stored().log().questions
        return [(question.path, self.answers.of(question.path)) for question in questions]

    # -- making choices --------------------------------------------------------------------------------------------

    def choose(self, choice: str) -> None:
        """Make a choice."""
        self._now = None
        self.narrative = []
        self.depth += 1
        fault = fault_of(choice)
        self._is_fault = fault is not None
        if fault is not None:
            self.had = sorted([*self.had, fault])
        if choice == "crash":
            self._kill("the process dies")
        elif choice.startswith("crash in "):
            inner, _, at = choice.removeprefix("crash in ").rpartition(" at ")
            point, _, number = at.rpartition(" ")
            self._crash_in(inner, point, int(number))
        elif choice.startswith("store "):
            how, _, rest = choice.removeprefix("store ").partition(" in ")
            inner, _, at = rest.rpartition(" at ")
            operation, _, number = at.rpartition(" ")
            self._fail_store_in(inner, how, operation, int(number))
        else:
            had = len(errors_of(self._process))
            self._make(choice)
            if not had and (self.status == "failed" or errors_of(self._process)) and not self._is_fault:
                self.has_failed_unprompted = True

    def _make(self, choice: str) -> None:
        process = self._process
        choice, self._schedule = scheduled(choice)
        verb, _, rest = choice.partition(" ")
        if verb == "begin":
            self._begin()
        elif verb == "resume":
            self._resume({})
        elif verb == "answer":
            path, _, text = rest.partition(": ")
            value = next(
                v for p, values in self._open_questions() if p == path for v in values if text_of(v) == text
            )
            self.narrative.append(f"the answer to {path} is {text}")
            self._resume({path: value})
        else:
            assert process is not None, choice
            if verb == "complete":
                process.complete(rest)
            elif verb == "retry":
                process.wake(rest)
            elif verb == "fail":
                process.fail(rest)
            else:
                self._time_out(process, rest.removeprefix("out "))
            self._settle()

    def _time_out(self, process: SimulatedProcess, rest: str) -> None:
        path, _, number = rest.partition(" in call ")
        if not number:
            process.time_out(path)
            return
        with losing_response(int(number), path):
            process.complete(path)

    def _resume(self, answers: Mapping[str, Any]) -> None:
        self.narrative.append(
            "another process takes the run over" if self.status == "dead" else "the run is resumed"
        )
        process = self._new_process()
        self.status = "running"
        process.resume(answers)
        self._settle()

    def _settle(self) -> None:
        """End the process if it has nothing left to do."""
        process = self._process
        if process is not None and process.has_ended:
            status = process.session.status()
            process.end()
            self._process = None
            self.status = status  # type: ignore[assignment]
            asked = self._stored().log().questions if status == "waiting" else ()
            questions = "; ".join(f"{each.path} asks {brief(each.question)}" for each in asked)
            self.narrative.append(f"the run is {status}: {questions}" if asked else f"the run is {status}")

    def _kill(self, message: str) -> None:
        self._process = None
        self.disk.forget_owners()
        self.status = "dead"
        self.narrative.append(message)

    def _crash_in(self, choice: str, at: str, number: int) -> None:
        self._crash = crash = CrashFault(at, number)
        self._store.on_operation = crash.check
        try:
            with CrashPointWatch(crash.reached):
                self._make(choice)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # an exception group, or an exception that a body raised instead
            if not crash.has_happened:
                raise
        finally:
            self._crash = self._store.on_operation = None
        if crash.has_happened:
            self._kill(f"the process dies at crash point {at} {number}")

    def _fail_store_in(self, choice: str, how: str, at: str, number: int) -> None:
        self._store.on_operation = failing_operation(how, at, number)
        try:
            self._make(choice)
        except StoreError as error:
            self._kill(f"the store fails, and the process stops: {error}")
        finally:
            self._store.on_operation = None

    def try_out(self, choice: str) -> FaultPlan:
        """Make a choice, and return the points and operations that it reached; the caller rolls the world back."""
        points: list[str] = []
        operations: list[str] = []
        self._now = None
        self.narrative = []
        self._is_fault, self._raised = False, 0
        had = len(errors_of(self._process))
        self._store.on_operation = operations.append  # append returns None, so no operation fails
        try:
            with CrashPointWatch(points.append):
                self._make(choice)
        except Exception:  # reported when the choice is made
            return FaultPlan(tuple(points), tuple(operations), fails=True)
        finally:
            self._store.on_operation = None
        fails = self.status == "failed" or len(errors_of(self._process)) > had
        self.has_failed_unprompted = self.has_failed_unprompted or (fails and not had)
        raises, inside = self._raised > 0, self._schedule.seen
        return FaultPlan(tuple(points), tuple(operations), fails, raises, *inside)
