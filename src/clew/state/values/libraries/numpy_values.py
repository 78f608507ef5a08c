"""Arrays and scalars of numpy as bytes, without pickle.

An array is an ``.npy`` file. Clew writes the header itself, because its bytes differ between versions of numpy. A
scalar is the name of its type and its bytes.

Rules:

- Type, byte order, shape and Fortran order are kept. A view that is not contiguous is copied in C order.
- Equal bytes mean equal items of equal types. Gaps between the fields of a structure are zeros.
- Items that are Python objects cannot be stored: they would need pickle. Neither can types that numpy cannot name
  (such as those of extensions), nor ``longdouble``, whose bytes depend on the platform.
- An array that was read shares the memory of the content, and is read-only.
"""

from __future__ import annotations

import sys
from binascii import a2b_base64, b2a_base64
from math import prod
from typing import Any

from clew.state.values.scalars import read_text, text_tree

_MAGIC = b"\x93NUMPY"
_ALIGNED = 64
_MAX_HEADER = 10_000  # as in numpy: longer literals may exhaust the parser


def write_array(array: Any) -> bytes:
    """Return an array as an ``.npy`` file."""
    np: Any = sys.modules["numpy"]
    flags = array.flags
    in_fortran_order = flags.f_contiguous and not flags.c_contiguous
    head = _head(_description(array.dtype), in_fortran_order, array.shape)
    if not array.nbytes:
        return head
    if _has_gaps(array.dtype):
        array = _without_gaps(array, in_fortran_order)
    rows = np.ascontiguousarray(array.T if in_fortran_order else array)
    return b"".join((head, memoryview(rows.reshape(-1).view(np.uint8))))


def read_array(content: bytes) -> Any:
    """Return the array of an ``.npy`` file."""
    np: Any = sys.modules["numpy"]
    description, in_fortran_order, shape, start = header_of(content)
    dtype = np.lib.format.descr_to_dtype(description)
    if dtype.hasobject:
        raise ValueError("its items are Python objects")
    if len(content) - start != prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(content) - start} bytes are not an array {shape} of {dtype}")
    return np.ndarray(shape, dtype, content, start, order="F" if in_fortran_order else "C")


def header_of(content: bytes) -> tuple[Any, bool, tuple[int, ...], int]:
    """Return type, order and shape of an ``.npy`` file, and where its items start. Needs no numpy."""
    from ast import literal_eval

    if content[:6] != _MAGIC or content[6:8] not in (b"\x01\x00", b"\x03\x00"):
        raise ValueError("it is not an .npy file of version 1 or 3")
    start = 10 if content[6] == 1 else 12
    end = start + int.from_bytes(content[8:start], "little")
    if end > min(len(content), _MAX_HEADER):
        raise ValueError("its header is cut off or too long")
    found = literal_eval(content[start:end].decode("latin-1" if content[6] == 1 else "utf-8"))
    description, in_fortran_order, shape = found["descr"], found["fortran_order"], found["shape"]
    if type(shape) is not tuple or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{shape!r} is not a shape")
    return description, bool(in_fortran_order), shape, end


def _head(description: Any, in_fortran_order: bool, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': {description!r}, 'fortran_order': {in_fortran_order}, 'shape': {tuple(map(int, shape))}, }}"
    if text.isascii():
        version, width, encoded = b"\x01\x00", 2, text.encode()
    else:
        version, width, encoded = b"\x03\x00", 4, text.encode()
    encoded += b" " * (-(len(_MAGIC) + 2 + width + len(encoded) + 1) % _ALIGNED) + b"\n"
    if len(encoded) > _MAX_HEADER - 12:
        raise ValueError("its type has too many fields; split it into several arrays")
    return b"".join((_MAGIC, version, len(encoded).to_bytes(width, "little"), encoded))


def _description(dtype: Any) -> Any:
    """Return what names a type in a header; raise ValueError for a type that cannot be stored."""
    np: Any = sys.modules["numpy"]
    _check(dtype)
    try:
        description = dtype.str if dtype.names is None else dtype.descr
        if np.lib.format.descr_to_dtype(description) == dtype:
            return description
    except (TypeError, ValueError):  # fields that overlap, or a type that only an extension knows
        pass
    raise ValueError(f"its type {dtype} has no name in .npy files; convert it with .astype")


def _check(dtype: Any) -> None:
    np: Any = sys.modules["numpy"]
    if dtype.subdtype is not None:
        _check(dtype.subdtype[0])
    elif dtype.names is not None:
        if dtype.type is not np.void:
            raise ValueError("its items are records; convert it with numpy.asarray(array, array.dtype.descr)")
        for name in dtype.names:
            _check(dtype.fields[name][0])
    elif dtype.hasobject or dtype.char == "T":
        raise ValueError(
            f"its items have type {dtype}, which only pickle can store; convert it with .astype, or to a list"
        )
    elif dtype.char in "gG":
        raise ValueError(f"the bytes of {dtype} depend on the platform; convert it with .astype('float64')")


def _has_gaps(dtype: Any) -> bool:
    if dtype.subdtype is not None:
        return _has_gaps(dtype.subdtype[0])
    if dtype.names is None:
        return False
    fields = [dtype.fields[name][0] for name in dtype.names]
    return sum(field.itemsize for field in fields) != dtype.itemsize or any(map(_has_gaps, fields))


def _without_gaps(array: Any, in_fortran_order: bool) -> Any:
    """Return a copy of an array in which the bytes between fields are zeros."""
    np: Any = sys.modules["numpy"]
    filled = np.zeros(array.shape, array.dtype, order="F" if in_fortran_order else "C")
    _fill(filled, array)
    return filled


def _fill(into: Any, array: Any) -> None:
    for name in array.dtype.names:
        if _has_gaps(array.dtype.fields[name][0]):
            _fill(into[name], array[name])
        else:
            into[name] = array[name]


def scalar_tree(scalar: Any) -> list[Any]:
    """Return a scalar as a tree: its type, and its content."""
    np: Any = sys.modules["numpy"]
    if type(scalar) is np.str_:
        return ["str", text_tree(str(scalar))]
    if type(scalar) is np.bytes_:
        return ["bytes", _base64(bytes(scalar))]
    dtype = scalar.dtype
    if dtype.names is not None:
        return ["npy", _base64(write_array(np.asarray(scalar)))]
    return [_description(dtype), _base64(scalar.tobytes())]


def read_scalar(tree: Any) -> Any:
    np: Any = sys.modules["numpy"]
    kind, content = tree
    if kind == "str":
        return np.str_(read_text(content))
    data = a2b_base64(content, strict_mode=True)
    if kind == "bytes":
        return np.bytes_(data)
    if kind == "npy":
        array = read_array(data)
    else:
        dtype = np.lib.format.descr_to_dtype(kind)
        if dtype.hasobject or dtype.itemsize != len(data):
            raise ValueError(f"{len(data)} bytes are not one {dtype}")
        array = np.ndarray((), dtype, data)
    if array.shape:
        raise ValueError(f"an array {array.shape} is not a scalar")
    return array[()]


def _base64(content: bytes) -> str:
    return b2a_base64(content, newline=False).decode("ascii")
