"""`Pipeline` answers questions; every question is a durable run.

A pipeline is an `Engine` for the graph of `clew_nl2sql.graph`, with sources, roles and an artifact folder
bound to it. A question can therefore be resumed after a crash and replayed without databases or models.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from clew import Engine, Event, MemoryStore, ReplayReport, RunResult, SQLiteStore
from clew.runtime import EngineOptions
from clew.stores import Store
from clew_nl2sql.access import UserContext, check_policies, check_user
from clew_nl2sql.answer import Answer, answer_of
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.dialogue.choices import ChoiceFile
from clew_nl2sql.errors import UsageError
from clew_nl2sql.graph import build_graph
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.plan import Plan
from clew_nl2sql.replay_graphs import import_string_for
from clew_nl2sql.resources import Resources
from clew_nl2sql.roles import Decomposer, Planner, Synthesizer
from clew_nl2sql.schemas import ReadingsQuestion, RememberedChoice
from clew_nl2sql.sources import Source, open_source
from clew_nl2sql.sources.query_processes import MEMORY
from clew_nl2sql.state import GraphState
from clew_nl2sql.template_synthesizer import TemplateSynthesizer

LONGEST_QUESTION = 2_000  # characters; planning time grows faster than the question's length
ENTRANCE = ("trace_id", "user_query", "user_context", "datasource_id", "ask_back", "remembered")
Choose = Callable[[ReadingsQuestion], int]
_NAME = re.compile(r"^[A-Za-z_]\w*$")


class AskOptions(TypedDict, total=False):
    """Options of `Pipeline.ask` that `Conversation.ask` has too."""

    run_id: str | None
    choose: Choose | None
    ask_back: bool
    remember: bool


class Pipeline:
    """Answers questions about several databases.

    Args:
        sources: Names with addresses (``sqlite:///sales.db``, ``duckdb:///...``, ``postgresql://...``) or `Source`
            objects.
        store: Where to store runs: a file, a Clew store, or None for memory.
        planner, decomposer, synthesizer: Components that process language. The defaults are deterministic and
            work offline.
        policies: Grants by role. If given, every question needs a user.
        artifacts: Folder for results. Defaults to a folder next to the store, or a temporary one for a store in
            memory.
        timeout: Time limit of one query, in seconds.
        max_memory: Limit of one query for memory, and for temporary files, in bytes.
        max_rows: Maximum number of rows in an answer; `max_scan_rows` is the limit per source.
        catalog_ttl: How long a catalog is cached, in seconds.
        listeners: Functions that receive every event of every run.
        options: Other options of `clew.Engine`.
    """

    def __init__(
        self,
        sources: Mapping[str, str | Path | Source],
        *,
        store: Store | str | PathLike[str] | None = None,
        planner: Planner | None = None,
        decomposer: Decomposer | None = None,
        synthesizer: Synthesizer | None = None,
        policies: Mapping[str, Iterable[str]] | None = None,
        artifacts: str | Path | ArtifactStore | None = None,
        timeout: float = 30.0,
        max_memory: int = MEMORY,
        max_rows: int = 1_000,
        max_scan_rows: int = 50_000,
        catalog_ttl: float = 60.0,
        listeners: Iterable[Callable[[Event], Any]] = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        for limit, value in (
            ("timeout", timeout),
            ("max_memory", max_memory),
            ("max_rows", max_rows),
            ("max_scan_rows", max_scan_rows),
        ):
            if value <= 0:
                raise UsageError(f"{limit} is {value}; it must be more than 0")
        self._policies = check_policies(policies)
        self._remove: Callable[[], Any] = _nothing
        path = _path_of(store)
        self._choices = ChoiceFile(path.with_suffix(".choices.jsonl") if path else None)
        self.resources = Resources(
            sources=_opened(sources, timeout, max_memory),
            artifacts=self._artifacts(artifacts, store),
            planner=planner if planner is not None else OfflinePlanner(),
            decomposer=decomposer if decomposer is not None else LinkingDecomposer(),
            synthesizer=synthesizer if synthesizer is not None else TemplateSynthesizer(),
            policies=self._policies or {},
            max_rows=max_rows,
            max_scan_rows=max_scan_rows,
            catalog_ttl=catalog_ttl,
        )
        self.graph = build_graph(self.resources)
        # Sources enforce their own limits; exceeding one is an error of one scan, not of the run.
        options.setdefault("default_node_timeout", None)
        options.setdefault("import_string", import_string_for(self.resources))
        self.engine = Engine(
            self.graph,
            store=SQLiteStore(store) if isinstance(store, str | Path) else store or MemoryStore(),
            listeners=tuple(listeners),
            **options,
        )

    # -- asking ------------------------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        *,
        user: UserContext | None = None,
        source: str | None = None,
        run_id: str | None = None,
        choose: Choose | None = None,
        ask_back: bool = False,
        remember: bool = False,
    ) -> Answer:
        """Answer a question; `source` restricts it to one source.

        Args:
            choose: Called if the question is uncertain, with up to three readings of it. Returns the number of the
                reading that is meant, from 1, or 0 for none of them.
            ask_back: Let the run wait for `Pipeline.choose` in this case. The answer then has `questions`.
            remember: Use the choice for the same question from now on.
        """
        initial = self._initial(question, user, source, run_id, ask_back or choose is not None)
        result = run_with_graph(self.engine, initial)
        return answer_of(self._chosen(result, choose, remember) if choose else result)

    async def aask(
        self,
        question: str,
        *,
        user: UserContext | None = None,
        source: str | None = None,
        run_id: str | None = None,
        ask_back: bool = False,
    ) -> Answer:
        """Do the same on an asyncio event loop. An uncertain question waits for `Pipeline.choose`."""
        initial = self._initial(question, user, source, run_id, ask_back)
        return answer_of(await self.engine.arun(entrance(initial), run_id=initial.trace_id, check=False))

    def choose(self, run_id: str, number: int, *, remember: bool = False) -> Answer:
        """Choose a reading for a question that waits, by its number from 1; 0 stands for none.

        If several parts of a question wait, this is the choice for the first, and the others still wait.
        """
        result = self.engine.result(run_id)
        if not result.questions:
            raise UsageError(f"run {run_id!r} does not wait for a choice; ask again with ask_back=True")
        return answer_of(self._answered(result, [(result.questions[0], number)], remember))

    def resume(self, run_id: str) -> Answer:
        """Resume a question whose run failed or was killed. Finished scans do not run again."""
        return answer_of(self.engine.resume(run_id, check=False))

    async def aresume(self, run_id: str) -> Answer:
        """Do the same on an asyncio event loop."""
        return answer_of(await self.engine.aresume(run_id, check=False))

    def _chosen(self, result: RunResult, choose: Choose, remember: bool) -> RunResult:
        while result.status == "waiting" and result.questions:
            numbers = [(asked, choose(asked.question)) for asked in result.questions]
            result = self._answered(result, numbers, remember)
        return result

    def _answered(self, result: RunResult, numbers: list[tuple[Any, Any]], remember: bool) -> RunResult:
        for asked, number in numbers:
            readings = asked.question.readings
            if not isinstance(number, int) or not 0 <= number <= len(readings):
                raise UsageError(
                    f"{number!r} is not the number of a reading; choose 1 to {len(readings)}, or 0"
                )
            if remember and number:
                self._choices.add(
                    result["user_context"],
                    result["user_query"],
                    RememberedChoice(
                        source=asked.question.source,
                        intent=asked.question.question,
                        sql=readings[number - 1].sql,
                    ),
                )
        answers = {asked.path: number for asked, number in numbers}
        return self.engine.resume(result.run_id, answers=answers, check=False)

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Replay a run from its recordings, without databases, models or files."""
        return self.engine.replay(run_id, strict=strict)

    def answer(self, run_id: str) -> Answer:
        """Return the current answer of a run."""
        return answer_of(self.engine.result(run_id))

    def close(self) -> None:
        """Close the store and drop the cached catalogs. Results in a temporary folder are deleted."""
        self.engine.close()
        self.resources.forget()
        self._remove()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- input of a run ----------------------------------------------------------------------------------------

    def _initial(
        self, question: str, user: UserContext | None, source: str | None, run_id: str | None, ask_back: bool
    ) -> GraphState:
        given: Any = question
        if not isinstance(given, str) or not given.strip():
            raise UsageError("the question is empty; enter at least one word")
        if len(question) > LONGEST_QUESTION:
            raise UsageError(
                f"the question has {len(question):,} characters, the limit is {LONGEST_QUESTION:,}; split it"
            )
        if source is not None and source not in self.resources.sources:
            known = ", ".join(self.resources.sources)
            raise UsageError(f"unknown source {source!r}; use one of: {known}")
        if user is None:
            if self._policies is not None:
                raise UsageError(
                    "this pipeline has policies, so a question needs a user; call ask(..., user=UserContext(...))"
                )
            user = UserContext.operator()
        check_user(user)
        return GraphState(
            trace_id=run_id or f"ask-{uuid4()}",
            user_query=question.strip(),
            user_context=user,
            datasource_id=source,
            ask_back=ask_back,
            remembered=self._choices.find(user, question),
        )

    def _artifacts(self, given: str | Path | ArtifactStore | None, store: Any) -> ArtifactStore:
        if isinstance(given, ArtifactStore):
            return given
        if given is None:
            path = _path_of(store)
            if path is not None:
                return ArtifactStore(path.with_suffix(".artifacts"))
            given = tempfile.mkdtemp(prefix="clew-artifacts-")
            # Delete the folder when the pipeline is closed or the process exits, whichever comes first.
            self._remove = weakref.finalize(self, shutil.rmtree, given, ignore_errors=True)
        return ArtifactStore(given)


def _path_of(store: Any) -> Path | None:
    path = store if isinstance(store, str | Path) else getattr(store, "path", None)
    return Path(path) if path and str(path) != ":memory:" else None


def _nothing() -> None:
    """Do nothing: the artifact folder is permanent."""


def run_with_graph(engine: Engine, initial: GraphState) -> RunResult:
    """Run a question to its end, and return the result of a failed run too. The trace id is the run id."""
    return engine.run(entrance(initial), run_id=initial.trace_id, check=False)


def entrance(initial: GraphState) -> dict[str, Any]:
    """Return the input values of a run; nodes write all other values."""
    return {name: getattr(initial, name) for name in ENTRANCE}


class OfflinePlanner:
    """Rule planner for use by several threads, one at a time. It tests its proposals on a database in memory."""

    def __init__(self) -> None:
        from clew_nl2sql.planner import RulePlanner

        self._planner = RulePlanner()
        self._lock = threading.Lock()

    def plan(self, question: str, catalog: Catalog) -> Plan:
        """Return a query, or an abstention with candidates."""
        with self._lock:
            return self._planner.plan(question, catalog)


def _opened(sources: Mapping[str, str | Path | Source], timeout: float, max_memory: int) -> dict[str, Source]:
    if not sources:
        raise UsageError("no sources given; write Pipeline({'sales': 'sqlite:///sales.db'})")
    for name in sources:
        if not _NAME.match(name):
            raise UsageError(f"{name!r} is not a valid source name; use letters, digits and _")
    if len({name.lower() for name in sources}) < len(sources):
        raise UsageError("two source names differ only in case; rename one, since grants ignore case")
    opened = {
        name: open_source(given, timeout=timeout, max_memory=max_memory)
        if isinstance(given, str | Path)
        else given
        for name, given in sources.items()
    }
    for name, source in opened.items():
        if not isinstance(source, Source):
            raise UsageError(f"{name!r} is not a source; it needs dialect, catalog, explain and run")
    return opened
