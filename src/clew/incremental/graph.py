"""`DependencyGraph`: values that are computed when somebody asks, and again only if what they are made from changed.

This is the door: it reads names, takes the lock, keeps the database and the memory together, and hands on. What counts
as up to date is in `sources`, what a pull looks at in `plans`, how it goes on in `walks` and `awaiting`, what a `set`
does in `changes`.

One lock guards a graph. A `pull` holds it while its computors run, so other threads wait; an `apull` lets go of it
whenever it awaits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from clew.errors import (
    DependencyError,
    InvalidNodeError,
    StoreConflictError,
    StoreCorruptError,
    StoreError,
)
from clew.incremental.arguments import check_options, is_a_pattern, read, to_set
from clew.incremental.async_pull import AsyncPull, ConcurrencyLimit, Running
from clew.incremental.changes import (
    NOTHING,
    ChangeBatch,
    NodeChange,
    apply,
    batch_here,
    left,
    merged,
    opened,
    set_source,
)
from clew.incremental.explanation import Explanation, explain, freshness
from clew.incremental.expressions import Expression, match, read_node, read_pattern
from clew.incremental.freshness import is_up_to_date
from clew.incremental.mutation_check import check_all
from clew.incremental.nodes import COMPUTED, SET, ConcreteNode, NodeRecord, NodeTable
from clew.incremental.persistence import GraphPersistence
from clew.incremental.pull_plan import plan_of
from clew.incremental.schemas import NodeSchema, SchemaRegistry, is_own_pattern
from clew.incremental.sync_pull import walk
from clew.incremental.values import code_of
from clew.stores.factory import open_table

_inside: ContextVar[tuple[int, ...]] = ContextVar("_inside", default=())  # graphs whose computors run here


class DependencyGraph:
    """A graph of nodes that are computed when they are pulled, and again only when they have to be.

    Args:
        schemas: What nodes there can be: a list of what `clew.schema` returns.
        store: Where values are kept: None for memory; a path for a SQLite file; ``postgresql://...``; or a
            store object, in whose place the graph then lies.
        name: Tells apart several graphs in one store.
        max_concurrency: So many async computors run at the same time, at most.
        keep_in_memory: So many nodes are kept in memory beside a database; if there are more, all are read again.
        check_mutation: Notice computors that change their inputs in place: MutationError. It copies every input.
    """

    def __init__(
        self,
        schemas: Iterable[NodeSchema],
        store: Any = None,
        *,
        name: str = "graph",
        max_concurrency: int = 64,
        keep_in_memory: int = 1_000_000,
        check_mutation: bool = False,
    ) -> None:
        check_options(name, max_concurrency, keep_in_memory)
        self.catalog = SchemaRegistry(schemas)
        if check_mutation:
            check_all(self.catalog.rules)
        self.options: dict[str, Any] = {  # for another graph like this one
            "name": name,
            "max_concurrency": max_concurrency,
            "keep_in_memory": keep_in_memory,
            "check_mutation": check_mutation,
        }
        self._slots = ConcurrencyLimit(max_concurrency)
        self._most = keep_in_memory
        self._lock = threading.RLock()
        self._running: Running = {}
        self._pulls = 0  # async ones that are under way
        self._is_computing = False  # a walk holds the lock, in this thread
        self._is_closed = False
        self._keeper: GraphPersistence | None = None
        if store is not None:
            self._keeper = GraphPersistence(open_table(store, f"graph {name}"))
            try:
                self._reload()
            except BaseException:
                self._keeper.shelf.close()
                raise
        else:
            self._table = NodeTable(self.catalog, None, {})
        self._is_special = self._keeper is not None  # there is more to do before a request than to do it

    def __repr__(self) -> str:
        return f"DependencyGraph({len(self.catalog.rules)} schemas, revision {self.revision})"

    def __enter__(self) -> DependencyGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------------

    @property
    def schemas(self) -> tuple[NodeSchema, ...]:
        """The schemas that the graph was built from."""
        return tuple(rule.schema for rule in self.catalog.rules)

    @property
    def revision(self) -> int:
        """How many changes the graph has seen: each `set`, `invalidate` or batch makes one."""
        return self._table.revision

    def pull(self, name: str, *arguments: str | int) -> Any:
        """The value of a node, up to date. ``pull("photo(p5)")`` and ``pull("photo", "p5")`` are the same."""
        with self._lock:
            if self._is_special:
                self._prepare()
            table = self._table
            try:
                node = table.nodes.get(name) if not arguments else None
            except TypeError:  # it has no hash, so it is no text
                node = None
            if node is None:
                node = self._node(name, arguments)
            if node.checked_at != table.revision and not is_up_to_date(table, node):
                node = self._bring(node)
            row = node.row
            return row.value if row.code is None else row.get()

    async def apull(self, name: str, *arguments: str | int) -> Any:
        """The value of a node, up to date; async computors are awaited, independent ones at the same time."""
        with self._lock:
            self._prepare()
            node = self._node(name, arguments)
            while not is_up_to_date(self._table, node):
                pull = AsyncPull(self._table, node, self._keeper, self._lock, self._running, self._slots)
                if not self._has_moved():
                    break
                node = self._here(node)
            else:
                return node.row.get()
            self._enter()
        token = _inside.set((*_inside.get(), id(self)))
        try:
            return (await pull.run()).get()
        finally:
            _inside.reset(token)
            self._leave()

    def freshness(self, name: str, *arguments: str | int) -> str | None:
        """``"up-to-date"``, ``"potentially-outdated"``, or None for a node that has no value."""
        with self._lock:
            self._prepare()
            asked = read(name, arguments)
            node = self._table.find(asked.name, asked.arguments)
            if node is None and self._is_new_atom(asked):
                return None
            return freshness(self._table, node or self._node(name, arguments))

    def explain(self, name: str, *arguments: str | int) -> Explanation:
        """Which sources changed at which revision, and why the node was or was not computed anew."""
        with self._lock:
            self._prepare()
            return explain(self._table, self._node(name, arguments))

    def materialized(self, pattern: str | None = None) -> list[str]:
        """The nodes that have a value: all, or those of a pattern (``"photo(p)"``, or ``"photo"``)."""
        with self._lock:
            self._prepare()
            wanted = None if pattern is None else read_pattern(pattern)
            if wanted is not None and not wanted.arguments and self.catalog.arity(wanted.name):
                prefix, wanted = f"{wanted.name}(", None  # the name alone means all its nodes
            elif wanted is not None:
                prefix = f"{wanted.name}(" if wanted.arguments else wanted.name
            else:
                prefix = ""
            return [key for key in self._keys(prefix) if self._is_there(key, wanted)]

    def orphans(self) -> list[str]:
        """The nodes that were computed by schemas which are no more."""
        with self._lock:
            self._prepare()
            return [key for key in self._keys("") if self._is_orphan(key)]

    def draw(
        self, format: Literal["mermaid", "dot", "svg"] = "mermaid", *, nodes: bool = False, limit: int = 200
    ) -> str:
        """The schemas as a drawing; or, with ``nodes=True``, the nodes that have a value, up to `limit` of them."""
        from clew.incremental.drawing import draw

        return draw(self, format, nodes=nodes, limit=limit)

    # -- changing ----------------------------------------------------------------------------------------

    def set(self, name: str, *rest: Any, value: Any = NOTHING) -> None:
        """Give a node a value: ``set("photo(p5)", value)``, or ``set("photo", "p5", value=value)``.

        On a node that has inputs the value is a pin: it holds until one of the node's sources is touched.
        """
        self._set(*to_set(name, rest, value))

    def _set(self, name: str, arguments: tuple[Any, ...], value: Any) -> None:
        with self._lock:
            if self._is_special:
                self._prepare()
            node = self._target(name, arguments)
            code = code_of(value, node.key)
            batch = batch_here(id(self))
            if batch is not None:
                batch.changes.append(NodeChange(node, value, code))
            elif node.rule.is_source:
                while True:
                    try:
                        set_source(self._table, node, value, code, self._keeper)
                        return
                    except StoreConflictError:
                        self._reload()
                        node = self._here(node)
            else:
                while (stale := self._stale_input(node)) is not None:
                    self._bring(self._table.nodes[stale])
                    node = self._here(node)  # somebody else may have written meanwhile
                self._apply([NodeChange(node, value, code)])

    async def aset(self, name: str, *rest: Any, value: Any = NOTHING) -> None:
        """Like `set`, where inputs of the node may have async computors."""
        name, arguments, value = to_set(name, rest, value)
        while True:
            with self._lock:
                self._prepare()
                node = self._target(name, arguments)
                stale = self._stale_input(node) if batch_here(id(self)) is None else None
                if stale is None:
                    self._set(name, arguments, value)
                    return
            await self.apull(stale)

    def _stale_input(self, node: ConcreteNode) -> str | None:
        """An input that a pin has to wait for."""
        inputs = self._table.inputs(node)
        return next((lower.key for lower in inputs if not is_up_to_date(self._table, lower)), None)

    def invalidate(self, name: str, *arguments: str | int) -> None:
        """Have a node computed again at its next pull. Nothing happens to a node that has no value.

        But if the node's arguments are those of its schema, perhaps all nodes were meant: SchemaPatternError.
        """
        with self._lock:
            self._prepare()
            node = self._node(name, arguments)
            change = NodeChange(node, is_invalidated=True)
            batch = batch_here(id(self))
            if not (
                arguments
                or self._table.is_stored(node)
                or (batch and any(c.node is node for c in batch.changes))
            ) and is_own_pattern(node.rule, read_pattern(name)):
                raise is_a_pattern(name, read(name, ()), "invalidate")
            if batch is not None:
                batch.changes.append(change)
            else:
                self._apply([change])

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes within are one revision and one transaction, made at the end; none, if something is raised.

        Within, pulls see the graph as it was before. A batch within a batch is part of it.
        """
        batch, token = opened(id(self))
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            left(token)
            with self._lock:
                batch.is_over = True
                if is_whole:
                    self._end(batch_here(id(self)), batch.changes)

    def _end(self, around: ChangeBatch | None, changes: list[NodeChange]) -> None:
        """Make the changes of a batch, or hand them on."""
        if around is not None:
            around.changes.extend(changes)
        else:
            self._prepare()
            self._apply(changes)

    def prune(self) -> list[str]:
        """Drop the orphans, and nothing else; returns their names."""
        with self._lock:
            while True:
                found = self.orphans()
                if not found or self._keeper is None:
                    return found
                try:
                    self._keeper.drop(found)
                except StoreConflictError:
                    continue  # somebody else wrote: look again
                finally:
                    self._reload()
                return found

    def close(self) -> None:
        """Write what waits, and let go of the store. Closing twice is no error."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = self._is_special = True
                if self._keeper is not None:
                    self._keeper.close()

    # -- within ------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """What stands before each request: may it be made, and is what is in memory still true?"""
        if self._is_closed:
            raise DependencyError("the graph is closed; open another one on its store")
        if self._is_computing or id(self) in _inside.get():
            raise DependencyError(
                "a computor may not use its own graph, because nobody would know that it did; name what it needs "
                "among the inputs of its schema"
            )
        if self._keeper is None or self._has_moved():
            return
        self._keeper.catch_up()
        if len(self._table.nodes) > self._most and not self._pulls:
            self._keeper.flush()
            self._reload()

    def _reload(self) -> None:
        """Forget what is in memory, and begin again from what the database has."""
        assert self._keeper is not None
        revision, gone = self._keeper.open(self.catalog)
        self._table = NodeTable(self.catalog, self._keeper, gone)
        self._table.revision = revision
        self._keeper.table = self._table

    def _node(self, name: Any, arguments: tuple[Any, ...]) -> ConcreteNode:
        asked = read(name, arguments)
        node = self._table.find(asked.name, asked.arguments)
        if node is None:
            raise self._unknown(asked)
        return node

    def _unknown(self, asked: Expression) -> InvalidNodeError:
        return self.catalog.unknown(asked.name, asked.arguments, self._table.nodes)

    def _is_new_atom(self, asked: Expression) -> bool:
        """Whether a node that is not there becomes a source when it is set."""
        return not asked.arguments and self.catalog.arity(asked.name) is None

    def _target(self, name: Any, arguments: tuple[Any, ...]) -> ConcreteNode:
        """The node that is to be set."""
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
            raise is_a_pattern(name, asked, "set", ", value=...")
        return node

    def _has_moved(self) -> bool:
        """Whether somebody else has written. Then all rows are read again: those of two revisions may not be mixed."""
        if self._keeper is None or self._keeper.is_current():
            return False
        self._reload()
        return True

    def _bring(self, node: ConcreteNode) -> ConcreteNode:
        """Bring a stale node up to date."""
        plan = plan_of(self._table, node)
        while self._has_moved():
            node = self._here(node)
            if is_up_to_date(self._table, node):
                return node
            plan = plan_of(self._table, node)
        table, keeper = self._table, self._keeper
        was_special = self._is_special
        self._is_computing = self._is_special = True
        try:
            walk(table, plan, None if keeper is None else keeper.finished)
        except BaseException:
            if keeper is not None:
                try:
                    keeper.flush()
                except StoreError:
                    pass  # what was computed waits for the next write; the first error is the one to tell
            raise
        finally:
            self._is_computing, self._is_special = False, was_special
        node.checked_at = table.revision
        if keeper is not None:
            keeper.flush()
        return node

    def _apply(self, queue: list[NodeChange]) -> None:
        while True:
            for change in queue:
                change.node = self._here(change.node)
            changes = [
                change
                for change in merged(queue)
                if change.value is not NOTHING or self._table.is_stored(change.node)
            ]
            if not changes:
                return
            was_special = self._is_special
            self._is_computing = self._is_special = True
            try:
                apply(self._table, changes, self._keeper)
                return
            except StoreConflictError:
                self._reload()
            finally:
                self._is_computing, self._is_special = False, was_special

    def _here(self, node: ConcreteNode) -> ConcreteNode:
        """A node in the table that there is now."""
        if self._table.nodes.get(node.key) is node:
            return node
        found = self._table.find(node.rule.output.name, node.arguments)
        return self._table.source(node.key) if found is None else found

    def _enter(self) -> None:
        self._pulls += 1
        self._is_special = True

    def _leave(self) -> None:
        with self._lock:
            self._pulls -= 1
            self._is_special = bool(self._pulls) or self._is_closed or self._keeper is not None

    def _keys(self, prefix: str) -> Iterable[str]:
        if self._keeper is not None:
            self._keeper.flush()
            return self._keeper.keys(prefix)
        nodes = self._table.nodes
        return sorted(
            key
            for key, node in nodes.items()
            if key.startswith(prefix) and self._table.row(node).verified_at >= 0
        )

    def _is_there(self, key: str, wanted: Expression | None) -> bool:
        node = read_node(key)
        if wanted is not None:
            alike = wanted.name == node.name and len(wanted.arguments) == len(node.arguments)
            if not alike or match(wanted.arguments, node.arguments) is None:
                return False
        found = self.catalog.find(node.name, node.arguments)
        if found is None and node.arguments:
            return False
        return (found is not None and found[0].computor is not None) or self._origin(key) == SET

    def _is_orphan(self, key: str) -> bool:
        node = read_node(key)
        return self.catalog.find(node.name, node.arguments) is None and self._origin(key) == COMPUTED

    def _origin(self, key: str) -> int:
        row: NodeRecord | None
        if self._keeper is None:
            row = self._table.nodes[key].row
        else:
            try:
                row = self._keeper.load(key)
            except StoreCorruptError:
                return SET  # nobody can tell: it is listed, and never pruned
        return COMPUTED if row is None else row.origin
