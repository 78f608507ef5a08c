"""A document goes through JSON tools that know floats only, and comes back as the same run; a changed one does not."""

from __future__ import annotations

import copy
import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import CheckpointError
from clew.runtime.review.document_format import digest_of, normal
from tests.campaigns import PARTS
from tests.runtime.review.test_transfer import graph as wide_graph
from tests.runtime.review.test_transfer import waiting

VALUES: dict[str, Any] = {
    "zero": 0.0,
    "minus_zero": -0.0,
    "one": 1.0,
    "a_one": 1,
    "large": 1e21,
    "less": 123456789012345680000.0,
    "tiny": 1e-7,
    "third": 1 / 3,
    "small": 5e-324,
    "beyond": 2**53 + 1,
    "longest": 2**62 + 1,
    "huge": 10**40 + 1,
    "minus": -(2**60) - 1,
    "digits": {"10": 1, "9": 2.0, "b": 3, "-1": 4, "01": 5},
    "nan": float("nan"),
    "bytes": b"\xff\x00",
    "text": "ü \u2028 \x00 \U0001f600 </script>",
    "decimal": Decimal("1.10"),
}


@node(output="doubled")
def act(values: dict[str, Any], ctx: Context) -> dict[str, Any]:
    got = ctx.record("call", lambda given: {"back": given, "two": 2.0}, values)
    return {"again": got["back"], "two": 2.0, "count": len(values)}


@node(output="failed")
def fails(doubled: dict[str, Any]) -> None:
    raise ValueError(2.0, 2**60 + 1)


graph = Graph([act, fails])


def exported() -> dict[str, Any]:
    engine = Engine(graph, seed=2**55 + 1)
    assert engine.run({"values": VALUES}, run_id="r", check=False).status == "failed"
    return engine.export_run("r")


# -- tools -------------------------------------------------------------------------------------------------------


def js_number(number: float) -> str:
    """A number as JSON.stringify writes it: Number::toString of ECMAScript."""
    if number == 0:
        return "0"
    _, digits, exponent = Decimal(repr(abs(number))).normalize().as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    n = len(text) + exponent
    if len(text) <= n <= 21:
        written = text + "0" * (n - len(text))
    elif 0 < n <= 21:
        written = f"{text[:n]}.{text[n:]}"
    elif -6 < n <= 0:
        written = f"0.{'0' * -n}{text}"
    else:
        written = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{'+' if n > 0 else '-'}{abs(n - 1)}"
    return f"-{written}" if number < 0 else written


def js_text(tree: Any) -> str:
    if isinstance(tree, dict):
        indexes = sorted((k for k in tree if k.isdecimal() and str(int(k)) == k), key=int)
        keys = [*indexes, *(k for k in tree if k not in set(indexes))]
        return "{" + ",".join(f"{json.dumps(k)}:{js_text(tree[k])}" for k in keys) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(js_text, tree)) + "]"
    return js_number(tree) if type(tree) is float else json.dumps(tree)


def emulated(text: str) -> str:
    """``JSON.stringify(JSON.parse(text))``."""
    return js_text(json.loads(text, parse_int=float))


def by_tool(*command: str) -> Callable[[str], str]:
    def run(text: str) -> str:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    return run


STRINGIFY = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0))))"
TOOLS: dict[str, Callable[[str], str]] = {
    "nothing": lambda text: text,
    "a writer of floats": lambda text: json.dumps(json.loads(text, parse_int=float)),
    "emulated JavaScript": emulated,
    "JavaScript": by_tool("node", "-e", STRINGIFY),
    "jq": by_tool("jq", "."),
    "jq -S -c": by_tool("jq", "-S", "-c", "."),
}


@pytest.mark.parametrize(
    "number",
    [0.0, -0.0, 1.0, 1.5, 1e21, 1e20, 123456789012345680000.0, 1e-6, 1e-7, 1.25e-9, 5e-324, -2.5e300, 1 / 3],
)
def test_the_emulation_writes_numbers_as_node_does(number: float) -> None:
    assert js_number(number) == TOOLS["JavaScript"](json.dumps([number]))[1:-1]


def spoilt(tree: Any) -> Iterator[Any]:
    """The integers of a document that some reader would change."""
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from spoilt(value)
    elif type(tree) is int and abs(tree) >= 2**53:
        yield tree


def test_no_number_in_it_is_beyond_what_all_readers_keep() -> None:
    document = exported()
    assert list(spoilt(document)) == []
    assert document["checkpoints"][0]["rng_seed"] == str(2**55 + 1)
    assert document["checkpoints"][0]["state"]["values"]["beyond"] == {"$int": hex(2**53 + 1)}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_it_is_the_same_run_after_a_tool(tmp_path: Path, tool: str, kind: str) -> None:
    engine = Engine(graph, seed=2**55 + 1)
    engine.run({"values": VALUES}, run_id="r", check=False)
    passed = json.loads(TOOLS[tool](json.dumps(engine.export_run("r"))))
    with closing(MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")) as store:
        other = Engine(graph, store=store)
        row = other.import_run(passed)
        assert (row.seed, row.status) == (2**55 + 1, "failed")
        assert [c.digest for c in other.history("r")] == [c.digest for c in engine.history("r")]
        values = other.state("r").get("values")
        assert {name: repr(value) for name, value in values.items()} == {
            n: repr(v) for n, v in VALUES.items()
        }
        assert [type(value) for value in values.values()] == [type(value) for value in VALUES.values()]
        assert repr(other.result("r").error) == "ValueError(2.0, 1152921504606846977)"
        assert other.replay("r").ok


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "change", ["value", "digest", "order", "status", "seed", "readable", "type of a value"]
)
def test_tampering_shows_also_after_a_tool(tool: str, change: str) -> None:
    document = exported()
    beside, checkpoint = document["clew"], document["checkpoints"][0]
    step = next(entry for entry in beside["entries"] if entry["kind"] == "step")
    if change == "value":
        step["body"] = step["body"].replace("0.3333", "0.4333")
    elif change == "type of a value":
        assert '"a_one":1,' in step["body"]
        step["body"] = step["body"].replace('"a_one":1,', '"a_one":1.0,')
    elif change == "digest":
        step["digest"] = step["digest"][::-1]
    elif change == "order":
        beside["entries"].reverse()
    elif change == "status":
        beside["status"] = "completed"
    elif change == "seed":
        beside["seed"] = str(int(beside["seed"]) + 1)
    else:
        checkpoint["state"]["values"]["third"] += 1e-9
    engine = Engine(graph)
    with pytest.raises(CheckpointError):
        engine.import_run(json.loads(TOOLS[tool](json.dumps(document))))
    assert engine.runs() == []


# -- mutations ---------------------------------------------------------------------------------------------------

OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    2**53,
    2**63,
    -(2**64),
    10**400,
    0.5,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x00",
    "\ud800",
    "@1.x",
    "a" * 5000,
    [],
    [None],
    [[[]]],
    {},
    {"a": 1},
    {"$object": ["os.system", {}]},
    {"$tuple": 3},
)


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a document."""
    if at:
        yield at
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*at, key))


def mutated(document: Any, draw: random.Random, known: list[tuple[Any, ...]]) -> Any:
    """A document that differs from the original in some place."""
    changed = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 2, 3)) if known else 0):
        *way, last = draw.choice(known)
        holder = changed
        try:
            for key in way:
                holder = holder[key]
            value = holder[last]
        except (LookupError, TypeError):
            continue  # an earlier change has taken it away
        if not isinstance(holder, dict | list):
            continue
        kind = draw.randrange(8)
        if last in ("body", "failures") and kind > 3 and isinstance(value, str):
            try:
                inside = json.loads(value)
                holder[last] = json.dumps(mutated(inside, draw, list(places(inside))))
            except (ValueError, IndexError):
                continue
        elif kind == 0:
            del holder[last]
        elif kind == 1 and isinstance(holder, dict):
            holder[draw.choice(("x", f"{last}x", "$int", "format"))] = holder.pop(last)
        elif kind == 2 and isinstance(holder, list):
            holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(draw.choice(holder)))
        elif kind == 3 and isinstance(value, str) and value:
            at = draw.randrange(len(value))
            holder[last] = value[:at] + draw.choice(("", "0", "f", '"', "{", "é")) + value[at + 1 :]
        elif kind == 4:
            holder[last] = [value] if draw.random() < 0.5 else {"a": value}
        elif kind == 5 and isinstance(value, list) and len(value) > 1:
            draw.shuffle(value)
        else:
            holder[last] = copy.deepcopy(draw.choice(OTHERS))
    return changed


def sealed(document: Any) -> Any:
    """A document whose digests were made again by whoever changed it, as far as they can be."""
    try:
        for entry in document["clew"]["entries"]:
            if entry["kind"] != "step":
                entry["digest"] = sha256(entry["body"].encode()).digest()[:16].hex()
        document["clew"]["digest"] = digest_of(document)
    except Exception:
        pass
    return document


def documents() -> list[tuple[Graph, Any]]:
    engine = waiting(MemoryStore())
    found = [(wide_graph, engine.export_run("r"))]
    engine.resume("r", answer=True)
    found.append((wide_graph, engine.export_run("r", latest=True)))
    engine.fork("r", step=2, values={"inner": "x"}, run_id="f")
    found.append((wide_graph, engine.export_run("f")))
    found.append((graph, exported()))
    return [(made, json.loads(json.dumps(document))) for made, document in found]


def nothing_in(store: Any) -> bool:
    if isinstance(store, MemoryStore):
        return not store.rows() and not store._blobs
    tables = ("runs", "origins", "steps", "log", "blobs")
    return not any(store._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


def try_mutations(folder: Path, seeds: range) -> None:
    originals = [
        (made, document, list(places(document)), _bodies(document)) for made, document in documents()
    ]
    stores = [MemoryStore(), SQLiteStore(folder / "target.db")]
    refused = taken = 0
    for seed in seeds:
        draw = random.Random(seed)
        made, document, known, bodies = draw.choice(originals)
        store = draw.choice(stores)
        is_sealed = draw.random() < 0.5
        changed = mutated(document, draw, bodies if draw.random() < 0.3 else known)
        if is_sealed:
            changed = sealed(changed)
        engine = Engine(made, store=store)
        try:
            row = engine.import_run(changed)
        except CheckpointError:
            refused += 1
            assert nothing_in(store), seed
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        else:
            taken += 1
            assert is_sealed or _same(changed, document), seed
            store.delete(row.run_id)
    assert refused > len(seeds) // 2
    assert taken
    for store in stores:
        store.close()


def _bodies(document: Any) -> list[tuple[Any, ...]]:
    """The paths of what is stored as text: log entries and failures."""
    entries = range(len(document["clew"]["entries"]))
    return [("clew", "failures"), *(("clew", "entries", at, "body") for at in entries)]


def _same(one: Any, other: Any) -> bool:
    return bool(normal(one) == normal(other))


def test_some_mutations(tmp_path: Path) -> None:
    try_mutations(tmp_path, range(400))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_many_mutations(tmp_path: Path, part: int) -> None:
    try_mutations(tmp_path, range(10_000 * (part + 1), 10_000 * (part + 1) + 5_000))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_part_of_the_object_clew_with_every_wrong_type(tmp_path: Path, kind: str) -> None:
    (made, document) = documents()[0]
    document = copy.deepcopy(document)
    document["clew"]["entries"] = document["clew"]["entries"][:2]
    with closing(MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")) as store:
        engine = Engine(made, store=store)
        for at in [
            ("run_id",),
            ("checkpoints",),
            *(p for p in places(document) if p[0] == "clew" and len(p) < 5),
        ]:
            if at[:2] == ("clew", "open_ios") or at == ("clew", "digest"):
                continue
            for other in OTHERS:
                changed = copy.deepcopy(document)
                holder = changed
                for key in at[:-1]:
                    holder = holder[key]
                holder[at[-1]] = other
                with pytest.raises(CheckpointError):
                    engine.import_run(sealed(changed) if other == 7 else changed)
        assert nothing_in(store)


def test_a_deeply_nested_document_is_refused() -> None:
    document, deep = exported(), []
    for _ in range(100_000):
        deep = [deep]
    for where in (document, document["clew"], document["checkpoints"][0]):
        changed = {**document, "clew": dict(document["clew"]), "checkpoints": list(document["checkpoints"])}
        if where is document:
            changed["more"] = deep
        elif where is document["clew"]:
            changed["clew"]["error"] = {"a": deep}
        else:
            changed["checkpoints"][0] = {"a": deep}
        with pytest.raises(CheckpointError):
            Engine(graph).import_run(changed)
    del changed
    while deep:
        deep = deep[0]


def test_a_failure_while_it_is_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, document = documents()[1]
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        for name in ("append", "update"):
            with monkeypatch.context() as patched:

                def broken(*_: Any, **__: Any) -> None:
                    raise OSError("the disk is full")

                patched.setattr(SQLiteStore, name, broken)
                if name == "append":
                    patched.setattr("clew.stores.sqlite.store.put", broken)
                with pytest.raises(OSError, match="disk"):
                    Engine(made, store=store).import_run(document)
            assert nothing_in(store), name
        assert Engine(made, store=store).import_run(document).status == "completed"


def test_the_run_and_its_log_are_created_at_once(tmp_path: Path) -> None:
    """Whoever looks after the first transaction sees all of the run."""
    made, document = documents()[1]
    seen: list[int] = []

    class Watched(SQLiteStore):
        def update(self, run_id: str, **kwargs: Any) -> None:
            with closing(SQLiteStore(tmp_path / "runs.db")) as other:
                seen.append(len(other.entries(run_id)))
                assert other.row(run_id).status == "completed"
            super().update(run_id, **kwargs)

    with closing(Watched(tmp_path / "runs.db")) as store:
        Engine(made, store=store).import_run(document)
    assert seen == [len(document["clew"]["entries"])]
