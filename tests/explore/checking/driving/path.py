"""A path: one execution of a program with the real engine, in which every nondeterministic event is chosen.

A program starts a run and resumes it until it completes: with the same engine after an error, from another process
after a crash. It uses the real `Engine` with the real blocking or asyncio driver, on the stage of `stage`. The choices
are:

- which job runs next, which result is delivered, and whether time passes;
- at each operation of the store: it succeeds, is refused, is carried out without confirmation, or is followed by a
  crash;
- at each external call: it succeeds, fails, succeeds and loses its response, or is followed by a crash;
- whether the run is cancelled; whether the process exceeds its lease, and another process takes the run over; whether
  the source of a fork or rerun is deleted;
- with durability "async", when the writer writes.

Every choice that is not an ordinary event is a fault. The number of faults on a path is limited. `witness` has the
rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from clew import Engine
from clew.errors import ClewError, InjectedFaultError, RunOwnedError, UnknownRunError
from clew.explore.checking.faulty_store import WRITES
from clew.explore.checking.simulated_disk import SimulatedDisk
from clew.runtime.log.checks.verification import problems
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_log import RunLog
from tests.explore.checking.driving.case import Case
from tests.explore.checking.driving.program import (
    LEASE,
    LOOKS,
    PARENT,
    RUN,
    Checked,
    Died,
    Process,
    Stopped,
)
from tests.explore.checking.driving.stage import Clock, Hands, Job, on_stage
from tests.explore.checking.driving.witness import Witness, Wrong


class Path:
    """One execution, from the beginning through the choices of a path; then it is stopped."""

    def __init__(
        self, case: Case, choices: tuple[str, ...], expected: str = "", *, is_quiet: bool = False
    ) -> None:
        self.case = case
        self._choices = choices
        self._made = 0
        self._expected = expected
        self.options: list[str] = []  # to choose from, where it was stopped
        self.faults = 0
        self.clock = Clock()
        self.disk = case.place() if case.place is not None else SimulatedDisk(self.clock)
        self.line = Checked(self)
        self._gone: type[BaseException] | None = None  # why nothing of the process happens any more
        self.is_quiet = is_quiet  # nothing is chosen: the first of all options happens
        self.timeouts = 0
        self.times = 0  # how often the run was started or gone on with
        self._left_over: list[Job] = []  # jobs of runs that the engine has given up
        self.witness = Witness(self.disk, RUN, self._log, str(case.options.get("durability", "sync")))
        self.witness.has_late = case.splits
        self.witness.is_new = not choices
        self._since = 0  # choices before the last place where paths may meet
        self._meeting: Any = "start"
        self.digest = ""
        self._before: Any = None  # the run that was there
        self.process = Process(self)

    @property
    def hands(self) -> Hands:
        """Of the process that lives now."""
        return self.process.hands

    # -- executing ---------------------------------------------------------------------------------------------

    def execute(self) -> Path:
        """Go as far as the choices say."""
        self.case.outside.path = self
        try:
            with on_stage(self):
                self._prepare()
                self._live()
        except (Stopped, Wrong):
            pass
        except Exception as error:
            self.witness.violation = f"{type(error).__name__}: {error}"
        finally:
            self.process.engine.close()
        return self

    def _prepare(self) -> None:
        """Whatever was there before: another run, which nothing that happens to this one may change."""
        if self.case.begins[0] == "run":
            return
        self._make(PARENT)
        self._before = self._shown(PARENT)

    def _make(self, run_id: str, verb: str = "run", *args: Any, **kwargs: Any) -> None:
        """Have a run in the store that has completed, without a choice."""
        was, self.is_quiet, self.witness.is_new = self.is_quiet, True, False
        self.process(verb, *(args or (self.case.values,)), run_id=run_id, **kwargs)
        self.process.engine.close()
        self.process, self.is_quiet = Process(self), was
        self.witness.reset()
        self.witness.is_new = not self._choices

    def _shown(self, run_id: str) -> Any:
        """All that is in the store of a run, and who has it."""
        return self.disk.row(run_id), self.disk.names(run_id), self.disk.owner(run_id)

    def check(self) -> None:
        """What holds whenever nothing is under way in the store."""
        if self._before is not None and self._shown(PARENT) != self._before:
            self.fail("the run that was there before was changed")
        if self.case.check is not None:
            self.case.check(self)

    def _live(self) -> None:
        for _ in range(10):
            self.times += 1
            try:
                self._go_on()
                status = self._told()
            except Died:
                self._bury()
            except RunOwnedError as error:
                if not self.witness.was_taken_over:
                    self.fail(f"nobody else has the run: {error}")
                self._bury()
            except ClewError as error:
                self._check_owner(error)
                if self._is_orphan(error):
                    return
                if (
                    self.meet("the same engine goes on", "another process goes on")
                    != "the same engine goes on"
                ):
                    self._bury(is_met=True)
            else:
                if status == "completed":
                    self._finish()
                    return
                self.meet("the same engine goes on")
        self.fail("the run does not end")

    def _go_on(self) -> None:
        try:
            self._result = self._run_or_resume()
        finally:
            if self._gone is not None:  # whatever was made of it
                raise self._gone

    def _run_or_resume(self) -> Any:
        if not self.disk.has(RUN):
            verb, given, more = self.case.begins
            return self.process(verb, *(given or (self.case.values,)), run_id=RUN, **more)
        given = {}
        if self.case.answers:
            given = {asked.path: self.case.answers[asked.path] for asked in self._log().questions}
        return self.process("resume", RUN, answers=given)

    def _told(self) -> str:
        """What the engine said of the run, which must be what is on the disk."""
        kept = self.disk.row(RUN).status
        if self._result.status != kept:
            self.fail(f"the run is {self._result.status}, and on the disk it is {kept}")
        if kept == "running":
            self.fail("the engine is done with the run, and on the disk it is under way")
        self._check_owner(kept)
        return kept

    def _check_owner(self, after: object) -> None:
        """Whoever gives a run up with an error lets others have it, or knows that it still has it."""
        owner = self.disk.owner(RUN) if self.disk.has(RUN) else None
        left = self.process.engine._opener._unreleased.get(RUN, (0, None))[1]
        if owner is not None and owner.token != left:
            self.fail(f"after {after!r} the engine owns the run without knowing")

    def _is_orphan(self, error: ClewError) -> bool:
        """Whether what the run should have been made from is gone: then there is no run either."""
        if self.case.begins[0] == "run" or self.disk.has(PARENT) or not isinstance(error, UnknownRunError):
            return False
        if self.disk.has(RUN):
            self.fail(f"there is a run, and what it was made from is gone: {error}")
        self.audit()
        self.digest = "none"
        return True

    def _bury(self, is_met: bool = False) -> None:
        """The process is dead, and another one will go on."""
        self._gone = None
        self.process.engine._live.clear()
        self.process.engine.close()
        self.disk.forget_owners()
        self.process = Process(self)
        if not is_met:
            self.meet("another process goes on")

    def _finish(self) -> None:
        """The run has completed: its chain is that of the unbroken run, however often one looks."""
        state = RunReader(self.case.graph, self.disk, "error").open(RUN).state()
        self.digest = state.digest
        is_right = self.case.is_right or (lambda path, state: self._expected in ("", path.digest))
        if not is_right(self, state):
            self.fail(f"the run ended with another chain: {dict(state.values)}")
        self.check()
        self.audit()
        for job in self.hands.jobs:  # bodies that nobody waits for any more, and that go on all the same
            if not job.is_run:
                self._run(job, is_late=True)
        before = self.disk.names(RUN)
        if self.case.looks:
            for look in LOOKS:
                self._look(look)
        if self.disk.names(RUN) != before:
            self.fail("a run that has completed was changed")
        if self.case.looks:
            self._look(lambda engine: engine.label_checkpoint(RUN, "the end"))
            self._check_owner("a label")
            if [name for name in self.disk.names(RUN) if name[0] != "label"] != before:
                self.fail("a run that was given a label was changed")
        self.options = []
        raise Stopped

    def audit(self) -> None:
        """The store is sound, and so is each run in it."""
        found = [*self.disk.check()]
        for row in self.disk.rows():
            found += problems(self.disk, row)
        if found:
            self.fail(f"the store is not sound: {found[0]}")

    def _look(self, look: Callable[[Engine], Any]) -> None:
        before = self.faults
        while True:
            try:
                look(self.process.engine)
                return
            except Died:
                self._bury(is_met=True)
            except ClewError:
                if self.faults == before:  # nobody told it to fail
                    raise
            before = self.faults

    # -- choosing ----------------------------------------------------------------------------------------------

    def choose(self, *options: str) -> str:
        """What happens; there may be nothing to choose."""
        if self._gone is not None:
            raise self._gone
        if self.is_quiet or len(options) == 1:
            return options[0]
        return self._chosen(options)

    def _chosen(self, options: tuple[str, ...]) -> str:
        if self._made == len(self._choices):
            self.options, self._gone = list(options), Stopped
            raise Stopped
        choice = self._choices[self._made]
        if choice not in options:
            self.fail(f"the same choices lead elsewhere: {choice!r} is not among {options}")
        self._made += 1
        self.witness.is_new = self._made == len(self._choices) and not self.is_quiet
        return choice

    def meet(self, *options: str) -> str:
        """A choice between two runs of an engine, where paths that left the same behind are one."""
        self._left_over = [job for job in self.hands.jobs if job.is_wanted]
        self._meeting = self._left_behind()
        self._since = self._made
        self.witness.forget()
        self.check()
        return self._chosen(options)

    def _left_behind(self) -> list[Any]:
        return [
            [[*name[:3], name[3].hex()] if len(name) > 1 else name for name in self.disk.names(RUN)],
            sorted([*each] for each in self.witness.made),
            sorted([*each] for each in self.witness.attempts.items()),
            self.witness.was_taken_over,
            self.faults,
            self.clock.now,
            RUN in self.process.engine._opener._unreleased,
            self.disk.has(RUN) and self.disk.owner(RUN) is not None,
            self._choices[: self._made] if self._left_over else (),  # a body that goes on knows all of it
        ]

    @property
    def sight(self) -> Any:
        """What tells this state from others."""
        if not self.case.merges:
            return list(self._choices)
        if self.digest and not self.options:
            return {"completed": self.digest, "outside": sorted([*each] for each in self.witness.made)}
        return {"from": self._meeting, "since": list(self._choices[self._since :])}

    def _may(self, kind: str) -> bool:
        return kind in self.case.faults and self.faults < self.case.max_faults and not self.is_quiet

    def _fault(self) -> None:
        self.faults += 1

    def die(self) -> NoReturn:
        """Nothing of the process happens from now on."""
        self._gone = Died
        raise Died

    def fail(self, why: str) -> NoReturn:
        """Something happened that never may: nothing goes on."""
        self._gone = Wrong
        self.witness.fail(why)

    # -- what happens ------------------------------------------------------------------------------------------

    def operation(self, name: str) -> str:
        """How an operation of the store goes."""
        options = [name]
        if self._may("store"):
            options += [f"{name} refused"] + ([f"{name} unconfirmed"] if name in WRITES else [])
        if self._may("crash") and name in WRITES:
            options.append(f"{name} and die")
        if self._may("takeover") and name in WRITES and self.disk.has(RUN):
            options.append(f"{name} after a takeover")
        if self._may("deletion") and self.disk.has(PARENT) and not self.disk.has(RUN):
            options.append(f"{name} after a deletion")
        choice = self.choose(*options).removeprefix(name).strip()
        if choice:
            self._fault()
        if choice == "after a takeover":
            self._take_over()
            return ""
        if choice == "after a deletion":  # by another process, of what this run is made from
            self.disk.delete(PARENT)
            self._before = None
            return ""
        self.witness.is_broken = self.witness.is_broken or (choice != "" and name == "append")
        return choice

    def call(self, name: str, key: str) -> str:
        """How a call to the outside goes."""
        options = [f"call {name}"]
        if self._may("call"):
            options += [f"call {name} fails", f"call {name} is lost"]
        if self._may("crash"):
            options.append(f"call {name} and die")
        choice = self.choose(*options).removeprefix(f"call {name}").strip()
        if choice:
            self._fault()
        if choice == "fails":
            raise InjectedFaultError(f"{name} was told to fail")
        self.witness.call(name, key)
        if choice == "is lost":
            raise InjectedFaultError(f"the answer of {name} was lost")
        if choice:
            self.die()
        return f"{name} done"

    def event(self, hands: Hands, timeout: float | None) -> bool:
        """Have one event happen while the driver waits; False if time has passed."""
        if self._gone is not None:  # whatever is left of a dead process comes to its end
            if timeout is None:
                raise self._gone
            self.clock.advance(self.clock.now + timeout)
            return False
        self.witness.wait()
        options = self._job_options(hands)
        if timeout is not None and (not self._is_deadline(timeout) or self._may("timeout") or not options):
            options.append("time passes")
        if not options:
            self.fail("the driver waits for something that never comes")
        if self._may("cancel"):
            options.append("cancel")
        if self._may("takeover"):
            options += ["away", "takeover"]
        choice = self.choose(*options)
        if choice == "time passes":
            assert timeout is not None
            if self._is_deadline(timeout):
                self._fault()
                self.timeouts += 1
            self.clock.advance(self.clock.now + timeout)
            return False
        if choice == "cancel":
            self._fault()
            self.witness.is_cancelled = True
            self.process.engine.cancel(RUN)
        elif choice == "away":  # for longer than the lease, and nobody has noticed
            self._fault()
            self.clock.advance(self.clock.now + LEASE + 1.0)
        elif choice == "takeover":
            self._fault()
            self._take_over()
        else:
            self._handle(hands, choice)
            while self.case.together and (more := self._job_options(hands)):
                if (choice := self.choose("that is all", *more)) == "that is all":
                    break
                self._handle(hands, choice)
        return True

    def _log(self) -> RunLog:
        return RunReader(self.case.graph, self.disk, "error").open(RUN).whole()

    def _handle(self, hands: Hands, choice: str) -> None:
        verb, _, name = choice.partition(" ")
        job = next(job for job in hands.jobs if job.name == name and (job.is_run == (verb == "deliver")))
        if not job.is_run:
            self._run(job, is_late=job in self._left_over)
        if verb != "run":
            job.deliver()

    def _run(self, job: Job, *, is_late: bool) -> None:
        self.witness.is_late = is_late
        job.run()
        self.witness.is_late = False

    def _job_options(self, hands: Hands) -> list[str]:
        hands.jobs = [job for job in hands.jobs if job.is_wanted]
        start = "run" if self.case.splits else "complete"
        return [f"{'deliver' if job.is_run else start} {job.name}" for job in hands.jobs]

    def _is_deadline(self, timeout: float) -> bool:
        """Whether an attempt takes too long if that much time passes: of a job, or of a subgraph that it is in."""
        nodes, now = self.case.graph.nodes, self.clock.now
        session = self.process.engine._live.get(RUN)
        if session is not None:
            due = [when for when, _, timer in session._own_deadlines if timer.item and timer.item.is_inside]
            if any(now < when <= now + timeout + 1e-9 for when in due):
                return True
        limits = [(job.began, nodes[job.node].policy.timeout) for job in self.hands.jobs if job.node in nodes]
        return any(limit and now < began + limit <= now + timeout + 1e-9 for began, limit in limits)

    def _take_over(self) -> None:
        """This process is away for longer than its lease: another one completes the run meanwhile."""
        here, witness, self.is_quiet = self.process, self.witness, True
        self.clock.advance(self.clock.now + LEASE + 1.0)
        if self.case.place is not None:  # a real store has a clock of its own
            self.disk.lapse()
        self.process = Process(self)
        failed: list[BaseException] = []

        def go_on() -> None:
            try:
                self._go_on()
            except BaseException as error:
                failed.append(error)

        with witness.looking_away():
            thread = threading.Thread(target=go_on)  # an event loop may be running in this one
            thread.start()
            thread.join()
        self.process.engine.close()
        self.process, self.is_quiet = here, False
        if failed:
            self.fail(f"the run cannot be taken over: {failed[0]!r}")
        if self.choose("it hears of it", "it does not know") == "it hears of it":
            renewer = here.engine._execution.lease_renewer
            assert renewer is not None
            if renewer._sessions:  # otherwise its thread has ended
                renewer._beat()
