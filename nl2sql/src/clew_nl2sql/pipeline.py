"""`Pipeline`: questions in, answers out; every question is a durable run.

A pipeline is an `Engine` for the graph of `clew_nl2sql.graph`, with sources, roles and a place for artifacts bound
to it. What an engine can do with a run, a pipeline can do with a question: resume it after a crash, replay it
without databases or model."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from clew import Engine, Event, MemoryStore, ReplayReport, RunResult, SQLiteStore
from clew_nl2sql.access import UserContext, check_policies, check_user
from clew_nl2sql.answer import Answer, answer_of
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.errors import UsageError
from clew_nl2sql.graph import build_graph
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.plan import Plan
from clew_nl2sql.replay_graphs import target_for
from clew_nl2sql.resources import Resources
from clew_nl2sql.roles import Decomposer, Planner, Synthesizer
from clew_nl2sql.sources import Source, open_source
from clew_nl2sql.state import GraphState
from clew_nl2sql.template_synthesizer import TemplateSynthesizer

LONGEST_QUESTION = 2_000  # characters; a planner's work grows faster than its question
ENTRANCE = ("trace_id", "user_query", "user_context", "datasource_id")
_NAME = re.compile(r"^[A-Za-z_]\w*$")


class Pipeline:
    """Asks questions of several databases.

    Args:
        sources: Names with addresses (``sqlite:///sales.db``, ``duckdb:///...``, ``postgresql://...``) or `Source`
            objects.
        store: Where runs are kept: a file, a store of Clew, or None for memory. planner, decomposer, synthesizer:
            What understands language; deterministic and offline unless given.
        policies: Grants by role. With these, every question needs a user.
        artifacts: The folder for results; beside the store unless given, temporary for a store in memory.
        timeout: Seconds that one query may take.
        max_rows: Rows of an answer; `max_scan_rows` of each source.
        listeners: Functions that are told every event of every run.
        options: Any other option of `clew.Engine`."""

    def __init__(
        self,
        sources: Mapping[str, str | Path | Source],
        *,
        store: Any = None,
        planner: Planner | None = None,
        decomposer: Decomposer | None = None,
        synthesizer: Synthesizer | None = None,
        policies: Mapping[str, Iterable[str]] | None = None,
        artifacts: str | Path | ArtifactStore | None = None,
        timeout: float = 30.0,
        max_rows: int = 1_000,
        max_scan_rows: int = 50_000,
        catalog_ttl: float = 60.0,
        listeners: Iterable[Callable[[Event], Any]] = (),
        **options: Any,
    ) -> None:
        for limit, value in (("timeout", timeout), ("max_rows", max_rows), ("max_scan_rows", max_scan_rows)):
            if value <= 0:
                raise UsageError(f"{limit} is {value}; it must be more than 0")
        self._policies = check_policies(policies)
        self._remove: Callable[[], Any] = _nothing
        self.resources = Resources(
            sources=_opened(sources, timeout),
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
        self.engine = Engine(
            self.graph,
            store=SQLiteStore(store) if isinstance(store, str | Path) else store or MemoryStore(),
            listeners=tuple(listeners),
            # sources have limits of their own, and what exceeds them is an error of one scan, not of the run
            default_node_timeout=options.pop("default_node_timeout", None),
            import_string=options.pop("import_string", target_for(self.resources)),
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
    ) -> Answer:
        """Answer a question; `source` asks one source only."""
        return answer_of(run_with_graph(self.engine, self._initial(question, user, source, run_id)))

    async def aask(
        self,
        question: str,
        *,
        user: UserContext | None = None,
        source: str | None = None,
        run_id: str | None = None,
    ) -> Answer:
        """The same for asyncio."""
        initial = self._initial(question, user, source, run_id)
        return answer_of(await self.engine.arun(entrance(initial), run_id=initial.trace_id))

    def resume(self, run_id: str) -> Answer:
        """Go on with a question whose run was killed or failed; scans that had finished are not run again."""
        return answer_of(self.engine.resume(run_id))

    async def aresume(self, run_id: str) -> Answer:
        """The same for asyncio."""
        return answer_of(await self.engine.aresume(run_id))

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Run it again on what was recorded: no database, no model, no file."""
        return self.engine.replay(run_id, strict=strict)

    def answer(self, run_id: str) -> Answer:
        """The answer of a run, as it stands."""
        return answer_of(self.engine.result(run_id))

    def close(self) -> None:
        """Close the store, and let go of the catalogs; results in a temporary folder are gone after this."""
        self.engine.close()
        self.resources.forget()
        self._remove()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what a run is given -----------------------------------------------------------------------------------

    def _initial(
        self, question: str, user: UserContext | None, source: str | None, run_id: str | None
    ) -> GraphState:
        given: Any = question
        if not isinstance(given, str) or not given.strip():
            raise UsageError("there is no question; give some words")
        if len(question) > LONGEST_QUESTION:
            raise UsageError(
                f"the question has {len(question):,} characters, and {LONGEST_QUESTION:,} are the most; ask in parts"
            )
        if source is not None and source not in self.resources.sources:
            known = ", ".join(self.resources.sources)
            raise UsageError(f"there is no source {source!r}; there are: {known}")
        if user is None:
            if self._policies is not None:
                raise UsageError(
                    "this pipeline has policies, so a question needs a user: ask(..., user=UserContext(...))"
                )
            user = UserContext.operator()
        check_user(user)
        return GraphState(
            trace_id=run_id or f"ask-{secrets.token_hex(4)}",
            user_query=question.strip(),
            user_context=user,
            datasource_id=source,
        )

    def _artifacts(self, given: str | Path | ArtifactStore | None, store: Any) -> ArtifactStore:
        if isinstance(given, ArtifactStore):
            return given
        if given is None:
            path = store if isinstance(store, str | Path) else getattr(store, "path", None)
            if path and str(path) != ":memory:":
                return ArtifactStore(Path(path).with_suffix(".artifacts"))
            given = tempfile.mkdtemp(prefix="clew-artifacts-")
            # with the pipeline, or with the process, whichever ends first
            self._remove = weakref.finalize(self, shutil.rmtree, given, ignore_errors=True)
        return ArtifactStore(given)


def _nothing() -> None:
    """What there is to remove if the artifacts are to stay."""


def run_with_graph(engine: Engine, initial: GraphState) -> RunResult:
    """The entrance of the pipeline: run a question to its end. The run is called by its trace."""
    return engine.run(entrance(initial), run_id=initial.trace_id)


def entrance(initial: GraphState) -> dict[str, Any]:
    """The values that the entrance owns; all others are their nodes'."""
    return {name: getattr(initial, name) for name in ENTRANCE}


class OfflinePlanner:
    """The rule planner, for one thread at a time: it tries its proposals out on a database of its own, in memory."""

    def __init__(self) -> None:
        from clew_nl2sql.planner import RulePlanner

        self._planner = RulePlanner()
        self._lock = threading.Lock()

    def plan(self, question: str, catalog: Catalog) -> Plan:
        """A query, or an abstention with candidates."""
        with self._lock:
            return self._planner.plan(question, catalog)


def _opened(sources: Mapping[str, str | Path | Source], timeout: float) -> dict[str, Source]:
    if not sources:
        raise UsageError("there is no source; give at least one: Pipeline({'sales': 'sqlite:///sales.db'})")
    for name in sources:
        if not _NAME.match(name):
            raise UsageError(f"{name!r} is no name for a source; use letters, digits and _")
    if len({name.lower() for name in sources}) < len(sources):
        raise UsageError("two sources have the same name but for case; grants could not tell them apart")
    opened = {
        name: open_source(given, timeout=timeout) if isinstance(given, str | Path) else given
        for name, given in sources.items()
    }
    for name, source in opened.items():
        if not isinstance(source, Source):
            raise UsageError(f"{name!r} is no source; it needs dialect, catalog, explain and run")
    return opened
