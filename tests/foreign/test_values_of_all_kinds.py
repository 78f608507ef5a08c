"""Each value comes back from a durable run as it was: read, replayed, rerun, compared, exported, imported."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import pathlib
import re
import uuid
import zoneinfo
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
import pytest

from clew import Engine, Graph, node, register_type
from clew.errors import EncodeError
from clew.state import same


class Kind(enum.Enum):
    A = 1
    NAN = float("nan")


class Access(enum.Flag):
    X = 1
    Y = 2


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Node:
    a: int
    b: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Sum:
    x: dataclasses.InitVar[int]
    z: int = 0

    def __post_init__(self, x: int) -> None:
        self.z += x


class Order(msgspec.Struct):
    net: float

    def __post_init__(self) -> None:
        self.net *= 1.25


class Tags(pydantic.RootModel[list[str]]):
    pass


class Text(str):
    pass


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    for cls in (Kind, Access, Pair, Node, Sum, Order, Tags):
        register_type(cls)


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
LEVELS = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["l", "n"])

VALUES: dict[str, Any] = {
    "nan": float("nan"),
    "negative zero": -0.0,
    "infinity": -math.inf,
    "long int": 10**400,
    "surrogate": "a\udcffb",
    "control": "\x00\u202e\ufeff",
    "marks of the encoding": {"$tuple": [1], "": {"$blob": ["bytes", "x"]}},
    "keys": {1: "a", "1": "b", 1.5: 2, None: 3, (1, 2): {frozenset({1})}},
    "nested": ({1, 2}, [b"", bytearray(b"x")]),
    "decimal": decimal.Decimal("-0E+5"),
    "signalling": decimal.Decimal("sNaN"),
    "complex": complex(-0.0, float("nan")),
    "uuid": uuid.UUID(int=1),
    "path": pathlib.PurePosixPath("/a"),
    "fold": dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    "shortest": dt.timedelta.min,
    "enum": Kind.A,
    "flags": Access.X | Access.Y,
    "named tuple": Pair(1, [2]),
    "dataclass": Node(1, [Node(2)]),
    "init var": Sum(3, 4),
    "struct": Order(100.0),
    "root model": Tags(["a"]),
    "scalar array": np.array(3.0),
    "empty array": np.empty((0, 3)),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "big endian": np.arange(3, dtype=">i4"),
    "records": np.zeros(2, dtype=[("a", "i1"), ("b", "f8", (2,))]),
    "reversed": np.arange(10)[::-2],
    "numpy scalar": np.float16(1.5),
    "no time": np.timedelta64("NaT"),
    "frame": pd.DataFrame({"a": [1, None], "c": pd.Categorical(["u", "v"], ordered=True)}),
    "levels": pd.DataFrame({("x", "y"): [1, 2, 3, 4]}, index=LEVELS),
    "no columns": pd.DataFrame(index=[1, 2]),
    "same columns": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "objects": pd.DataFrame({"o": [{"a": 1}, [2], (3,), None]}),
    "series": pd.Series([1, 2], name=("a", 1)),
    "dates": pd.date_range("2020", periods=3, freq="ME"),
    "polars": pl.DataFrame(
        {"a": [1, None], "l": [[1], []], "e": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"]))}
    ),
    "table": pa.table({"a": pa.chunked_array([[1], [2, None]])}),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
}

REJECTED: dict[str, Any] = {
    "str subclass": Text("x"),
    "range": range(3),
    "counter": collections.Counter("a"),
    "deque": collections.deque([1]),
    "pattern": re.compile("a"),
    "class": int,
    "function": print,
    "ellipsis": ...,
    "exception": ValueError(1),
    "masked": np.ma.array([1], mask=[1]),
    "timestamp": pd.Timestamp("2020"),
    "lazy": pl.LazyFrame({"a": [1]}),
}


@node(output="out")
def unchanged(v: Any) -> Any:
    return v


@node(output="wrapped")
def wrap(out: Any) -> Any:
    return {"k": [out, (out,)]}


GRAPH = Graph([unchanged, wrap], name="values")


def is_like(one: Any, other: Any) -> bool:
    """Compare strictly, by means of the library of the value."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    if isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other)
        return True
    if isinstance(one, pd.Index):
        pd.testing.assert_index_equal(one, other, exact=True)
        return one.freq == other.freq
    if isinstance(one, pl.DataFrame):
        return one.equals(other, null_equal=True) and one.schema == other.schema
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, (float, complex, decimal.Decimal)):
        return repr(one) == repr(other)
    if isinstance(one, dt.datetime):
        return (one, one.fold, one.tzinfo) == (other, other.fold, other.tzinfo)
    return bool(one == other)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    value = VALUES[name]
    with Engine(GRAPH, store=tmp_path / "runs.db") as engine:
        engine.run({"v": value}, run_id="r")
    with Engine(GRAPH, store=tmp_path / "runs.db") as engine:
        state = engine.state("r")
        inside = state.get("wrapped")["k"]
        for found in (state.get("out"), inside[0], inside[1][0]):
            assert is_like(value, found)
            assert same(value, found)
        assert engine.replay("r").ok
        assert engine.rerun("r", run_id="again").metrics.total_nodes_executed == 0
        assert not engine.diff("r", "again")
        document = json.loads(json.dumps(engine.export_run("r")))
        assert list(engine.store.check()) == []
    with Engine(GRAPH) as engine:
        engine.import_run(document)
        assert is_like(value, engine.state("r").get("out"))


@pytest.mark.parametrize("name", REJECTED)
def test_a_value_that_would_change_is_rejected(tmp_path: Path, name: str) -> None:
    with Engine(GRAPH, store=tmp_path / "runs.db") as engine, pytest.raises(EncodeError):
        engine.run({"v": REJECTED[name]}, run_id="r")
