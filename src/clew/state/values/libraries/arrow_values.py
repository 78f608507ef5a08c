"""Tables, record batches and arrays of pyarrow as Arrow IPC streams.

Rules:

- Types, names, nullability, metadata and null values are kept. How a table is cut into chunks is not: it is written in
  one chunk, so equal tables have equal bytes.
- What lies under a null value is undefined in Arrow. It is written as zeros, for all types without nested values.
- A stream that was read shares the memory of the content. It is validated, because invalid offsets would read other
  memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import BytesIO
from typing import Any


def write_table(table: Any) -> bytes:
    """Return a table as a stream."""
    pa: Any = sys.modules["pyarrow"]
    columns = [canonical(column) for column in table.itercolumns()]
    return stream(table.schema, pa.table(columns, schema=table.schema).to_batches() if columns else ())


def read_table(content: bytes) -> Any:
    """Return the table of a stream."""
    pa: Any = sys.modules["pyarrow"]
    table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
    table.validate(full=True)
    return table


def write_batch(batch: Any) -> bytes:
    """Return a record batch as a stream."""
    pa: Any = sys.modules["pyarrow"]
    columns = [canonical(column) for column in batch.columns]
    if not columns and batch.num_rows:
        raise ValueError("it has rows and no columns")
    return stream(batch.schema, [pa.RecordBatch.from_arrays(columns, schema=batch.schema)])


def read_batch(content: bytes) -> Any:
    """Return the record batch of a stream."""
    pa: Any = sys.modules["pyarrow"]
    (batch,) = pa.ipc.open_stream(pa.py_buffer(content))
    batch.validate(full=True)
    return batch


def write_array(array: Any) -> bytes:
    """Return an array as a stream of one column."""
    pa: Any = sys.modules["pyarrow"]
    schema = pa.schema([pa.field("", array.type)])
    return stream(schema, [pa.RecordBatch.from_arrays([canonical(array)], schema=schema)])


def read_array(content: bytes) -> Any:
    """Return the array of a stream."""
    (array,) = read_batch(content).columns
    return array


def read_chunked(content: bytes) -> Any:
    """Return the array of a stream, as a chunked array."""
    pa: Any = sys.modules["pyarrow"]
    return pa.chunked_array([read_array(content)])


def stream(schema: Any, batches: Iterable[Any]) -> bytes:
    """Return record batches as a stream."""
    pa: Any = sys.modules["pyarrow"]
    content = BytesIO()
    with pa.ipc.new_stream(content, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return content.getvalue()


def canonical(array: Any) -> Any:
    """Return an array or chunked array as one array, with zeros under its null values."""
    pa: Any = sys.modules["pyarrow"]
    if isinstance(array, pa.ChunkedArray):
        chunks = array.chunks or [pa.array([], array.type)]
        array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    if array.null_count and _is_flat(array.type):
        array = array.take(pa.array(range(len(array)), pa.int64()))  # copies, and leaves zeros under nulls
    return array


def _is_flat(kind: Any) -> bool:
    pa: Any = sys.modules["pyarrow"]
    others = (pa.types.is_null, pa.types.is_nested, pa.types.is_dictionary, pa.types.is_run_end_encoded)
    return not isinstance(kind, pa.BaseExtensionType) and not any(is_other(kind) for is_other in others)
