"""`DependencyGraph`: values that are computed on demand, and again only if their inputs changed.

This module parses requests, takes the lock, and keeps memory and database consistent. `freshness` decides what is up to
date, `pull_plan` which nodes a pull visits, `sync_pull` and `async_pull` execute it, and `changes` applies changes.

One lock guards a graph. A `pull` holds it while its computors run, so other threads wait. An `apull` releases it
whenever it awaits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from clew.errors import DependencyError, InvalidNodeError, StoreConflictError, StoreCorruptError, StoreError
from clew.incremental.arguments import check_options, pattern_error, read, set_arguments
from clew.incremental.async_pull import AsyncPull, ConcurrencyLimit, Running
from clew.incremental.changes import (
    NOTHING,
    ChangeBatch,
    NodeChange,
    apply,
    close_batch,
    current_batch,
    merged,
    open_batch,
    set_source,
)
from clew.incremental.explanation import Explanation, explain, freshness
from clew.incremental.expressions import Expression, match, read_node, read_pattern
from clew.incremental.freshness import is_up_to_date
from clew.incremental.mutation_check import check_all
from clew.incremental.nodes import COMPUTED, SET, ConcreteNode, NodeRecord, NodeTable
from clew.incremental.persistence import GraphPersistence
from clew.incremental.progress import PullProgress, showing
from clew.incremental.pull_plan import plan_of
from clew.incremental.schemas import NodeSchema, SchemaRegistry, is_own_pattern
from clew.incremental.sync_pull import bring_up_to_date
from clew.incremental.values import code_of
from clew.stores.factory import open_table

_inside: ContextVar[tuple[int, ...]] = ContextVar("_inside", default=())  # graphs whose computors run here


class DependencyGraph:
    """A graph of nodes that are computed when they are pulled, and again only when necessary.

    Args:
        schemas: A list of schemas, as returned by `clew.schema`.
        store: Where values are stored: None for memory, a path to a SQLite file, a ``postgresql://`` URL, or a store
            object. With a store object, the graph lives in its database.
        name: Distinguishes several graphs in one store.
        max_concurrency: Maximum number of async computors that run at the same time.
        max_nodes_in_memory: Maximum number of nodes cached in memory; when exceeded, the cache is cleared and nodes are
            read again from the database. Has no effect without a store.
        check_mutation: Raise MutationError if a computor modifies an input in place. Copies every input.
    """

    def __init__(
        self,
        schemas: Iterable[NodeSchema],
        store: Any = None,
        *,
        name: str = "graph",
        max_concurrency: int = 64,
        max_nodes_in_memory: int = 1_000_000,
        check_mutation: bool = False,
    ) -> None:
        check_options(name, max_concurrency, max_nodes_in_memory)
        self.registry = SchemaRegistry(schemas)
        if check_mutation:
            check_all(self.registry.rules)
        self.options: dict[str, Any] = {  # to build an equivalent graph
            "name": name,
            "max_concurrency": max_concurrency,
            "max_nodes_in_memory": max_nodes_in_memory,
            "check_mutation": check_mutation,
        }
        self._limit = ConcurrencyLimit(max_concurrency)
        self._max_nodes = max_nodes_in_memory
        self._lock = threading.RLock()
        self._running: Running = {}
        self._pulls = 0  # running async pulls
        self._is_computing = False  # a pull in this thread holds the lock
        self._is_closed = False
        self._persistence: GraphPersistence | None = None
        if store is not None:
            self._persistence = GraphPersistence(open_table(store, f"graph {name}"))
            try:
                self._reload()
            except BaseException:
                self._persistence.kv.close()
                raise
        else:
            self._table = NodeTable(self.registry, None, {})
        self._progress: PullProgress | None = None
        self._needs_prepare = self._persistence is not None  # a request needs `_prepare`

    def __repr__(self) -> str:
        return f"DependencyGraph({len(self.registry.rules)} schemas, revision {self.revision})"

    def _repr_html_(self) -> str:
        return f'<div style="max-width:100%;overflow:auto">{self.draw("svg")}</div>'

    def __enter__(self) -> DependencyGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------------

    @property
    def schemas(self) -> tuple[NodeSchema, ...]:
        """Return the schemas that the graph was built from."""
        return tuple(rule.schema for rule in self.registry.rules)

    @property
    def revision(self) -> int:
        """Return the number of changes so far: each `set`, `invalidate` or batch is one."""
        return self._table.revision

    def pull(self, name: str, *arguments: str | int, progress: bool = False) -> Any:
        """Return the current value of a node. ``pull("photo(p5)")`` equals ``pull("photo", "p5")``."""
        if progress:
            with showing(self, name):
                return self.pull(name, *arguments)
        with self._lock:
            if self._needs_prepare:
                self._prepare()
            table = self._table
            try:
                node = table.nodes.get(name) if not arguments else None
            except TypeError:  # not hashable, so not a str
                node = None
            if node is None:
                node = self._node(name, arguments)
            if node.checked_at != table.revision and not is_up_to_date(table, node):
                node = self._refresh(node)
            row = node.row
            return row.value if row.code is None else row.get()

    async def apull(self, name: str, *arguments: str | int, progress: bool = False) -> Any:
        """Return the current value of a node; await async computors, independent ones concurrently."""
        if progress:
            with showing(self, name):
                return await self.apull(name, *arguments)
        with self._lock:
            self._prepare()
            node = self._node(name, arguments)
            while not is_up_to_date(self._table, node):
                pull = AsyncPull(self._table, node, self._persistence, self._lock, self._running, self._limit)
                if not self._reload_if_changed():
                    break
                node = self._current(node)
            else:
                return node.row.get()
            self._enter()
        token = _inside.set((*_inside.get(), id(self)))
        try:
            return (await pull.run(self._progress)).get()
        finally:
            _inside.reset(token)
            self._leave()

    def freshness(self, name: str, *arguments: str | int) -> str | None:
        """Return ``"up-to-date"``, ``"potentially-outdated"``, or None for a node without a value."""
        with self._lock:
            self._prepare()
            asked = read(name, arguments)
            node = self._table.find(asked.name, asked.arguments)
            if node is None and self._is_new_atom(asked):
                return None
            return freshness(self._table, node or self._node(name, arguments))

    def explain(self, name: str, *arguments: str | int) -> Explanation:
        """Explain which sources changed at which revision, and why the node was or was not computed again."""
        with self._lock:
            self._prepare()
            return explain(self._table, self._node(name, arguments))

    def materialized(self, pattern: str | None = None) -> list[str]:
        """Return the keys of the nodes that have a value: all, or those of a pattern or name."""
        with self._lock:
            self._prepare()
            wanted = None if pattern is None else read_pattern(pattern)
            if wanted is not None and not wanted.arguments and self.registry.arity(wanted.name):
                prefix, wanted = f"{wanted.name}(", None  # the name alone matches all its nodes
            elif wanted is not None:
                prefix = f"{wanted.name}(" if wanted.arguments else wanted.name
            else:
                prefix = ""
            return [key for key in self._keys(prefix) if self._is_materialized(key, wanted)]

    def orphans(self) -> list[str]:
        """Return the keys of computed nodes whose schemas no longer exist."""
        with self._lock:
            self._prepare()
            return [key for key in self._keys("") if self._is_orphan(key)]

    def draw(
        self, format: Literal["mermaid", "dot", "svg"] = "mermaid", *, nodes: bool = False, limit: int = 200
    ) -> str:
        """Draw the schemas or, with ``nodes=True``, up to `limit` nodes that have a value."""
        from clew.incremental.drawing import draw

        return draw(self, format, nodes=nodes, limit=limit)

    # -- changing ----------------------------------------------------------------------------------------

    def set(self, name: str, *rest: Any, value: Any = NOTHING) -> None:
        """Set the value of a node: ``set("photo(p5)", value)``, or ``set("photo", "p5", value=value)``.

        On a node with inputs the value is a pin: it is valid until one of the node's sources is touched.
        """
        self._set(*set_arguments(name, rest, value))

    def _set(self, name: str, arguments: tuple[Any, ...], value: Any) -> None:
        with self._lock:
            if self._needs_prepare:
                self._prepare()
            node = self._target(name, arguments)
            code = code_of(value, node.key)
            batch = current_batch(id(self))
            if batch is not None:
                batch.changes.append(NodeChange(node, value, code))
            elif node.rule.is_source:
                while True:
                    try:
                        set_source(self._table, node, value, code, self._persistence)
                        return
                    except StoreConflictError:
                        self._reload()
                        node = self._current(node)
            else:
                while (stale := self._stale_input(node)) is not None:
                    self._refresh(self._table.nodes[stale])
                    node = self._current(node)  # another process may have written
                self._apply([NodeChange(node, value, code)])

    async def aset(self, name: str, *rest: Any, value: Any = NOTHING) -> None:
        """Set the value of a node whose inputs may have async computors; see `set`."""
        name, arguments, value = set_arguments(name, rest, value)
        while True:
            with self._lock:
                self._prepare()
                node = self._target(name, arguments)
                stale = self._stale_input(node) if current_batch(id(self)) is None else None
                if stale is None:
                    self._set(name, arguments, value)
                    return
            await self.apull(stale)

    def _stale_input(self, node: ConcreteNode) -> str | None:
        """Return an outdated input, which has to be computed before the node can be pinned."""
        inputs = self._table.inputs(node)
        return next((lower.key for lower in inputs if not is_up_to_date(self._table, lower)), None)

    def invalidate(self, name: str, *arguments: str | int) -> None:
        """Mark a node so that the next pull recomputes it. Does nothing for a node without a value.

        Raises SchemaPatternError if such a node is written like its schema, because all nodes may have been meant.
        """
        with self._lock:
            self._prepare()
            node = self._node(name, arguments)
            change = NodeChange(node, is_invalidated=True)
            batch = current_batch(id(self))
            if not (
                arguments
                or self._table.is_stored(node)
                or (batch and any(c.node is node for c in batch.changes))
            ) and is_own_pattern(node.rule, read_pattern(name)):
                raise pattern_error(name, read(name, ()), "invalidate")
            if batch is not None:
                batch.changes.append(change)
            else:
                self._apply([change])

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Apply all changes in this context as one revision and one transaction at its end; none if it raises.

        Pulls inside see the graph as it was before. An inner batch is part of the outer one.
        """
        batch, token = open_batch(id(self))
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            close_batch(token)
            with self._lock:
                batch.is_over = True
                if is_whole:
                    self._end(current_batch(id(self)), batch.changes)

    def _end(self, around: ChangeBatch | None, changes: list[NodeChange]) -> None:
        """Apply the changes of a batch, or pass them to the enclosing batch."""
        if around is not None:
            around.changes.extend(changes)
        else:
            self._prepare()
            self._apply(changes)

    def prune(self) -> list[str]:
        """Delete the orphans and return their keys."""
        with self._lock:
            while True:
                found = self.orphans()
                if not found or self._persistence is None:
                    return found
                try:
                    self._persistence.drop(found)
                except StoreConflictError:
                    continue  # another process wrote: list them again
                finally:
                    self._reload()
                return found

    def close(self) -> None:
        """Write pending records and close the store. Closing twice is allowed."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = self._needs_prepare = True
                if self._persistence is not None:
                    self._persistence.close()

    # -- within ------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Check that a request is allowed, and reload if the database has changed."""
        if self._is_closed:
            raise DependencyError("the graph is closed; create another one on its store")
        if self._is_computing or id(self) in _inside.get():
            raise DependencyError(
                "a computor cannot use its own graph, because the graph could not track the dependency; declare it "
                "in the inputs of its schema"
            )
        if self._persistence is None or self._reload_if_changed():
            return
        self._persistence.catch_up()
        if len(self._table.nodes) > self._max_nodes and not self._pulls:
            self._persistence.flush()
            self._reload()

    def _reload(self) -> None:
        """Discard the nodes in memory and start again from the database."""
        assert self._persistence is not None
        revision, gone = self._persistence.open(self.registry)
        self._table = NodeTable(self.registry, self._persistence, gone)
        self._table.revision = revision
        self._persistence.table = self._table

    def _node(self, name: Any, arguments: tuple[Any, ...]) -> ConcreteNode:
        asked = read(name, arguments)
        node = self._table.find(asked.name, asked.arguments)
        if node is None:
            raise self._unknown(asked)
        return node

    def _unknown(self, asked: Expression) -> InvalidNodeError:
        return self.registry.unknown(asked.name, asked.arguments, self._table.nodes)

    def _is_new_atom(self, asked: Expression) -> bool:
        """Return whether setting this unknown node makes it a source."""
        return not asked.arguments and self.registry.arity(asked.name) is None

    def _target(self, name: Any, arguments: tuple[Any, ...]) -> ConcreteNode:
        """Return the node to set."""
        node = None if arguments or type(name) is not str else self._table.nodes.get(name)
        if node is not None and not node.rule.is_pattern:
            return node
        asked = read(name, arguments)
        node = self._table.find(asked.name, asked.arguments)
        if node is None:
            if not self._is_new_atom(asked):
                raise self._unknown(asked)
            node = self._table.source(asked.name)
        elif not arguments and is_own_pattern(node.rule, read_pattern(name)):
            raise pattern_error(name, asked, "set", ", value=...")
        return node

    def _reload_if_changed(self) -> bool:
        """Reload if another process has written; records of two revisions must not be mixed."""
        if self._persistence is None or self._persistence.is_current():
            return False
        self._reload()
        return True

    def _refresh(self, node: ConcreteNode) -> ConcreteNode:
        """Bring an outdated node up to date."""
        plan = plan_of(self._table, node)
        while self._reload_if_changed():
            node = self._current(node)
            if is_up_to_date(self._table, node):
                return node
            plan = plan_of(self._table, node)
        table, persistence = self._table, self._persistence
        needed_prepare = self._needs_prepare
        self._is_computing = self._needs_prepare = True
        try:
            finished = None if persistence is None else persistence.finished
            watch = finished if self._progress is None else self._progress.watch(len(plan), finished)
            bring_up_to_date(table, plan, watch)
        except BaseException:
            if persistence is not None:
                try:
                    persistence.flush()
                except StoreError:
                    pass  # computed records wait for the next write; raise the first error
            raise
        finally:
            self._is_computing, self._needs_prepare = False, needed_prepare
        node.checked_at = table.revision
        if persistence is not None:
            persistence.flush()
        return node

    def _apply(self, queue: list[NodeChange]) -> None:
        while True:
            for change in queue:
                change.node = self._current(change.node)
            changes = [
                change
                for change in merged(queue)
                if change.value is not NOTHING or self._table.is_stored(change.node)
            ]
            if not changes:
                return
            needed_prepare = self._needs_prepare
            self._is_computing = self._needs_prepare = True
            try:
                apply(self._table, changes, self._persistence)
                return
            except StoreConflictError:
                self._reload()
            finally:
                self._is_computing, self._needs_prepare = False, needed_prepare

    def _current(self, node: ConcreteNode) -> ConcreteNode:
        """Return the node in the current table."""
        if self._table.nodes.get(node.key) is node:
            return node
        found = self._table.find(node.rule.output.name, node.arguments)
        return self._table.source(node.key) if found is None else found

    def _enter(self) -> None:
        self._pulls += 1
        self._needs_prepare = True

    def _leave(self) -> None:
        with self._lock:
            self._pulls -= 1
            self._needs_prepare = bool(self._pulls) or self._is_closed or self._persistence is not None

    def _keys(self, prefix: str) -> Iterable[str]:
        if self._persistence is not None:
            self._persistence.flush()
            return self._persistence.keys(prefix)
        nodes = self._table.nodes
        return sorted(
            key
            for key, node in nodes.items()
            if key.startswith(prefix) and self._table.row(node).verified_at >= 0
        )

    def _is_materialized(self, key: str, wanted: Expression | None) -> bool:
        node = read_node(key)
        if wanted is not None:
            alike = wanted.name == node.name and len(wanted.arguments) == len(node.arguments)
            if not alike or match(wanted.arguments, node.arguments) is None:
                return False
        found = self.registry.find(node.name, node.arguments)
        if found is None and node.arguments:
            return False
        return (found is not None and found[0].computor is not None) or self._origin(key) == SET

    def _is_orphan(self, key: str) -> bool:
        node = read_node(key)
        return self.registry.find(node.name, node.arguments) is None and self._origin(key) == COMPUTED

    def _origin(self, key: str) -> int:
        row: NodeRecord | None
        if self._persistence is None:
            row = self._table.nodes[key].row
        else:
            try:
                row = self._persistence.load(key)
            except StoreCorruptError:
                return SET  # unknown: list it, and never prune it
        return COMPUTED if row is None else row.origin
