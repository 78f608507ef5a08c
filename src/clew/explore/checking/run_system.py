"""A run of a graph as a system: every schedule and every fault of it can be reached, and taken back.

Its choices are the machine's own: which item completes next, which one fails or takes too long, which retry comes due,
what a person answers; where the process dies, and that another one goes on with what is on the disk.

====================================  =====================================================================
choice                                what happens
====================================  =====================================================================
``begin``                             a process begins the run; a choice only where the store may fail at it
``complete PATH``                     the item is executed and completes
``retry PATH``                        its wait between two attempts is over
``answer PATH: VALUE``                a person answers, and the run is resumed
``resume``                            another process goes on with the run
``fail PATH``                         the item fails, and was not executed (a fault)
``time out PATH``                     the item was executed, and takes too long (a fault); or a subgraph with a
                                      timeout of its own takes too long as a whole
``time out PATH in call N``           its Nth call was made, and the answer never came (a fault)
``crash``                             the process dies while nothing is executed (a fault)
``crash in CHOICE at POINT N``        it dies in the middle of a choice, at a point of the code (a fault)
``store HOW in CHOICE at OP N``       an operation of the store in the middle of a choice fails (a fault): it is
                                      "refused", or it is carried out and "unconfirmed"
====================================  =====================================================================

At most `max_faults` faults happen on a path. Where a run has failed because of one, `resume` is offered.

Rules:

- A token is a reference: the disk's image, a copy of the machine, and what really happened outside.
- Observing shows what is on the disk by digest, what is under way, what was done outside and which faults there were.
  Nothing of it depends on time, on the order of unrelated completions, or on the hash seed.
- Choices that cannot differ are offered once (``clew.explore.checking.partial_order``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from clew.error_text import line_of
from clew.errors import DefinitionError, StoreError
from clew.explore.checking.effects import Effect, counted, is_kept, told
from clew.explore.checking.faults import (
    CallTimedOut,
    CrashFault,
    CrashPointWatch,
    FaultPlan,
    checked_answers,
    checked_faults,
    fault_of,
    inner_faults,
    text_of,
)
from clew.explore.checking.faulty_store import FaultyStore
from clew.explore.checking.partial_order import PartialOrderReduction
from clew.explore.checking.simulated_disk import DiskImage, SimulatedDisk
from clew.explore.checking.simulated_process import (
    RUN,
    FrozenClock,
    ProcessSnapshot,
    SimulatedProcess,
    errors_of,
)
from clew.explore.model.observation import Observation
from clew.explore.systems.version_tokens import VersionTokens
from clew.graph import Graph
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.reader import RunReader, StoredRun
from clew.state import GraphState, encode

Status = Literal["new", "running", "dead", "completed", "failed", "waiting"]


class RunSnapshot(msgspec.Struct, frozen=True):
    """Everything about a run under check, at one moment."""

    image: DiskImage
    life: ProcessSnapshot | None
    status: Status
    effects: tuple[Effect, ...]
    faults: tuple[str, ...]
    depth: int


class RunSystem:
    """A graph that runs, as a system of a `World`.

    Args:
        graph: What runs.
        values: What it is given.
        faults: Which kinds may happen: "crash", "fail", "timeout", "store".
        max_faults: How many on one path.
        answers: What people may answer, by the path or the node of the question; without, True and False.
        touches: For each node, the names of the systems that it uses; those not named use all of `systems`.
        systems: The names of the other systems of the world.
        reduce: Offer orders that cannot end differently once. Only for those who look at nothing but ends.
        max_run_steps: After so many steps a run fails, as one that goes round for ever.
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
        touches: Mapping[str, Iterable[str]] | None = None,
        systems: Iterable[str] = (),
        reduce: bool = False,
        max_run_steps: int = 1_000,
        **options: Any,
    ) -> None:
        self.faults = checked_faults(faults)
        if type(max_faults) is not int or max_faults < 0:
            raise DefinitionError(f"max_faults is a number from 0, not {max_faults!r}")
        self.graph = graph
        self.values = dict(values or {})
        self.max_faults = max_faults
        self._answers = checked_answers(answers, graph)
        self._options = {"max_steps": max_run_steps, **options}
        self._commuting = PartialOrderReduction(graph, self.values, touches or {}, tuple(systems))
        self._reduce = reduce
        self._versions: VersionTokens[RunSnapshot] = VersionTokens()
        self._now: RunSnapshot | None = None  # until something happens, the moment that the world is at
        self.disk = SimulatedDisk(FrozenClock())
        self._line = FaultyStore(self.disk)  # of the process, to the disk
        self.status: Status = "new"
        self._effects: list[Effect] = []  # in the order in which they happened
        self.depth = 0  # choices so far
        self.had: list[str] = []  # the faults so far, by name: which came first is not told
        self._process: SimulatedProcess | None = None
        self._death: CrashFault | None = None  # while a process is about to die
        self.is_wary = False  # while a fault is still to come, every order is offered
        self.has_stumbled = False  # something has failed by itself, here or where this was taken back
        self._raised = 0  # bodies that raised in the last trial
        self._is_fault = False  # the last choice is one
        self.story: list[str] = []  # what the last choice did
        if "store" not in self.faults:  # else that is a choice: it may fail
            self._begin()

    def _begin(self) -> None:
        process = self._new_process()
        process.begin(self.values)
        self.status = "running"
        self._settle()

    def _new_process(self) -> SimulatedProcess:
        self._process = SimulatedProcess(self.graph, self._line, self._options, self._effect)
        self._process.on_raise = self._on_raise
        return self._process

    def _on_raise(self, path: str, error: BaseException) -> None:
        self._raised += 1
        self.has_stumbled = self.has_stumbled or not (self._is_fault or isinstance(error, Asking))
        if not isinstance(error, Asking | CallTimedOut | StoreError):  # else that is told elsewhere
            self.story.append(f"{path} raises {line_of(error)}")

    def _effect(self, effect: Effect, occurrence: int) -> None:
        if self._death is not None:
            self._death.check()
        earlier = [
            e
            for e in self._effects
            if (e.path, e.within, e.number) == (effect.path, effect.within, effect.number)
        ]
        if is_kept(effect, occurrence, self._stored().whole()):
            effect = msgspec.structs.replace(effect, again=True)
        self._effects.append(effect)
        self.story.append(told(effect, len(earlier)))

    # -- what the explorer asks --------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """What is on the disk, what is under way, and what happened outside."""
        data = self.sight()
        return Observation("run", data, {"story": list(self.story)}, sha256(encode(data)).digest())

    def sight(self) -> dict[str, Any]:
        """What tells this moment from others."""
        process = self._process
        return {
            "status": self.status,
            "disk": [name[:3] if name[0] == "retry" else name for name in self.disk.names(RUN)],
            "running": [] if process is None else sorted([p, i.attempt] for p, i in process.running.items()),
            "waiting": [] if process is None else process.waiting,
            "failing": errors_of(process),
            "effects": counted(self._effects),
            "faults": self.had,
        }

    def checkpoint(self, name: str) -> int:
        """A token for this moment."""
        return self._versions.keep(self._moment())

    def _moment(self) -> RunSnapshot:
        if self._now is None:
            life = None if self._process is None else self._process.write_down()
            effects, faults = tuple(self._effects), tuple(self.had)
            self._now = RunSnapshot(self.disk.image(), life, self.status, effects, faults, self.depth)
        return self._now

    def rollback(self, token: int) -> None:
        """Be as at that moment."""
        moment = self._versions[token]
        self.disk.load(moment.image)
        self.status, self.depth = moment.status, moment.depth
        self._effects, self.had = list(moment.effects), list(moment.faults)
        self.story = []
        if moment.life is None:
            self._process = None
        else:
            self._new_process().bring_back(moment.life)
        self._now = moment

    def is_valid(self, token: int) -> bool:
        """Whether there is such a token."""
        return token in self._versions

    def release(self, token: int) -> None:
        """Forget a token."""
        self._versions.drop(token)

    # -- what the run shows ------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether the run is over: it has completed, or failed and nobody would resume it."""
        return self.status == "completed" or (self.status == "failed" and not self.choices())

    @property
    def digest(self) -> str:
        """The digest of the last committed state."""
        steps = [name for name in self.disk.names(RUN)[1:] if name[0] == "step" and not name[1]]
        last: bytes = steps[-1][3] if steps else b""
        return last.hex()

    @property
    def state(self) -> GraphState:
        """The last committed state; an empty one before there is any."""
        return self._stored().state() if self.disk.has(RUN) else GraphState()

    @property
    def error(self) -> BaseException | None:
        """Why the run has failed, as it is on the disk."""
        return self._stored().row.error if self.disk.has(RUN) else None

    def _stored(self) -> StoredRun:
        return RunReader(self.graph, self.disk, str(self._options.get("on_conflict", "error"))).open(RUN)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What happened outside so far, by path and number: which of two came first is not told."""
        return tuple(sorted(self._effects, key=lambda e: (e.path, e.number, e.name, e.request, e.again)))

    @property
    def answered(self) -> dict[str, str]:
        """What people have answered, and is kept: by the path of the question, as text."""
        if not self.disk.has(RUN):
            return {}
        answers = self._stored().whole().answers
        return {path: text_of(list(given.values())) for path, given in answers.items()}

    @property
    def running(self) -> list[str]:
        """The items that were started and have not completed."""
        return [] if self._process is None else sorted(self._process.running)

    # -- choices -------------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """What may happen next without a fault, in a fixed order."""
        if not self.disk.has(RUN):
            return ["begin"]
        if self.status == "failed":
            return ["resume"] if self.had and not self._is_hopeless() else []
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
        """The choices that have to be tried: all, or fewer where orders cannot end differently."""
        choices, process = self.choices(), self._process
        if not self._reduce or process is None:
            return choices
        may_fail = len(self.had) < self.max_faults and bool(self.faults & {"fail", "timeout"})
        if may_fail and not self._is_calm(process):
            return choices
        running = [choice.removeprefix("complete ") for choice in choices if choice.startswith("complete ")]
        items = [(path, process.running[path].order[0]) for path in running]
        first = self._commuting.first(items, is_calm=may_fail)
        others = set(running) - {first} if first is not None else self._commuting.others(items)
        if not others:
            return choices
        for path in running:
            tried = trial(f"complete {path}")
            if tried.fails or (may_fail and tried.raises):
                return choices  # a failure ends what is under way, so its place matters
        return [choice for choice in choices if choice.removeprefix("complete ") not in others]

    def _is_calm(self, process: SimulatedProcess) -> bool:
        """Whether nothing has gone wrong in this process, and one thing only may: see `commuting`."""
        if self.is_wary or len(self.had) + 1 != self.max_faults or process.waiting or errors_of(process):
            return False
        if "timeout" in self.faults and process.bounded:
            return False
        return not any(item.attempt or any(item.strand.epoch) for item in process.running.values())

    def _is_hopeless(self) -> bool:
        """Whether the failure was there before: resuming again would end the same way."""
        resumed = [name for name in self.disk.names(RUN)[1:] if name[0] == "resume"]
        return len(resumed) > len(self.had)

    def fault_choices(self, choices: Iterable[str], trial: Callable[[str], FaultPlan]) -> list[str]:
        """The faults that may happen now, given what a choice would come by if it were made."""
        if len(self.had) >= self.max_faults:
            return []
        found: list[str] = []
        for choice in choices:
            verb, _, path = choice.partition(" ")
            if verb == "complete":
                found += [f"fail {path}"] if "fail" in self.faults else []
                found += [f"time out {path}"] if "timeout" in self.faults else []
        if "timeout" in self.faults and self._process is not None:
            found += [f"time out {path}" for path in sorted(self._process.bounded)]
        if "crash" in self.faults and self.status == "running":
            found.append("crash")
        if self.faults & {"crash", "timeout", "store"}:
            for choice in choices:
                found += inner_faults(self.faults, choice, trial(choice))
        return found

    def _open_questions(self) -> list[tuple[str, list[Any]]]:
        found = []
        for question in self._stored().log().questions:
            node = question.path.rpartition("/")[2].partition("#")[0]
            values = self._answers.get(question.path, self._answers.get(node, [True, False]))
            found.append((question.path, values))
        return found

    # -- making them -----------------------------------------------------------------------------------------------

    def choose(self, choice: str) -> None:
        """Let something happen, by its name."""
        self._now = None
        self.story = []
        self.depth += 1
        fault = fault_of(choice)
        self._is_fault = fault is not None
        if fault is not None:
            self.had = sorted([*self.had, fault])
        if choice == "crash":
            self._die("the process dies")
        elif choice.startswith("crash in "):
            inner, _, at = choice.removeprefix("crash in ").rpartition(" at ")
            point, _, number = at.rpartition(" ")
            self._crash_in(inner, point, int(number))
        elif choice.startswith("store "):
            how, _, rest = choice.removeprefix("store ").partition(" in ")
            inner, _, at = rest.rpartition(" at ")
            operation, _, number = at.rpartition(" ")
            self._store_in(inner, how, operation, int(number))
        else:
            had = len(errors_of(self._process))
            self._make(choice)
            if not had and (self.status == "failed" or errors_of(self._process)) and not self._is_fault:
                self.has_stumbled = True

    def _make(self, choice: str) -> None:
        process = self._process
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
            self.story.append(f"somebody answers {text} to {path}")
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
        left = int(number)

        def reached(point: str) -> None:
            nonlocal left
            if point == "after-call":
                left -= 1
                if not left:
                    raise CallTimedOut(f"the answer to call {number} of {path} never came")

        with CrashPointWatch(reached):
            process.complete(path)

    def _resume(self, answers: Mapping[str, Any]) -> None:
        self.story.append(
            "another process takes the run over" if self.status == "dead" else "the run is resumed"
        )
        process = self._new_process()
        self.status = "running"
        process.resume(answers)
        self._settle()

    def _settle(self) -> None:
        """If nothing is left to do the process writes that down and ends."""
        process = self._process
        if process is not None and process.has_ended:
            status = process.session.status()
            process.end()
            self._process = None
            self.status = status  # type: ignore[assignment]
            asked = self._stored().log().questions if status == "waiting" else ()
            told = "; ".join(f"{each.path} asks {each.question!r}" for each in asked)
            self.story.append(f"the run is {status}: {told}" if told else f"the run is {status}")

    def _die(self, told: str) -> None:
        self._process = None
        self.disk.forget_owners()
        self.status = "dead"
        self.story.append(told)

    def _crash_in(self, choice: str, at: str, number: int) -> None:
        self._death = death = CrashFault(at, number)
        self._line.on_operation = death.check
        try:
            with CrashPointWatch(death.reached):
                self._make(choice)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a group around it, or what a body made of it
            if not death.has_come:
                raise
        finally:
            self._death = self._line.on_operation = None
        if death.has_come:
            self._die(f"the process dies in the middle of it, {at.replace('-', ' ')} {number}")

    def _store_in(self, choice: str, how: str, at: str, number: int) -> None:
        left = number

        def reached(operation: str) -> str | None:
            nonlocal left
            left -= operation == at
            return how if operation == at and not left else None

        self._line.on_operation = reached
        try:
            self._make(choice)
        except StoreError as error:
            self._die(f"the store fails, and the process gives up: {error}")
        finally:
            self._line.on_operation = None

    def try_out(self, choice: str) -> FaultPlan:
        """Make a choice and say what it came by; whoever asks takes the world back afterwards."""
        points: list[str] = []
        operations: list[str] = []
        self._now = None
        self.story = []
        self._is_fault, self._raised = False, 0
        had = len(errors_of(self._process))
        self._line.on_operation = operations.append  # which says None: none of them fails
        try:
            with CrashPointWatch(points.append):
                self._make(choice)
        except Exception:  # it is told where the choice is made
            return FaultPlan(tuple(points), tuple(operations), fails=True)
        finally:
            self._line.on_operation = None
        fails = self.status == "failed" or len(errors_of(self._process)) > had
        self.has_stumbled = self.has_stumbled or (fails and not had)
        return FaultPlan(tuple(points), tuple(operations), fails, self._raised > 0)
