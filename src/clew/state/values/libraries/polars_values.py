"""Frames and series of polars as Arrow IPC streams, written by polars itself.

Rules:

- Types, names and null values are kept. A frame is written in one chunk, so equal frames have equal bytes.
- What lies under a null value is undefined. Columns with null values are copied, which leaves zeros there, except
  inside lists and structures.
- Columns of Python objects cannot be stored.
"""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow IPC stream


def write_frame(frame: Any) -> bytes:
    """Return a frame as a stream."""
    pl: Any = sys.modules["polars"]
    for name, dtype in frame.schema.items():
        _check(name, dtype)
    if frame.height and not frame.width:
        raise ValueError("it has rows and no columns")
    frame = frame.rechunk()
    gaps = [column.name for column in frame.iter_columns() if column.null_count()]
    if gaps:
        frame = frame.with_columns(pl.col(gaps).gather(pl.int_range(pl.len())))
    content = BytesIO()
    # The oldest level: strings are contiguous. Newer ones refer to buffers, which differ for equal strings.
    frame.write_ipc_stream(content, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return content.getvalue()


def read_frame(content: bytes) -> Any:
    """Return the frame of a stream."""
    pl: Any = sys.modules["polars"]
    if not content.endswith(_END):  # polars would return the rows so far
        raise ValueError("the stream is cut off")
    try:
        return pl.read_ipc_stream(content)
    except (Exception, pl.exceptions.PanicException) as error:  # a panic is not an Exception
        raise ValueError(str(error)) from None


def write_series(series: Any) -> bytes:
    """Return a series as a stream of one column."""
    return write_frame(series.to_frame())


def read_series(content: bytes) -> Any:
    """Return the series of a stream."""
    return read_frame(content).to_series()


def _check(name: str, dtype: Any) -> None:
    pl: Any = sys.modules["polars"]
    if dtype == pl.Object:
        raise ValueError(f"column {name!r} holds Python objects; convert it to another type with .cast")
    for inner in [getattr(dtype, "inner", None), *(field.dtype for field in getattr(dtype, "fields", ()))]:
        if inner is not None:
            _check(name, inner)
