"""A code hash covers the constants and functions that a node names, in every process alike."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from clew import Context, Graph, node
from clew.graph.hashing.code_hashes import code_hash

BASE = {
    "app/__init__.py": "",
    "app/prompts.py": """
        SYSTEM = "Be brief."
        UNUSED = 1
    """,
    "app/texts.py": """
        import dataclasses, enum, functools, re
        from datetime import timedelta
        from pathlib import PurePath

        LIMIT = 3
        NAMES = frozenset({"one", "two", "three", "four"})
        MARKS = (1, 2.5, "x", b"y", None, True)
        RULE = re.compile("a+")
        PLACE = PurePath("data/in.txt")
        WAIT = timedelta(seconds=3)

        class Tone(enum.Enum):
            KIND = "kind"
            DRY = "dry"

        @dataclasses.dataclass(frozen=True)
        class Settings:
            model: str = "small"
            size: int = 2

        SETTINGS = Settings(size=5)

        class Cleaner:
            MARK = "!"

            def clean(self, text):
                return self.strip(text) + self.MARK

            def strip(self, text):
                return text.strip()

        def inner(text):
            return text.lower()

        def outer(text):
            return inner(text)

        def decorated(func):
            @functools.wraps(func)
            def wrapper(*args):
                return func(*args)
            return wrapper

        @decorated
        def shout(text):
            return text.upper()

        @functools.lru_cache
        def counted(text):
            return len(text)

        repeated = functools.partial(inner)

        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n != 0 and even(n - 1)
    """,
    "app/flow.py": """
        from clew import Graph, node
        from app import prompts, texts
        from app.texts import Cleaner, Tone, outer, shout, counted, repeated, even

        TEMPLATE = "Answer: {}"

        @node(output="a")
        def constant(q):
            return TEMPLATE.format(q)

        @node(output="b")
        def attribute(q):
            return prompts.SYSTEM + q

        @node(output="c")
        def call(q):
            return outer(q)

        @node(output="d")
        def values(q):
            return (texts.LIMIT, texts.NAMES, texts.MARKS, texts.RULE, texts.PLACE, texts.WAIT, texts.SETTINGS)

        @node(output="e")
        def of_class(q):
            return Cleaner().clean(q)

        @node(output="f")
        def of_enum(q):
            return Tone.KIND.value

        @node(output="g")
        def wrapped(q):
            return shout(q)

        @node(output="h")
        def memo(q):
            return counted(q)

        @node(output="i")
        def partly(q):
            return repeated(q)

        @node(output="j")
        def recursive(q):
            return even(len(q))

        @node(output="k")
        def nested(q):
            return [(lambda: TEMPLATE)() for _ in q]

        @node(output="l")
        def alone(q):
            return json.dumps(q)

        import json

        graph = Graph([constant, attribute, call, values, of_class, of_enum, wrapped, memo, partly, recursive, nested,
                       alone])
    """,
}


def project(folder: Path, **changes: tuple[str, str]) -> Path:
    """Write a package; each change replaces a text in one of its modules."""
    for name, text in BASE.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        module = file.stem
        body = textwrap.dedent(text)
        if module in changes:
            old, new = changes[module]
            assert old in body
            body = body.replace(old, new)
        file.write_text(body)
    return folder


def hashes(folder: Path, seed: str = "0") -> dict[str, str]:
    """The hashes of the nodes in a process of its own."""
    script = "import json; from app.flow import graph; print(json.dumps(dict(graph.node_hashes)))"
    environment = {"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join([str(folder), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return hashes(project(tmp_path_factory.mktemp("base")))


CHANGES = [
    ("flow", "Answer: {}", "Reply: {}", {"constant", "nested"}),
    ("prompts", "Be brief.", "Be long.", {"attribute"}),
    ("prompts", "UNUSED = 1", "UNUSED = 2", set()),
    ("texts", "text.lower()", "text.title()", {"call", "partly"}),
    ("texts", "return inner(text)", "return inner(text) + ''", {"call"}),
    ("texts", "LIMIT = 3", "LIMIT = 4", {"values"}),
    ("texts", '"three", "four"', '"three", "five"', {"values"}),
    ("texts", 'b"y", None', 'b"z", None', {"values"}),
    ("texts", 're.compile("a+")', 're.compile("a*")', {"values"}),
    ("texts", "data/in.txt", "data/out.txt", {"values"}),
    ("texts", "seconds=3", "seconds=4", {"values"}),
    ("texts", "Settings(size=5)", "Settings(size=6)", {"values"}),
    ("texts", 'model: str = "small"', 'model: str = "large"', {"values"}),
    ("texts", "return text.strip()", "return text.lstrip()", {"of_class"}),
    ("texts", 'MARK = "!"', 'MARK = "?"', {"of_class"}),
    ("texts", 'DRY = "dry"', 'DRY = "wry"', {"of_enum"}),
    ("texts", "return text.upper()", "return text.swapcase()", {"wrapped"}),
    ("texts", "return func(*args)", "return func(*args) or None", {"wrapped"}),
    ("texts", "return len(text)", "return len(text) + 1", {"memo"}),
    ("texts", "partial(inner)", "partial(outer)", {"partly"}),
    ("texts", "n != 0 and", "n > 0 and", {"recursive"}),
    ("texts", "LIMIT = 3", "LIMIT = 3  # a comment", set()),
]


@pytest.mark.parametrize("module, old, new, nodes", CHANGES, ids=[f"{c[0]}: {c[2]}" for c in CHANGES])
def test_a_change_reaches_the_nodes_that_name_it(
    module: str, old: str, new: str, nodes: set[str], base: dict[str, str], tmp_path: Path
) -> None:
    found = hashes(project(tmp_path, **{module: (old, new)}))
    assert {name for name in base if base[name] != found[name]} == nodes


@pytest.mark.parametrize("seed", ["1", "2", "77"])
def test_a_hash_is_the_same_in_another_place_and_under_another_seed(
    seed: str, base: dict[str, str], tmp_path: Path
) -> None:
    assert hashes(project(tmp_path / "elsewhere" / seed), seed) == base


# -- in this process -------------------------------------------------------------------------------------------------

PROMPT = "one"
CLIENT: Any = object()
ROUTES = {"a": 1}
FROZEN = MappingProxyType({"b": (1, 2), "a": frozenset("xyz")})
COUNT = 0


def reads_prompt(q: str) -> str:
    return PROMPT + q


def test_a_module_value_that_is_assigned_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph([node(reads_prompt, output="a")])
    first = graph.node_hashes
    assert graph.node_hashes is first  # computed once
    monkeypatch.setitem(globals(), "PROMPT", "two")
    assert graph.node_hashes["reads_prompt"] != first["reads_prompt"]
    monkeypatch.setitem(globals(), "PROMPT", "one")
    assert graph.node_hashes == first


def test_a_graph_hashes_nothing_when_it_is_built() -> None:
    graph = Graph([node(reads_prompt, output="a")])
    assert "_code" not in graph.__dict__
    assert "_code" not in graph.nodes["reads_prompt"].__dict__


def test_what_cannot_be_hashed_is_listed() -> None:
    held = object()

    def asks(q: str) -> Any:
        return CLIENT, ROUTES, held

    def safe(q: str) -> Any:
        return FROZEN

    inner = Graph([node(asks, output="a")], name="inner")
    graph = Graph([inner, node(safe, output="b")])
    whats = ["CLIENT (object)", "ROUTES (dict)", "held (object)"]
    assert inner.describe(json=True)["unhashed"] == {"asks": whats}
    assert graph.describe(json=True)["unhashed"] == {"inner": [f"asks: {what}" for what in whats]}
    assert "CLIENT (object)" in inner.describe()
    assert code_hash(safe).unhashed == ()


def test_a_global_that_the_function_assigns_is_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(q: str) -> int:
        global COUNT
        COUNT += 1
        return COUNT

    before = code_hash(counts)
    counts("")
    assert (before.is_current(), code_hash(counts).digest) == (True, before.digest)
    assert before.unhashed == ()


def test_an_import_inside_a_function_is_listed() -> None:
    names: dict[str, Any] = {"__name__": "mine.flow"}
    exec("def f(q):\n    from mine.prompts import P\n    import json\n    return P", names)
    assert code_hash(names["f"]).unhashed == ("mine.prompts (imported inside f)",)


@pytest.mark.parametrize(
    "expression, unhashed",
    [
        ("getattr(prompts, q)", ("prompts (module)",)),
        ("vars(prompts)[q]", ("prompts (module)",)),
        ("prompts.__dict__[q]", ("prompts (module)",)),
        ("getattr(package.prompts, q)", ("package.prompts (module)",)),
        ("(lambda: getattr(prompts, q))()", ("prompts (module)",)),
        ("helper(prompts, q)", ("prompts (module)",)),
        ("globals()[q]", ("globals()",)),
        ("eval(q)", ("eval()",)),
        ("prompts.EN + package.prompts.EN", ()),
        ("getattr(json, q), getattr(q, 'upper'), vars(json)", ()),
    ],
)
def test_a_module_value_with_a_computed_name_is_listed(expression: str, unhashed: tuple[str, ...]) -> None:
    prompts, package = ModuleType("mine.prompts"), ModuleType("mine")
    prompts.EN = "hello"
    package.prompts = prompts
    names: dict[str, Any] = {"__name__": "mine.flow", "json": json, "prompts": prompts, "package": package}
    exec(f"def helper(module, q): return getattr(module, q)\ndef f(q): return {expression}", names)
    assert code_hash(names["f"]).unhashed == unhashed


def test_a_module_in_a_closure_is_listed() -> None:
    held = ModuleType(__name__)

    def f(q: str) -> Any:
        return getattr(held, q)

    assert code_hash(f).unhashed == ("held (module)",)


def test_a_library_is_not_followed() -> None:
    def f(q: str) -> Any:
        return textwrap.dedent(q), json.dumps(q), pytest.approx(1)

    assert not any(names is vars(textwrap) or names is vars(json) for names, _, _ in code_hash(f).reads)
    assert code_hash(textwrap.dedent).reads == ()


def test_a_long_chain_of_calls_has_a_hash() -> None:
    names: dict[str, Any] = {"__name__": "mine"}
    exec("\n".join(f"def f{i}(q):\n    return f{i + 1}(q)" for i in range(2_000)), names)
    exec("def f2000(q): return q", names)
    first = code_hash(names["f0"]).digest
    exec("def f2000(q): return -q", names)
    assert code_hash(names["f0"]).digest != first


# -- graphs that code names --------------------------------------------------------------------------------------------


def plus_one(n: int) -> int:
    return n + 1


def plus_two(n: int) -> int:
    return n + 2


def scaled(n: int, factor: int) -> int:
    return n * factor


def kid(func: Any, name: str = "add") -> Graph:
    return Graph([node(func, output="m", name=name)], name="kid")


KID = kid(plus_one)


def runs_child(n: int, ctx: Context) -> Any:
    return ctx.run(KID, {"n": n})["m"]


def test_a_child_graph_of_the_module_counts_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph([node(runs_child, output="a")])
    first = graph.node_hashes["runs_child"]
    assert code_hash(runs_child).unhashed == ()

    def after(changed: Graph) -> str:
        monkeypatch.setitem(globals(), "KID", changed)
        return graph.node_hashes["runs_child"]

    assert after(kid(plus_one)) == first
    around = Graph([kid(plus_one).as_node("sub", inputs=("n",), outputs=("m",))])
    found = {
        first,
        after(kid(plus_two)),
        after(kid(plus_one, name="other")),
        after(around),
        after(Graph([kid(plus_two).as_node("sub", inputs=("n",), outputs=("m",))])),
        after(kid(scaled).bind(factor=2)),
        after(kid(scaled).bind(factor=3)),
    }
    assert len(found) == 7


def test_a_module_value_that_a_child_reads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KID", Graph([node(reads_prompt, output="m")]))
    graph = Graph([node(runs_child, output="a")])
    first = graph.node_hashes["runs_child"]
    monkeypatch.setitem(globals(), "PROMPT", "two")
    assert graph.node_hashes["runs_child"] != first


def test_a_child_graph_in_a_closure_counts_with_its_code() -> None:
    def caller(graph: Graph) -> Any:
        def runs(n: int, ctx: Context) -> Any:
            return ctx.run(graph, {"n": n})["m"]

        return runs

    one, same, two = (code_hash(caller(kid(func))) for func in (plus_one, plus_one, plus_two))
    assert one.unhashed == ()
    assert one.digest == same.digest
    assert one.digest != two.digest


def test_a_child_that_runs_itself_has_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[Graph, Graph]:
        recursive = Graph([node(runs_child, output="m")], name="recursive")
        monkeypatch.setitem(globals(), "KID", recursive)
        return recursive, Graph([node(runs_child, output="a", name="outer")])

    inner, outer = made()
    forwards = (inner.node_hashes["runs_child"], outer.node_hashes["outer"])
    inner, outer = made()
    backwards = (outer.node_hashes["outer"], inner.node_hashes["runs_child"])
    assert forwards == backwards[::-1]


def test_fields_without_a_default_are_covered() -> None:
    import dataclasses

    import msgspec

    @dataclasses.dataclass(frozen=True)
    class Settings:
        name: str
        limit: int = 3
        tags: tuple[str, ...] = dataclasses.field(default_factory=tuple)

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        name: str
        tags: list[str] = msgspec.field(default_factory=list)

    settings, options = Settings("a"), Options(name="a", tags=())
    assert code_hash(lambda: (settings.limit, options.name)).unhashed == ()
    other = dataclasses.replace(settings, name="b")
    assert code_hash(lambda: settings.limit).digest != code_hash(lambda: other.limit).digest


ORDERS = """
import dataclasses, functools
from clew import Graph, node

@dataclasses.dataclass
class Item:
    price: int

    def total(self):
        return self.price

class Base:
    def tax(self):
        return 1

@dataclasses.dataclass
class Order(Base):
    items: list[Item]

    def total(self):
        return sum(item.total() for item in self.items)

    @property
    def size(self):
        return len(self.items)

    @classmethod
    def empty(cls):
        return cls([])

@node(output="total")
def price(orders: dict[str, Order | None]) -> int:
    return sum(order.total() for order in orders.values() if order)

@node(output="order")
def read(text: str) -> Order:
    return text

@node(output="plain")
def untyped(order):
    return order.total()

graph = Graph([price, read, untyped])
"""


def hashes_of(text: str) -> dict[str, str]:
    module = ModuleType("orders_of_a_shop")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, "orders.py", "exec"), vars(module))
        return dict(module.graph.node_hashes)
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize(
    "old, new, nodes",
    [
        ("return sum(item.total() for", "return 2 * sum(item.total() for", {"price"}),
        ("return self.price", "return self.price + 1", {"price"}),
        ("return 1", "return 2", {"price"}),
        ("return len(self.items)", "return len(self.items) + 1", {"price"}),
        ("return cls([])", "return cls([None])", {"price"}),
        ("    items: list[Item]", "    items: list[Item]\n    note: str = ''", set()),
        ("class Order(Base):", "class Order(Base):\n    'An order.'", set()),
    ],
)
def test_methods_of_the_classes_of_parameters_count(old: str, new: str, nodes: set[str]) -> None:
    assert old in ORDERS
    then, now = hashes_of(ORDERS), hashes_of(ORDERS.replace(old, new))
    assert then == hashes_of(ORDERS)
    assert {name for name in then if then[name] != now[name]} == nodes


def test_the_state_class_counts_with_its_methods_only() -> None:
    def made(code: str) -> str:
        text = f"""
from dataclasses import dataclass
from clew import Graph, node

@dataclass
class State:
    a: int = 0
    b: int = 0
{code}

@node(output="b")
def add(state: State) -> int:
    return state.a

graph = Graph([add], state=State)
"""
        return hashes_of(text)["add"]

    assert made("") == made("    c: int = 3")
    assert made("    def twice(self): return 2") != made("    def twice(self): return 3")
