"""Frames, series and indexes of pandas as Arrow IPC streams.

Each column is an Arrow array. What Arrow cannot say about it (the types of pandas, labels, frequencies, attributes) is
JSON in the metadata of the stream, so a value is restored as it was. pandas' own conversion is not exact: it turns
labels into text, loses frequencies, and records versions of libraries.

A type is described by a list: its kind, and the parameters of the kind (`_write` and `_READERS`).

Rules:

- Python objects (labels, and columns of type ``object``) are encoded one by one with the codec. They may not be
  instances of registered classes: reading a frame runs no user code.
- Equal bytes mean equal values of equal types. What lies under a missing value is written as zeros.
- Columns that were read share the memory of the content, and are read-only, where the type permits it.
"""

from __future__ import annotations

import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any

import msgspec

from clew.errors import EncodeError
from clew.state.values.libraries.arrow_values import canonical, read_batch, stream
from clew.state.values.scalars import read_zone, zone_tree

_KEY = b"clew"
_json = msgspec.json.Encoder(order="deterministic").encode
_MASKED = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)) | {
    "Float32",
    "Float64",
    "boolean",
}

Column = tuple[list[Any], Any]
"""The description of a type, and an Arrow array."""


# -- frames, series, indexes -----------------------------------------------------------------------------------------


def write_frame(frame: Any) -> bytes:
    """Return a frame as a stream."""
    columns = [_column(series, f"column {label!r}") for label, series in frame.items()]
    index, rows = _index(frame.index)
    about: dict[str, Any] = {
        "columns": b2a_base64(write_index(frame.columns), newline=False).decode("ascii"),
        "dtypes": [description for description, _ in columns],
        "index": index,
    }
    return _content({**about, **_extras(frame)}, [array for _, array in columns] + rows)


def read_frame(content: bytes) -> Any:
    """Return the frame of a stream."""
    pd: Any = sys.modules["pandas"]
    about, arrays = _parts(content)
    width = len(about["dtypes"])
    columns = [_read(*column) for column in zip(about["dtypes"], arrays[:width], strict=True)]
    index = _read_index(about["index"], arrays[width:])
    # A series, because a frame would look for text in an array of objects.
    parts = {n: pd.Series(column, index, column.dtype, copy=False) for n, column in enumerate(columns)}
    frame = pd.DataFrame(parts, index=index, copy=False)
    frame.columns = read_index(a2b_base64(about["columns"], strict_mode=True))
    return _with_extras(frame, about)


def write_series(series: Any) -> bytes:
    """Return a series as a stream."""
    description, array = _column(series, "the series")
    index, rows = _index(series.index)
    about = {"name": _coded(series.name), "dtype": description, "index": index}
    return _content({**about, **_extras(series)}, [array, *rows])


def read_series(content: bytes) -> Any:
    """Return the series of a stream."""
    pd: Any = sys.modules["pandas"]
    about, (array, *rows) = _parts(content)
    index, name = _read_index(about["index"], rows), _uncoded(about["name"])
    values = _read(about["dtype"], array)
    return _with_extras(pd.Series(values, index, values.dtype, name, copy=False), about)


def write_index(index: Any) -> bytes:
    """Return an index as a stream."""
    return _content(*_index(index))


def read_index(content: bytes) -> Any:
    """Return the index of a stream."""
    return _read_index(*_parts(content))


def _content(about: dict[str, Any], arrays: list[Any]) -> bytes:
    pa: Any = sys.modules["pyarrow"]
    fields = [pa.field(str(n), array.type) for n, array in enumerate(arrays)]
    schema = pa.schema(fields, metadata={_KEY: _json(about)})
    return stream(schema, [pa.RecordBatch.from_arrays(arrays, schema=schema)])


def _parts(content: bytes) -> tuple[dict[str, Any], list[Any]]:
    batch = read_batch(content)
    return msgspec.json.decode(batch.schema.metadata[_KEY]), batch.columns


def _extras(value: Any) -> dict[str, Any]:
    found = {"attrs": _coded(dict(value.attrs))} if value.attrs else {}
    return found if value.flags.allows_duplicate_labels else {**found, "unique": True}


def _with_extras(value: Any, about: dict[str, Any]) -> Any:
    if "attrs" in about:
        value.attrs = _uncoded(about["attrs"])
    if "unique" in about:
        value.flags.allows_duplicate_labels = False
    return value


# -- labels ----------------------------------------------------------------------------------------------------------


def _index(index: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the description of an index, and its Arrow arrays."""
    pa, pd = sys.modules["pyarrow"], sys.modules["pandas"]
    about: dict[str, Any] = {"names": [_coded(name) for name in index.names]}
    if isinstance(index, pd.RangeIndex):
        return {**about, "range": [index.start, index.stop, index.step]}, []
    if isinstance(index, pd.MultiIndex):
        levels = [_write(level, "its index") for level in index.levels]
        arrays = [
            pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == -1), level)
            for codes, (_, level) in zip(index.codes, levels, strict=True)
        ]
        return {**about, "levels": [description for description, _ in levels]}, arrays
    description, array = _write(index, "its index")
    freq = getattr(index, "freq", None)
    if freq is not None and not isinstance(index, pd.PeriodIndex):
        if pd.tseries.frequencies.to_offset(freq.freqstr) != freq:
            raise ValueError(f"the frequency {freq!r} of its index has no name; set index.freq = None")
        about["freq"] = freq.freqstr
    return {**about, "dtype": description}, [array]


def _read_index(about: dict[str, Any], arrays: list[Any]) -> Any:
    pd: Any = sys.modules["pandas"]
    names = [_uncoded(name) for name in about["names"]]
    if "range" in about:
        return pd.RangeIndex(*about["range"], name=names[0])
    if "levels" in about:
        pairs = list(zip(about["levels"], arrays, strict=True))
        levels = [_as_index(description, array.dictionary) for description, array in pairs]
        return pd.MultiIndex(levels, [_codes(array) for _, array in pairs], names=names)
    (array,) = arrays
    index = _as_index(about["dtype"], array).rename(names[0])
    if "freq" in about:
        index.freq = about["freq"]
    return index


def _as_index(description: list[Any], array: Any) -> Any:
    pd: Any = sys.modules["pandas"]
    values = _read(description, array)
    return pd.Index(values, dtype=values.dtype, copy=False, tupleize_cols=False)


# -- columns ---------------------------------------------------------------------------------------------------------


def _column(series: Any, what: str) -> Column:
    """Return the type and the Arrow array of a series."""
    try:
        return _write(series, what)
    except (TypeError, NotImplementedError) as error:
        raise ValueError(f"{what} has type {series.dtype}: {error}; convert it with .astype") from error


def _write(values: Any, what: str) -> Column:
    """Return the type and the Arrow array of a series or an index."""
    pa, pd, np = sys.modules["pyarrow"], sys.modules["pandas"], sys.modules["numpy"]
    dtype, array = values.dtype, values.array
    if dtype.kind == "O" and isinstance(dtype, np.dtype):
        return ["objects"], _write_objects(values, what)
    if isinstance(dtype, np.dtype):
        return _write_numpy(np.asarray(values))
    if isinstance(dtype, pd.CategoricalDtype):
        description, categories = _write(array.categories, what)
        codes = pa.array(array.codes, mask=array.codes == -1)
        return ["category", description, bool(dtype.ordered)], pa.DictionaryArray.from_arrays(
            codes, categories
        )
    if isinstance(dtype, pd.DatetimeTZDtype):
        return ["zoned", zone_tree(dtype.tz)], _write_numpy(array.tz_convert(None).to_numpy())[1]
    if isinstance(dtype, pd.StringDtype):
        text = pa.array(array, pa.large_string(), from_pandas=True)
        return ["string", dtype.storage, "NA" if dtype.na_value is pd.NA else "nan"], canonical(text)
    if isinstance(dtype, pd.PeriodDtype):
        return ["period", dtype.name], pa.array(array.asi8)
    if isinstance(dtype, pd.IntervalDtype):
        (description, left), (_, right) = _write(array.left, what), _write(array.right, what)
        return ["interval", dtype.closed, description], pa.StructArray.from_arrays(
            [left, right], ["left", "right"]
        )
    if isinstance(dtype, pd.ArrowDtype):
        return ["arrow"], canonical(array.__arrow_array__())
    if dtype.name in _MASKED:
        return ["masked", dtype.name], canonical(array.__arrow_array__())
    raise ValueError(f"{what} has type {dtype}, which cannot be stored; convert it with .astype")


def _write_objects(values: Any, what: str) -> Any:
    pa: Any = sys.modules["pyarrow"]
    coded = []
    for value in values:
        try:
            coded.append(_coded(value))
        except EncodeError as error:
            raise ValueError(
                f"{what} has type object, and item {len(coded)} cannot be stored ({error}); convert it with .astype or "
                ".convert_dtypes()"
            ) from error
    return pa.array(coded, pa.large_string())


def _coded(value: Any) -> str:
    """Return a label, an attribute or another Python object as the codec encodes it."""
    from clew.state.values.codec import encode

    code = encode(value, ordered=True)
    if b'"$object"' in code:
        raise EncodeError("value: instances of classes cannot be stored inside a frame")
    return code.decode()


def _uncoded(code: str) -> Any:
    from clew.state.values.codec import decode

    return decode(code.encode(), classes=False)


def _write_numpy(values: Any) -> Column:
    """Return the type and the Arrow array of a numpy array."""
    pa, np = sys.modules["pyarrow"], sys.modules["numpy"]
    dtype = values.dtype
    if dtype.isnative and dtype.kind in "biufMm" and dtype.char != "g":
        return ["numpy", dtype.str], pa.array(values)
    if dtype.hasobject or dtype.char in "gG":
        raise ValueError(f"the bytes of {dtype} depend on the platform; convert it with .astype")
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return ["numpy", dtype.str], pa.Array.from_buffers(pa.binary(dtype.itemsize), len(values), [None, data])


def _read(description: list[Any], array: Any) -> Any:
    """Return the values of an Arrow array as an array of pandas or numpy."""
    kind, *parameters = description
    return _READERS[kind](array, *parameters)


def _read_numpy(array: Any, name: str) -> Any:
    pa, np = sys.modules["pyarrow"], sys.modules["numpy"]
    dtype = np.dtype(name)
    if pa.types.is_fixed_size_binary(array.type):
        if dtype.hasobject or array.type.byte_width != dtype.itemsize:
            raise ValueError(f"{array.type} does not hold {dtype}")
        return np.ndarray(len(array), dtype, array.buffers()[1], array.offset * dtype.itemsize)
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype != dtype:
        raise ValueError(f"{array.type} does not hold {dtype}")
    return values


def _read_objects(array: Any) -> Any:
    np: Any = sys.modules["numpy"]
    values = np.empty(len(array), object)
    for n, code in enumerate(array.to_pylist()):  # one by one: numpy would take lists apart
        values[n] = _uncoded(code)
    return values


def _codes(array: Any) -> Any:
    """Return the codes of a dictionary array, with -1 for null."""
    return array.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _read_category(array: Any, description: list[Any], is_ordered: bool) -> Any:
    pd: Any = sys.modules["pandas"]
    return pd.Categorical.from_codes(
        _codes(array), _as_index(description, array.dictionary), ordered=is_ordered
    )


def _read_zoned(array: Any, zone: Any) -> Any:
    pd: Any = sys.modules["pandas"]
    values = array.to_numpy(zero_copy_only=False)
    return pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(read_zone(zone)).array


def _read_string(array: Any, storage: str, missing: str) -> Any:
    pd, np = sys.modules["pandas"], sys.modules["numpy"]
    return pd.StringDtype(storage, pd.NA if missing == "NA" else np.nan).__from_arrow__(array)


def _read_period(array: Any, name: str) -> Any:
    pd: Any = sys.modules["pandas"]
    return pd.arrays.PeriodArray(
        array.to_numpy(zero_copy_only=False), dtype=pd.PeriodDtype.construct_from_string(name)
    )


def _read_interval(array: Any, closed: str, description: list[Any]) -> Any:
    pd: Any = sys.modules["pandas"]
    left, right = (pd.Index(_read(description, part)) for part in array.flatten())
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=closed)


def _read_arrow(array: Any) -> Any:
    pd: Any = sys.modules["pandas"]
    return pd.ArrowDtype(array.type).__from_arrow__(array)


def _read_masked(array: Any, name: str) -> Any:
    pd: Any = sys.modules["pandas"]
    if name not in _MASKED:
        raise ValueError(f"{name!r} is not a type of pandas with missing values")
    return pd.api.types.pandas_dtype(name).__from_arrow__(array)


_READERS: dict[str, Callable[..., Any]] = {
    "numpy": _read_numpy,
    "objects": _read_objects,
    "category": _read_category,
    "zoned": _read_zoned,
    "string": _read_string,
    "period": _read_period,
    "interval": _read_interval,
    "arrow": _read_arrow,
    "masked": _read_masked,
}
