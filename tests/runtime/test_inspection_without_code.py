"""A store alone is enough to inspect its runs: without the graph, without the classes, or with classes that changed."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    MemoryStore,
    Overwrite,
    SQLiteStore,
    StoredObject,
    append,
    ifelse,
    interrupt,
    node,
    register_type,
    route,
)
from clew.cli.commands.doctor import examine
from clew.engine.records import SingleItemStep
from clew.errors import ClassChangedError, DefinitionError, GraphWarning, InputError
from clew.stores import Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    if request.param == "memory":
        store = MemoryStore()
        yield lambda: store
    elif request.param == "sqlite":
        yield lambda: SQLiteStore(tmp_path / "runs.db")
    else:
        yield request.getfixturevalue("open_postgres")


def longest(left: list[str], right: list[str]) -> list[str]:
    return max(left, right, key=len)


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[str], append]
    best: Annotated[list[str], longest]
    inner: int
    answer: bool


@node(writes=("n", "log", "best"))
def count(n: int) -> dict[str, Any]:
    return {"n": n + 1, "log": f"turn {n}", "best": ["x"] * n}


@ifelse(when_true="count", when_false="deep")
def more(n: int) -> bool:
    return n < 3


@node(output="inner")
def double(n: int) -> int:
    return 2 * n


@interrupt(output="answer")
def ask(inner: int) -> str:
    return f"is {inner} right?"


def graph() -> Graph:
    deep = Graph([double], name="deep").as_node("deep", inputs=("n",), outputs=("inner",))
    return Graph([count, more, deep, ask], state=State, name="counting")


START: dict[str, Any] = {"n": 0, "log": [], "best": []}


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    engine = Engine(graph(), store=open_store())
    assert engine.run(START, run_id="r").status == "waiting"
    engine.label_checkpoint("r", "third", step=3)
    engine.fork("r", step=2, values={"n": 2}, run_id="f")
    return open_store()


def test_without_a_graph_everything_can_be_inspected(store: Store) -> None:
    whole, bare = Engine(graph(), store=store), Engine(store=store)
    for run in ("r", "f"):
        assert bare.state(run) == whole.state(run)
        assert bare.state(run).digest == whole.state(run).digest
        old, new = whole.history(run, nested=True), bare.history(run, nested=True)
        assert [(e.state, e.digest, e.items, [*e.nested]) for e in new] == [
            (e.state, e.digest, e.items, [*e.nested]) for e in old
        ]
        assert [item.path for item in bare.frontier(run)] == [item.path for item in whole.frontier(run)]
        assert str(bare.why(run, "inner")) == str(whole.why(run, "inner"))
        assert bare.export_run(run) == whole.export_run(run)
        result = bare.result(run)
        assert (result.status, result["inner"]) == ("waiting", 6)
        assert [each.question for each in result.questions] == ["is 6 right?"]
    assert str(bare.diff("r", "f")) == str(whole.diff("r", "f"))
    assert bare.state("r", "third").step == 3
    assert [row.run_id for row in bare.runs()] == ["r", "f"]
    assert repr(bare) == f"<Engine on {store!r}>"


@pytest.mark.parametrize("verb", ["run", "resume", "fork", "rerun", "replay"])
def test_a_verb_that_runs_nodes_asks_for_the_graph(store: Store, verb: str) -> None:
    engine = Engine(store=store)
    with pytest.raises(InputError, match="no graph"):
        getattr(engine, verb)(*(() if verb == "run" else ("r",)))
    with pytest.raises(InputError):
        _ = engine.graph
    assert store.owner("r") is None if store.encodes else True


def test_runs_are_deleted_imported_and_pruned_without_a_graph(store: Store) -> None:
    engine = Engine(store=store)
    document = engine.export_run("f")
    engine.delete("f")
    engine.import_run(document)
    assert engine.state("f").digest == document["checkpoints"][-1]["clew"]["digest"]
    assert engine.prune(status="waiting") == ["r", "f"]


def test_another_graph_reads_a_run_as_its_own_would(store: Store) -> None:
    other = Engine(Graph([double]), store=store)
    assert other.state("r") == Engine(graph(), store=store).state("r")
    assert [e.digest for e in other.history("f")] == [
        e.digest for e in Engine(graph(), store=store).history("f")
    ]


# -- classes that change ---------------------------------------------------------------------------------------------


def define(fields: list[Any], name: str = "Order", module: str = "shop_of_the_test") -> Any:
    """Define a dataclass in a module of its own, as a program of another day has it."""
    place = sys.modules.setdefault(module, types.ModuleType(module))
    cls = dataclasses.make_dataclass(name, fields, frozen=True)
    cls.__module__ = module
    setattr(place, name, cls)
    return cls


@pytest.fixture(autouse=True)
def no_modules() -> Iterator[None]:
    yield
    for name in ("shop_of_the_test", "later_shop_of_the_test"):
        for cls in vars(sys.modules.pop(name, types.ModuleType(name))).values():
            if isinstance(cls, type):
                forget(cls)


TODAY: list[Any] = []  # the class as the program has it today


changed_code = pytest.mark.filterwarnings("ignore:.*changed code:clew.errors.GraphWarning")


def ordering(cls: Any) -> Graph:
    TODAY[:] = [cls]

    def place(x: int) -> Any:
        return TODAY[0](f"book {x}")

    def tell(order: Any, go: bool) -> str:
        return f"{order.title} {getattr(order, 'price', None)}"

    def wait(x: int) -> str:
        return "go?"

    return Graph(
        [
            node(place, output="order"),
            interrupt(wait, output="go", after=["place"]),
            node(tell, output="told"),
        ]
    )


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    if request.param == "sqlite":
        yield lambda: SQLiteStore(tmp_path / "orders.db")
    else:
        yield request.getfixturevalue("open_postgres")


def forget(cls: Any) -> None:
    """A process that has never heard of a class: nothing but the registry knows it."""
    from clew.state import registry

    tables: list[dict[Any, Any]] = [
        registry._by_class,
        registry._by_name,
        registry._by_origin,
        registry._by_alias,
    ]
    for table in tables:
        for key in [key for key, entry in table.items() if entry.cls.__name__ == cls.__name__]:
            del table[key]


@pytest.fixture
def ordered(durable: Callable[[], Store]) -> tuple[Callable[[], Store], str]:
    cls = register_type(define(["title", ("notes", str, dataclasses.field(default="n"))]))
    result = Engine(ordering(cls), store=durable()).run({"x": 1}, run_id="r")
    digest = result.state.digest
    forget(cls)
    return durable, digest


def check(store: Store, digest: str) -> None:
    """What needs no class: the digests are as they were, the doctor has nothing to say, a document travels."""
    bare = Engine(store=store)
    assert bare.state("r").digest == digest
    assert repr(bare.state("r").get("order")) == "Order(title='book 1', notes='n')"
    assert examine(store)["damage"] == []
    other = MemoryStore()
    assert Engine(store=other).import_run(bare.export_run("r")).run_id == "r"
    assert Engine(store=other).state("r").digest == digest


def test_a_field_with_a_default_is_gained(ordered: tuple[Callable[[], Store], str]) -> None:
    durable, digest = ordered
    cls = register_type(define(["title", ("notes", str, dataclasses.field(default="n")), ("price", int, 5)]))
    engine = Engine(ordering(cls), store=durable())
    assert engine.state("r").get("order") == cls("book 1", "n", 5)
    assert engine.state("r").digest == digest
    assert engine.history("r")[-1].digest == digest
    assert engine.replay("r").ok
    assert engine.fork("r", step=1, run_id="f").status == "waiting"
    assert engine.resume("f", answer=True)["told"] == "book 1 5"
    assert engine.resume("r", answer=True)["told"] == "book 1 5"
    assert examine(engine.store)["damage"] == []
    assert [each.digest for each in engine.history("r")][1] == digest


def test_a_field_is_lost(ordered: tuple[Callable[[], Store], str]) -> None:
    durable, digest = ordered
    cls = register_type(define(["title"]))
    engine = Engine(ordering(cls), store=durable())
    with pytest.warns(GraphWarning, match="notes"):
        assert engine.state("r").get("order") == cls("book 1")
    check(durable(), digest)
    with pytest.warns(GraphWarning, match="notes"):
        assert engine.resume("r", answer=True)["told"] == "book 1 None"


def test_a_class_is_renamed(ordered: tuple[Callable[[], Store], str]) -> None:
    durable, digest = ordered
    cls = define(["title", "notes"], name="Purchase", module="later_shop_of_the_test")
    register_type(cls, aliases=("shop_of_the_test.Order",))
    engine = Engine(ordering(cls), store=durable())
    assert engine.state("r").get("order") == cls("book 1", "n")
    assert engine.resume("r", answer=True)["told"] == "book 1 None"
    assert engine.history("r")[1].digest == digest
    forget(cls)


@changed_code
def test_a_class_needs_a_field_that_was_not_stored(ordered: tuple[Callable[[], Store], str]) -> None:
    durable, digest = ordered
    cls = register_type(define(["title", "notes", "needed"]))
    engine = Engine(ordering(cls), store=durable())
    order = StoredObject("shop_of_the_test:Order", {"title": "book 1", "notes": "n"})
    assert engine.state("r").get("order") == engine.history("r")[-1].values["order"] == order
    assert engine.result("r")["order"] == order
    assert engine.why("r", "order")
    assert not engine.diff("r", "r")
    assert engine.frontier("r")
    check(durable(), digest)
    result = engine.resume("r", answer=True, check=False)
    error = result.error
    assert isinstance(error, ClassChangedError)
    assert (error.name, error.missing) == ("shop_of_the_test:Order", ("needed",))
    for told in ("'r'", "step 3", "'tell'", "'order'"):
        assert told in str(error)
    assert engine.state("r").get("go") is True  # what does not read it goes on
    again = engine.rerun("r", run_id="again", check=False)  # made again, by today's class
    assert (again.status, type(again.error)) == ("failed", TypeError)
    register_type(cls, upgrade=lambda fields: {"needed": 1, **fields})
    assert Engine(ordering(cls), store=durable()).resume("r")["told"] == "book 1 None"


@changed_code
def test_an_enum_loses_a_member_that_no_node_reads(durable: Callable[[], Store]) -> None:
    def painting(*members: str) -> Graph:
        color = enum.Enum("Color", members, module="shop_of_the_test", qualname="Color")
        sys.modules.setdefault("shop_of_the_test", types.ModuleType("shop_of_the_test")).Color = color
        register_type(color)

        @node(output="color")
        def paint(x: int) -> Any:
            return {color[members[-1]]: [color[members[0]]]}

        @interrupt(output="ok")
        def ask(color: Any) -> str:
            return "fine?"

        @node(output="out")
        def finish(ok: bool, x: int) -> int:
            return x

        return Graph([paint, ask, finish])

    Engine(painting("RED", "BLUE"), store=durable()).run({"x": 1}, run_id="r")
    engine = Engine(painting("RED"), store=durable())
    ((blue, (red,)),) = engine.state("r").get("color").items()
    assert (blue, red.name) == (StoredObject("shop_of_the_test:Color", "BLUE"), "RED")
    assert engine.resume("r", answer=True)["out"] == 1
    assert engine.rerun("r", run_id="again").status == "waiting"


@changed_code
def test_a_recorded_call_of_a_changed_class_is_not_given_to_a_node(durable: Callable[[], Store]) -> None:
    def calling(cls: Any, healed: bool) -> Graph:
        @node(output="told")
        def tell(x: int, ctx: Context) -> str:
            found = ctx.record("find", lambda: cls("book"))
            if not healed:
                raise OSError("no")
            return str(found.title)

        return Graph([tell])

    Engine(calling(register_type(define(["title"])), healed=False), store=durable()).run(
        {"x": 1}, run_id="r", check=False
    )
    cls = register_type(define(["title", "needed"]))
    error = Engine(calling(cls, healed=True), store=durable()).resume("r", check=False).error
    assert isinstance(error, ClassChangedError)
    assert (error.name, error.missing) == ("shop_of_the_test:Order", ("needed",))
    assert "'find'" in str(error)


@changed_code
def test_an_answer_of_a_changed_class_is_not_given_to_a_node(durable: Callable[[], Store]) -> None:
    def asking(healed: bool) -> Graph:
        @node(output="told")
        def tell(x: int, ctx: Context) -> str:
            found = ctx.interrupt("which?")
            if not healed:
                raise OSError("no")
            return str(found.title)

        return Graph([tell])

    cls = register_type(define(["title"]))
    engine = Engine(asking(healed=False), store=durable())
    engine.run({"x": 1}, run_id="r")
    engine.resume("r", answer=cls("book"), check=False)
    register_type(define(["title", "needed"]))
    error = Engine(asking(healed=True), store=durable()).resume("r", check=False).error
    assert isinstance(error, ClassChangedError)
    assert error.missing == ("needed",)


def test_a_missing_class_is_an_error_only_where_a_node_reads_it(
    ordered: tuple[Callable[[], Store], str],
) -> None:
    durable, digest = ordered
    sys.modules.pop("shop_of_the_test")
    engine = Engine(ordering(None), store=durable())
    order = engine.state("r").get("order")
    assert order == StoredObject("shop_of_the_test:Order", {"title": "book 1", "notes": "n"})
    check(durable(), digest)
    result = engine.resume("r", answer=True, check=False)
    assert result.status == "failed"
    assert isinstance(result.error, ClassChangedError)
    assert result.error.name == "shop_of_the_test:Order"
    assert "'order'" in str(result.error)
    assert "'tell'" in str(result.error)
    assert engine.state("r").get("go") is True  # what does not read it goes on
    cls = register_type(define(["title", "notes"]))
    assert Engine(ordering(cls), store=durable()).resume("r")["told"] == "book 1 None"


def test_a_stored_object_elsewhere_in_the_process_slows_no_other_run() -> None:
    StoredObject("gone:Order", {"n": 1})

    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def again(n: int) -> Any:
        return "count" if n < 50 else END

    engine = Engine(Graph([count, again], entry="count"))
    engine.run({"n": 0}, run_id="r")
    assert sum(isinstance(entry, SingleItemStep) for entry in engine.store.entries("r")) > 90


def test_a_value_that_was_overwritten_is_read_without_code(tmp_path: Path) -> None:
    class Found(TypedDict):
        found: Annotated[list[int], append]
        n: int

    @node(writes="found")
    def find(n: int) -> dict[str, Any]:
        return {"found": n}

    @node(writes="found", after="find")
    def empty() -> dict[str, Any]:
        return {"found": Overwrite([7])}

    engine = Engine(Graph([find, empty], state=Found), store=SQLiteStore(tmp_path / "runs.db"))
    assert engine.run({"n": 1}, run_id="r")["found"] == [7]
    assert Engine(store=engine.store).state("r").get("found") == [7]
    assert Engine(Graph([find, empty], state=Found)).import_run(engine.export_run("r")).run_id == "r"


def test_names_of_the_format_are_reserved() -> None:
    class Mine:
        pass

    with pytest.raises(DefinitionError):
        register_type(Mine, name="clew:Overwrite", encode=vars, decode=Mine)
