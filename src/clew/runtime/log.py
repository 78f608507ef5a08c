"""A run's log, read: what the entries of a store mean together.

Entries are in the order in which they came about. Later ones win where they speak of the same thing: a new attempt
of a subgraph item starts its strands anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from clew.engine.chain import Chain
from clew.engine.programs import program_of
from clew.engine.reasons import Story
from clew.engine.records import Journaled, Outcome, Question, Retry, Single, Start, Step, Withdrawn
from clew.engine.rules import Program
from clew.errors import InputError, RunStateError, UnknownRunError
from clew.graph import Graph
from clew.runtime.codes import conflict_rule
from clew.runtime.doubts import Intent
from clew.runtime.metrics import Measured, Totals, lifetime
from clew.runtime.recorder import RecordedCall
from clew.runtime.result import Checkpoint, Origin
from clew.runtime.schema_changes import with_defaults
from clew.state import GraphState, Position
from clew.stores import RunRow


class Answered(msgspec.Struct, frozen=True):
    """Somebody answered the question at `path`."""

    path: str
    answer: Any
    number: int = 0


class Labelled(msgspec.Struct, frozen=True):
    """S(step) has a name."""

    label: str
    step: int


class Resumed(msgspec.Struct, frozen=True):
    """The run had failed, and is gone on with: recorded exceptions of earlier stretches do not count any more."""

    stretch: int


Filled = Mapping[str, Mapping[str, Any]]
"""The defaults of fields that schemas have gained since a run began, by strand ("" for the run itself) and name.

The run reads as if it had had them from the start; no digest covers them. Each record has those of the ones before it.
"""


class Accepted(msgspec.Struct, frozen=True):
    """The run goes on with another graph than it was made with, or with another rule for conflicts."""

    n: int
    structure: str
    codes: Mapping[str, str]
    filled: Filled = {}


class RunLog(msgspec.Struct):
    """What the log of a run says."""

    row: RunRow
    start: GraphState
    on_conflict: str
    steps: list[Step]
    journal: dict[str, Outcome]
    answers: dict[str, list[Any]]
    attempts: dict[str, int]
    strands: dict[str, tuple[Start, list[Step]]]
    asked: dict[str, Question]
    labels: dict[str, int]
    calls: list[RecordedCall]
    journaled: dict[tuple[str, tuple[int, ...]], list[int]] = {}  # what is in the journal, current or not
    stretch: int = 0  # how often it had failed and was gone on with
    due: dict[str, tuple[float, float]] = {}  # item -> when its next attempt is due, and after which delay
    weight: int = 0  # bytes of the snapshot that it was read from
    since: int = 0  # bytes of the steps after it, with what they keep apart
    accepted: int = 0  # how often changes were accepted
    filled: Filled = {}  # defaults of fields that came later
    measured: list[Measured] = []  # how full the queue was
    errors: list[
        tuple[tuple[int, ...], BaseException]
    ] = []  # confined failures before `start`, with their places

    @property
    def questions(self) -> list[Question]:
        """What is asked and not answered."""
        return list(self.asked.values())

    def check_answers(
        self, single: Mapping[str, Any], answers: Mapping[str, Any], graph: Graph
    ) -> dict[str, Any]:
        """The answers by path, fit to be kept. `single` holds the one given without a path, if any."""
        run, asked = self.row.run_id, {question.path: question for question in self.questions}
        told = "; ".join(f"{path}: {question.question!r}" for path, question in asked.items()) or "nothing"
        if single and (len(asked) != 1 or answers):
            if not asked:
                raise RunStateError(f"run {run!r} asks nothing, so there is nothing to answer")
            raise RunStateError(f"run {run!r} asks several questions ({told}); give answers={{path: ...}}")
        given = {next(iter(asked)): single["answer"]} if single else dict(answers)
        for path in given:
            if path not in asked:
                raise RunStateError(f"run {run!r} does not ask at {path!r}; it asks: {told}")
            _check_answer(graph, path, given[path])
        if self.row.status == "waiting" and asked and not given:  # else it died right after it was answered
            raise RunStateError(f"run {run!r} waits for an answer ({told}); resume it with answer=...")
        return given

    def outcomes(self) -> dict[str, Outcome]:
        """What is known of items, by path: from the steps, those of subgraphs too, and the journal."""
        found = {outcome.path: outcome for step in self.steps for outcome in step.outcomes}
        for prefix, (_, steps) in self.strands.items():
            found.update((prefix + outcome.path, outcome) for step in steps for outcome in step.outcomes)
        found.update(self.journal)
        return found

    def totals(self, graph: Graph) -> Totals:
        """What the run has counted so far."""
        first = self.row.parent_step
        if first is None:  # it may have gone on from a state, which is at hand unless there is a snapshot
            first = 0 if self.weight else self.start.step
        inner = [o for _, steps in self.strands.values() for step in steps for o in step.outcomes]
        known = self.outcomes()
        asking = sum(_is_interrupt(graph, path) for path in {*self.asked, *self.answers} if path not in known)
        return lifetime(
            self.start.step + len(self.steps) - first,
            self.steps,
            [*inner, *self.journal.values()],
            sum(attempt for path, attempt in self.attempts.items() if path not in known),
            self.stretch + (self.row.status == "failed") + asking,
            self.measured,
        )

    def chain(self, program: Program) -> Chain:
        """The chain of the run."""
        return Chain(program, self.start, self.steps, seed=self.row.seed, on_conflict=self.on_conflict)

    def label(self, label: str) -> int:
        """The step that has a label."""
        if label not in self.labels:
            told = ", ".join(map(repr, self.labels)) or "none"
            raise UnknownRunError(f"run {self.row.run_id!r} has no label {label!r}; there are: {told}")
        return self.labels[label]

    def step_of(self, chain: Chain, step: int | str | None) -> int:
        """The number of a step: itself, the one with that label, or the last."""
        run = self.row.run_id
        if step is None:
            return chain.last
        if isinstance(step, str):
            return self.label(step)
        if not chain.first <= step <= chain.last:
            raise UnknownRunError(f"run {run!r} has no step {step}; it has {chain.first} to {chain.last}")
        return step

    def checkpoints(self, chain: Chain, graph: Graph, *, nested: bool, prefix: str = "") -> list[Checkpoint]:
        """One checkpoint for each state of a chain."""
        names: dict[int, list[str]] = {}
        for label in sorted(self.labels) if not prefix else ():
            names.setdefault(self.labels[label], []).append(label)
        calls = self.calls_by_item(prefix)
        attempts = self.retried(chain.steps, prefix)
        found: list[Checkpoint] = []
        for number, state in enumerate(chain.states(), start=chain.first):
            step = chain.steps[number - chain.first - 1] if number > chain.first else None
            outcomes = step.outcomes if step is not None else ()
            found.append(
                Checkpoint(
                    run_id=self.row.run_id,
                    step_id=number,
                    state=state,
                    rng_seed=self.row.seed,
                    timestamp=max((o.started + o.duration for o in outcomes), default=self.row.created),
                    label=names[number][0] if number in names else None,
                    labels=tuple(names.get(number, ())),
                    items=tuple(prefix + outcome.path for outcome in outcomes),
                    nested=self._nested(graph, prefix, outcomes) if nested else {},
                    recorded_ios=tuple(call for o in outcomes for call in calls.get(prefix + o.path, ())),
                    _origin=Origin(chain.program, prefix, attempts, partial(chain.last_run, step=number)),
                )
            )
        return found

    def retried(self, steps: Sequence[Step], prefix: str = "") -> dict[str, int]:
        """The retries that items have used: those in these steps of the strand at `prefix`, and those that are open."""
        done = {prefix + o.path: o.attempt for step in steps for o in step.outcomes if o.attempt}
        return {**self.attempts, **done}

    def calls_by_item(self, prefix: str = "") -> dict[str, list[RecordedCall]]:
        """The recorded calls, by the item of the strand at `prefix` that made them or in which they were made."""
        found: dict[str, list[RecordedCall]] = {}
        for call in self.calls:
            if call.path.startswith(prefix):
                item, inside, _ = call.path[len(prefix) :].partition("/")
                found.setdefault(prefix + item, []).append(call)
                if inside and item.endswith(
                    "]"
                ):  # one of several strands of an item, or one of several items
                    found.setdefault(prefix + item[: item.rindex("[")], []).append(call)
        return found

    def inner_chains(self, graph: Graph) -> Iterator[tuple[str, Chain]]:
        """The chains of all strands, by their prefixes."""
        for prefix, (start, steps) in self.strands.items():
            program = program_of(graph_at(graph, prefix), start.given)
            state = start_state(start, self.row.seed)
            yield prefix, Chain(program, state, steps, seed=self.row.seed, on_conflict=self.on_conflict)

    def _nested(
        self, graph: Graph, prefix: str, outcomes: Sequence[Outcome]
    ) -> Mapping[str, tuple[Checkpoint, ...]]:
        found: dict[str, tuple[Checkpoint, ...]] = {}
        for outcome in outcomes:
            inside = graph.nodes[outcome.node].subgraph
            if inside is None:
                continue
            path = prefix + outcome.path
            for inner, (start, steps) in self.strands.items():
                if inner == f"{path}/" or (
                    inner.startswith(f"{path}[") and inner.count("/") == path.count("/") + 1
                ):
                    state = start_state(start, self.row.seed)
                    chain = Chain(
                        program_of(inside.graph, start.given),
                        state,
                        steps,
                        seed=self.row.seed,
                        on_conflict=self.on_conflict,
                    )
                    found[inner[:-1]] = tuple(
                        self.checkpoints(chain, inside.graph, nested=True, prefix=inner)
                    )
        return found


def graph_at(graph: Graph, prefix: str) -> Graph:
    """The graph of the strand at `prefix`. What is bound outside plays no part in a chain's digests."""
    for part in prefix.split("/")[:-1]:
        inside = graph.nodes[part.partition("#")[0]].subgraph
        assert inside is not None
        graph = inside.graph
    return graph


def _is_interrupt(graph: Graph, path: str) -> bool:
    inside, _, last = path.rpartition("/")
    node = graph_at(graph, f"{inside}/" if inside else "").nodes.get(last.partition("#")[0])
    return node is not None and node.kind == "interrupt"


def _check_answer(graph: Graph, path: str, answer: Any) -> None:
    """Refuse an answer that the state schema would refuse, while the question can still be answered otherwise."""
    inside, _, last = path.rpartition("/")
    graph = graph_at(graph, f"{inside}/") if inside else graph
    node, schema = graph.nodes[last.partition("#")[0]], graph.schema
    if node.kind == "interrupt" and schema is not None:
        try:
            schema.validate_update(node.outputs[0], answer)
        except ValueError as error:
            raise InputError(
                f"the answer to {path!r} does not fit {node.outputs[0]!r}: {error}; answer again"
            ) from error


def start_state(start: Start, seed: int) -> GraphState:
    """S(0) of a strand."""
    return GraphState.assemble(
        values=dict(start.values),
        versions=dict.fromkeys(start.values, 0),
        decisions={},
        terminated=False,
        position=Position(seed=seed, given=start.given, filled=start.filled),
        history={},
    )


def fill(log: RunLog, filled: Filled) -> None:
    """Let a run, and the strands inside it, begin with defaults that they lack."""
    log.filled = filled
    log.start = with_defaults(log.start, filled.get("", {}))
    for prefix, (start, steps) in log.strands.items():
        more = {name: value for name, value in filled.get(prefix, {}).items() if name not in start.values}
        if more:
            begun = msgspec.structs.replace(
                start, values={**start.values, **more}, filled=start.filled | more.keys()
            )
            log.strands[prefix] = (begun, steps)


def story_of(log: RunLog, parent: Callable[[str], RunLog]) -> Story:
    """What happened in a run, and before it in the runs that it was forked from."""
    start, steps = log.start, list(log.steps)
    outside = [(start.step, start.position.touched)]
    while log.row.parent is not None:
        log = parent(log.row.parent)
        steps[:0] = [step for step in log.steps if step.number <= start.step]
        start = log.start
        outside.append((start.step, start.position.touched))
    return Story(start, steps, outside)


def read_log(row: RunRow, start: GraphState, entries: Sequence[Any], on_conflict: str) -> RunLog:
    """Read a run's log. Entries may come in any order: each says what it speaks of."""
    log = RunLog(row, start, on_conflict, [], {}, {}, {}, {}, {}, {}, [])
    inner: list[Step] = []
    journal: list[Journaled] = []
    retries: list[Retry] = []
    answers: dict[str, dict[int, Any]] = {}
    done: set[str] = set()
    for entry in entries:
        if isinstance(entry, Single):
            log.steps.append(entry.step())
            done.add(log.steps[-1].outcomes[0].path)
        elif isinstance(entry, Step):
            (inner if entry.prefix else log.steps).append(entry)
            done.update(entry.prefix + outcome.path for outcome in entry.outcomes)
        elif isinstance(entry, Journaled):
            journal.append(entry)
        elif isinstance(entry, Withdrawn):
            # in memory alone: a store that encodes has dropped what it speaks of
            journal = [each for each in journal if (each.path, each.epoch) != (entry.path, entry.epoch)]
        elif isinstance(entry, Start):
            known = log.strands.get(entry.prefix)
            if known is None or known[0].epoch <= entry.epoch:
                log.strands[entry.prefix] = (entry, [])
        elif isinstance(entry, Retry):
            retries.append(entry)
        elif isinstance(entry, Question):
            if entry.path not in log.asked or log.asked[entry.path].number <= entry.number:
                log.asked[entry.path] = entry
        elif isinstance(entry, Answered):
            answers.setdefault(entry.path, {})[entry.number] = entry.answer
        elif isinstance(entry, Labelled):
            log.labels[entry.label] = entry.step
        elif isinstance(entry, Accepted):
            if entry.n >= log.accepted:
                log.accepted, log.filled = entry.n + 1, entry.filled
                log.row = msgspec.structs.replace(row, structure=entry.structure, codes=entry.codes)
        elif isinstance(entry, Measured):
            log.measured.append(entry)
        elif isinstance(entry, Resumed):
            log.stretch = max(log.stretch, entry.stretch)
        elif isinstance(entry, Intent):
            pass  # the recorder looks for them where it matters
        else:
            assert isinstance(entry, RecordedCall)
            log.calls.append(entry)
    for step in inner:
        strand = log.strands.get(step.prefix)
        if strand is not None and strand[0].epoch == step.epoch:
            strand[1].append(step)
    for retry in retries:
        path = retry.path
        strand = log.strands.get(path[: path.rfind("/") + 1])
        is_of_now = not retry.epoch or (strand is not None and strand[0].epoch == retry.epoch)
        if is_of_now and retry.attempt >= log.attempts.get(path, 0):
            log.attempts[path], log.due[path] = retry.attempt, (retry.due, retry.delay)
    for each in sorted(journal, key=lambda each: each.n):
        if each.path not in done:
            log.journaled.setdefault((each.path, each.epoch), []).append(each.n)
        strand = log.strands.get(each.prefix)
        if each.path not in done and (
            not each.prefix or (strand is not None and strand[0].epoch == each.epoch)
        ):
            log.journal[each.path] = each.outcome
    if log.filled:
        fill(log, log.filled)
    log.on_conflict = conflict_rule(log.row.codes, on_conflict)
    log.answers = {path: [numbered[n] for n in sorted(numbered)] for path, numbered in answers.items()}
    for path, question in list(log.asked.items()):
        item = path.partition("!")[0]  # a question about a call of it
        if item in done or item in log.journal or question.number < len(log.answers.get(path, ())):
            del log.asked[path]
    return log
