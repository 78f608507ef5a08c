"""Artifacts: named by their content, verified when read."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_nl2sql.artifacts import ArtifactStore, content_hash
from clew_nl2sql.columnar import to_table
from clew_nl2sql.errors import ArtifactCorruptError
from clew_nl2sql.schemas import ArtifactRef
from clew_nl2sql.sources import QueryResult

ROWS: tuple[tuple[Any, ...], ...] = ((1, "a", 2.5), (2, "b", None), (3, None, 0.1))


def write(
    store: ArtifactStore, rows: Any = ROWS, *, ordered: bool = True, node: str = "scan_1"
) -> ArtifactRef:
    result = QueryResult(columns=("id", "name", "x")[: len(rows[0])], rows=tuple(rows))
    return store.write(result, tenant_id="acme", trace_id="t1", node_id=node, roles=[], ordered=ordered)


def test_where_it_lies(tmp_path: Path) -> None:
    ref = write(ArtifactStore(tmp_path))
    assert ref.uri == f"acme/t1/scan_1/{ref.content_hash}.parquet"
    assert [file.name for file in (tmp_path / "acme/t1/scan_1").iterdir()] == [f"{ref.content_hash}.parquet"]
    assert (ref.backend, ref.format, ref.row_count) == ("local", "parquet", 3)
    assert ArtifactStore(tmp_path).read(ref).to_pylist()[1] == {"id": 2, "name": "b", "x": None}


def test_equal_results_have_equal_hashes_wherever_they_are(tmp_path: Path) -> None:
    assert (
        write(ArtifactStore(tmp_path / "a")).content_hash == write(ArtifactStore(tmp_path / "b")).content_hash
    )


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("place", range(3))
def test_one_changed_cell_changes_the_hash(tmp_path: Path, row: int, place: int) -> None:
    changed = [list(r) for r in ROWS]
    changed[row][place] = {0: 9, 1: "z", 2: 9.5}[place]
    store = ArtifactStore(tmp_path)
    assert write(store, [tuple(r) for r in changed]).content_hash != write(store).content_hash


def test_names_and_types_are_part_of_the_content() -> None:
    one = pa.table({"a": pa.array([1])})
    assert content_hash(one) != content_hash(one.rename_columns(["b"]))
    assert content_hash(one) != content_hash(one.cast(pa.schema([("a", pa.float64())])))


def test_rows_without_an_order_are_a_set_and_rows_with_one_are_not(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    there, back = ROWS, tuple(reversed(ROWS))
    assert write(store, there, ordered=False).content_hash == write(store, back, ordered=False).content_hash
    assert write(store, there).content_hash != write(store, back).content_hash


def test_rows_without_an_order_are_a_set_whatever_their_numbers() -> None:
    nan = float("nan")
    rows = [(nan, 1), (2.0, 2), (nan, 0), (1.0, 4), (None, 5), (3.0, 6), (float("inf"), 7)]
    orders = [rows, rows[::-1], rows[3:] + rows[:3], sorted(rows, key=lambda row: row[1])]
    found = {
        content_hash(to_table(QueryResult(columns=("a", "b"), rows=tuple(order)), ordered=False))
        for order in orders
    }
    assert len(found) == 1


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    ref = write(store)
    path = tmp_path / ref.uri
    table = pq.ParquetFile(path).read()
    pq.write_table(table.set_column(0, "id", pa.array([1, 2, 4])), path)
    with pytest.raises(ArtifactCorruptError, match="was modified"):
        store.read(ref)


@pytest.mark.parametrize("damage", [b"", b"PAR1 nothing", None])
def test_a_damaged_or_missing_file_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    store = ArtifactStore(tmp_path)
    ref = write(store)
    if damage is None:
        os.remove(tmp_path / ref.uri)
    else:
        (tmp_path / ref.uri).write_bytes(damage)
    with pytest.raises(ArtifactCorruptError, match="cannot be read"):
        store.read(ref)


def test_a_reference_cannot_lead_elsewhere(tmp_path: Path) -> None:
    outside = ArtifactStore(tmp_path / "other")
    ref = write(outside)
    store = ArtifactStore(tmp_path / "store")
    with pytest.raises(ArtifactCorruptError, match="outside"):
        store.read(msgspec.structs.replace(ref, uri=f"../other/{ref.uri}"))


@given(st.text(min_size=1, max_size=12))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    from clew_nl2sql.artifacts import _safe

    assert "/" not in _safe(name)
    assert _safe(name) not in ("", ".", "..")


def test_different_names_stay_different() -> None:
    from clew_nl2sql.artifacts import _safe

    assert len({_safe(name) for name in ("a/b", "a_b", "a%2fb", "..", ".", "a b")}) == 6


MOMENT = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "values, kind, stored",
    [
        ([1, None], "int64", [1, None]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([True, False], "bool", [True, False]),
        ([Decimal("1.50"), 2], "decimal128(38, 2)", [Decimal("1.50"), Decimal("2.00")]),
        ([Decimal("NaN")], "double", None),
        ([2**70, None], "decimal128(38, 0)", [Decimal(2**70), None]),
        ([2**130], "string", [str(2**130)]),
        ([date(2024, 5, 1)], "date32[day]", [date(2024, 5, 1)]),
        ([MOMENT, date(2024, 5, 1)], "timestamp[us]", [datetime(2024, 5, 1, 12, 30), datetime(2024, 5, 1)]),
        ([1, "x"], "string", ["1", "x"]),
        ([b"\x01", None], "string", ["01", None]),
        ([UUID(int=1)], "string", [str(UUID(int=1))]),
        ([[1, 2]], "string", ["[1, 2]"]),
        ([None], "string", [None]),
    ],
)
def test_what_databases_give_is_brought_to_a_few_types(
    values: list[Any], kind: str, stored: list[Any] | None
) -> None:
    table = to_table(QueryResult(columns=("c",), rows=tuple((value,) for value in values)), ordered=True)
    assert str(table.schema.field("c").type) == kind
    if stored is not None:
        assert table.column("c").to_pylist() == stored


def test_no_rows_are_a_result_too(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    ref = store.write(
        QueryResult(columns=("a",), rows=()),
        tenant_id="t",
        trace_id="t",
        node_id="n",
        roles=[],
        ordered=False,
    )
    assert store.read(ref).num_rows == 0
