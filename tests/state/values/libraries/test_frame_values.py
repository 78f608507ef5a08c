"""Frames, series, indexes, tables and arrays of pandas, polars and pyarrow: what is kept, and what is rejected."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from clew.errors import DecodeError, EncodeError
from clew.state import LARGE, decode, encode, equal, same, stored_value
from clew.state.values.libraries import BY_TAG, brief, format_of
from clew.state.values.scalars import base64

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

BERLIN = ZoneInfo("Europe/Berlin")


def there_and_back(value: Any) -> Any:
    code = encode({"it": value})
    back = decode(code)["it"]
    assert type(back) is type(value)
    assert encode({"it": back}) == code
    assert equal(back, value)
    assert same(back, value)
    return back


# -- pandas ----------------------------------------------------------------------------------------------------------

COLUMNS: dict[Any, Any] = {
    "int": [1, 2, 3],
    "float": [1.0, np.nan, -0.0],
    "half": np.array([1, 2, 3], "f2"),
    "unsigned": np.arange(3, dtype="u1"),
    "bool": [True, False, True],
    "complex": np.array([1j, 2, 3]),
    "big-endian": np.arange(3, dtype=">f8"),
    "str": ["a", None, "c"],
    "category": pd.Categorical(["x", None, "y"], categories=["y", "x", "unused"], ordered=True),
    "category of numbers": pd.Categorical([1.5, 2.5, 1.5]),
    "time": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
    "seconds": np.array(["2020-01-01", "NaT", "2020-01-03"], "M8[s]"),
    "zoned": pd.to_datetime(["2020-01-01 00:00", None, "2020-10-25 01:30"])
    .tz_localize("UTC")
    .tz_convert(BERLIN),
    "utc": pd.to_datetime(["2020-01-01", None, "2020-01-03"], utc=True),
    "offset": pd.to_datetime(["2020-01-01"] * 3).tz_localize(dt.timezone(dt.timedelta(hours=2))),
    "duration": pd.to_timedelta([1, None, 3], unit="s"),
    "Int8": pd.array([1, None, 3], dtype="Int8"),
    "Float64": pd.array([1.0, None, 3.0], dtype="Float64"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "string": pd.array(["a", None, "c"], dtype="string"),
    "string, python": pd.array(["a", None, "c"], dtype="string[python]"),
    "period": pd.period_range("2020-01", periods=3, freq="M"),
    "interval": pd.interval_range(0, 3),
    "cut": pd.cut([1, 2, 3], 2),
    "arrow": pd.array([1, None, 3], dtype=pd.ArrowDtype(pa.int32())),
    "arrow lists": pd.array([[1], None, [3]], dtype=pd.ArrowDtype(pa.list_(pa.int32()))),
    "objects": np.array([1, "a", None], object),
    7: 1,
    ("a", 1): 2,
    None: 3,
}
FRAME = pd.DataFrame(COLUMNS)
PAIRS = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["letter", None])
SQUARE = pd.DataFrame(np.arange(16.0).reshape(4, 4), index=PAIRS, columns=PAIRS)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back_exactly(name: Any) -> None:
    for series in FRAME[name], FRAME[name].iloc[1:], FRAME[name].iloc[:0], FRAME[name].iloc[::2]:
        back = there_and_back(series)
        pd.testing.assert_series_equal(back, series)
        assert back.dtype == series.dtype
        assert back.name == series.name


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.iloc[1:],
        FRAME.iloc[:0],
        SQUARE,
        SQUARE.T,
        SQUARE.iloc[1:3],
        pd.DataFrame(),
        pd.DataFrame(index=[1, 2]),
        pd.DataFrame(columns=["a"]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame(np.arange(6).reshape(2, 3)).T,
        pd.DataFrame({"a": [1]}, index=pd.date_range("2020", periods=1, freq="D")),
    ],
    ids=lambda frame: brief(frame) or "",
)
def test_a_frame_comes_back_exactly(frame: Any) -> None:
    pd.testing.assert_frame_equal(there_and_back(frame), frame)


def test_attributes_and_flags_of_a_frame() -> None:
    frame = pd.DataFrame({"a": [1]})
    frame.attrs = {"source": ["file", 1]}
    frame.flags.allows_duplicate_labels = False
    back = there_and_back(frame)
    assert back.attrs == frame.attrs
    assert not back.flags.allows_duplicate_labels


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(1, 9, 2, name="n"),
        pd.date_range("2020", periods=3, freq="D", tz=BERLIN),
        pd.date_range("2020", periods=3, freq="B"),
        pd.DatetimeIndex(["2020-01-01", None]),
        pd.timedelta_range("1s", periods=3),
        pd.period_range("2020", periods=2, freq="D"),
        pd.interval_range(0, 2, closed="left"),
        pd.CategoricalIndex(["a", "b"]),
        pd.Index([1.0, 2.0]),
        pd.Index(["a", "b"], name=("q", 1)),
        pd.Index([True, False]),
        pd.Index([1, "a", None, (1, 2)], dtype=object, tupleize_cols=False),
        pd.Index([]),
        PAIRS,
        PAIRS[:2],
        pd.MultiIndex.from_tuples([(1, None), (None, "a")]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_an_index_comes_back_exactly(index: Any) -> None:
    back = there_and_back(index)
    pd.testing.assert_index_equal(back, index, exact=True)
    assert back.names == index.names
    assert getattr(back, "freq", None) == getattr(index, "freq", None)
    series = pd.Series(np.arange(len(index)), index=index, name=3)
    pd.testing.assert_series_equal(there_and_back(series), series)


class Labelled(pd.DataFrame):
    pass


@pytest.mark.parametrize(
    "value, hint",
    [
        (pd.DataFrame({"o": [1, object()]}), "column 'o' .* item 1 .*; convert it with"),
        (pd.Series([{1: object()}]), "the series .* item 0 .*; convert it with"),
        (pd.DataFrame({"s": pd.arrays.SparseArray([0, 1])}), "column 's' .*Sparse.*; convert it with"),
        (pd.DataFrame({object(): [1]}), "its index .*; convert it with"),
        (Labelled({"a": [1]}), "extends; convert it to DataFrame"),
    ],
)
def test_what_pandas_values_cannot_be_stored(value: Any, hint: str) -> None:
    with pytest.raises(EncodeError, match=rf"^state\.x: .*{hint}"):
        encode({"x": value}, at="state")


def test_what_lies_under_a_missing_value_does_not_count() -> None:
    one = pd.array([1, 2, 3], dtype="Int64")
    one[1] = pd.NA
    assert encode(pd.Series(one)) == encode(pd.Series([1, None, 3], dtype="Int64"))
    assert encode(pl.Series([1, None, 3]) + pl.Series([10, 20, 30])) == encode(pl.Series([11, None, 33]))
    mask = np.array([False, True, False])
    assert encode(pa.array([1, 2, 3], mask=mask)) == encode(pa.array([1, None, 3]))
    words = [pa.py_buffer(buffer) for buffer in (b"\x05", np.array([0, 1, 2, 3], "i4").tobytes(), b"abc")]
    assert encode(pa.Array.from_buffers(pa.string(), 3, words)) == encode(pa.array(["a", None, "c"]))


# -- polars ----------------------------------------------------------------------------------------------------------

POLARS = pl.DataFrame(
    {
        "int": [1, None, 3],
        "float": [1.0, float("nan"), None],
        "text": ["x", None, "longer than twelve characters"],
        "category": pl.Series(["u", "v", "u"], dtype=pl.Categorical),
        "enum": pl.Series(["u", "v", "u"], dtype=pl.Enum(["v", "u", "w"])),
        "date": [dt.date(2020, 1, 1)] * 3,
        "zoned": pl.Series([dt.datetime(2020, 1, 1)] * 3).dt.replace_time_zone("Europe/Berlin"),
        "time": [dt.time(1)] * 3,
        "duration": [dt.timedelta(1)] * 3,
        "list": [[1], [2, 3], None],
        "array": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int8, 2)),
        "struct": [{"a": 1}, {"a": 2}, None],
        "null": [None] * 3,
        "bytes": [b"1", b"2", None],
        "decimal": pl.Series(["1.5", "2.5", None]).cast(pl.Decimal(10, 2)),
        "bool": [True, None, False],
    }
)


@pytest.mark.parametrize(
    "frame", [POLARS, POLARS[:0], POLARS[1:], pl.DataFrame(), pl.concat([POLARS, POLARS], rechunk=False)]
)
def test_a_polars_frame_comes_back_exactly(frame: Any) -> None:
    back = there_and_back(frame)
    assert back.schema == frame.schema
    assert back.equals(frame, null_equal=True)


@pytest.mark.parametrize("name", POLARS.columns)
def test_a_polars_series_comes_back_exactly(name: str) -> None:
    series = POLARS[name]
    back = there_and_back(series)
    assert (back.name, back.dtype) == (name, series.dtype)
    assert back.equals(series, null_equal=True)


def test_how_a_frame_is_cut_into_chunks_does_not_count() -> None:
    assert encode(pl.concat([POLARS[:1], POLARS[1:]], rechunk=False)) == encode(POLARS)
    assert encode(pa.concat_tables([TABLE[:1], TABLE[1:]])) == encode(TABLE)


def test_polars_objects_are_rejected() -> None:
    with pytest.raises(EncodeError, match=r"^value\.x: .*column 'o' holds Python objects; convert"):
        encode({"x": pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})})


# -- pyarrow ---------------------------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "int": pa.array([1, None, 3]),
        "text": ["a", None, "c"],
        "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
        "list": [[1], None, [2]],
        "bool": [True, None, False],
        "null": pa.nulls(3),
        "time": pa.array([1, 2, None], pa.timestamp("ns", "UTC")),
    }
).replace_schema_metadata({"k": "v"})
BATCH = TABLE.to_batches()[0]


@pytest.mark.parametrize(
    "value",
    [
        TABLE,
        TABLE[:0],
        TABLE[1:],
        pa.table({}),
        pa.concat_tables([TABLE, TABLE]),
        BATCH,
        BATCH[1:],
        BATCH[:0],
    ],
    ids=lambda value: brief(value) or "",
)
def test_a_table_comes_back_exactly(value: Any) -> None:
    back = there_and_back(value)
    assert back.equals(value)
    assert back.schema.equals(value.schema, check_metadata=True)


@pytest.mark.parametrize(
    "array", [*TABLE.columns, *BATCH.columns, pa.array([]), pa.chunked_array([], pa.int8()), BATCH["int"][1:]]
)
def test_an_arrow_array_comes_back_exactly(array: Any) -> None:
    back = there_and_back(array)
    assert back.type == array.type
    assert back.equals(array)


# -- all -------------------------------------------------------------------------------------------------------------

LARGE_VALUES = {
    "pandas_frame": pd.DataFrame({"a": np.arange(LARGE)}),
    "pandas_series": pd.Series(np.arange(LARGE)),
    "pandas_index": pd.Index(np.arange(LARGE) * 2),
    "polars_frame": pl.DataFrame({"a": np.arange(LARGE)}),
    "polars_series": pl.Series("a", np.arange(LARGE)),
    "arrow_table": pa.table({"a": np.arange(LARGE)}),
    "arrow_batch": pa.record_batch({"a": np.arange(LARGE)}),
    "arrow_array": pa.array(np.arange(LARGE)),
    "arrow_chunks": pa.chunked_array([np.arange(LARGE)]),
}


@pytest.mark.parametrize("tag", LARGE_VALUES)
def test_a_large_value_is_one_content_and_never_base64(tag: str) -> None:
    blobs: dict[str, bytes] = {}
    value = LARGE_VALUES[tag]
    stored = stored_value({"x": value}, at="value", blobs=blobs)
    ((digest, content),) = blobs.items()
    assert stored == b'{"x":{"$blob":["%s","%s"]}}' % (tag.encode(), digest.encode())
    assert len(content) < 8 * LARGE + 4096
    assert equal(decode(stored, blob=blobs.__getitem__)["x"], value)


@pytest.mark.parametrize("tag", [tag for tag, form in BY_TAG.items() if not form.is_tree])
def test_damaged_content_is_an_error(tag: str) -> None:
    value = LARGE_VALUES.get(tag, np.arange(3))
    content = format_of(type(value)).write(value[:100])
    for damaged in b"", content[:-9], content[: len(content) // 2], b"\0" * 64, bytes(reversed(content)):
        with pytest.raises(DecodeError):
            decode(b'{"$%s":"%s"}' % (tag.encode(), base64(damaged).encode()))


def test_short_forms() -> None:
    frame = pd.DataFrame(np.zeros((500, 4)))
    assert brief(frame) == "DataFrame 500×4"
    assert brief(pl.from_pandas(frame.rename(columns=str))) == "DataFrame 500×4"
    assert brief(pa.Table.from_pandas(frame)) == "Table 500×4"
    assert brief(frame[0]) == "Series float64 (500,)"
    assert brief(pa.array([1])) == "Int64Array int64 (1,)"
