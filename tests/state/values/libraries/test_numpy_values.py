"""Arrays and scalars of numpy: what is kept, what is rejected, and what hostile content does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import DecodeError, EncodeError
from clew.state import LARGE, StoredObject, decode, encode, equal, register_type, same, stored_value
from clew.state.stored_object import StoredContent
from clew.state.values.libraries import brief, format_of

np = pytest.importorskip("numpy")

STRUCTURE = [("id", "<i4"), ("at", "<M8[s]"), ("point", ">f8", (2,)), ("inner", [("x", "?"), ("ä", "<U3")])]

ARRAYS: dict[str, Any] = {
    "C order": np.arange(6.0).reshape(2, 3),
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "no dimensions": np.array(5),
    "empty": np.zeros((0, 3)),
    "empty in the middle": np.zeros((2, 0, 3), order="F"),
    "every second": np.arange(10)[::2],
    "backwards": np.arange(10)[::-1],
    "transposed": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "broadcast": np.broadcast_to(np.arange(3), (2, 3)),
    "text": np.array(["a", "bcä", ""]),
    "text without length": np.zeros(3, "U0"),
    "bytes": np.array([b"a", b"bc"]),
    "raw": np.array([b"abcde"], dtype="V5"),
    "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "multiples": np.array([1, 2], "m8[15m]"),
    "big-endian": np.arange(3, dtype=">i4"),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j, np.nan], "c8"),
    "half": np.array([1, np.nan, -0.0, np.inf], "f2"),
    "structure": np.zeros(2, STRUCTURE),
    "structure with gaps": np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "nested gaps": np.zeros(
        (2, 2), np.dtype([("n", np.dtype([("a", "i1"), ("b", "f8")], align=True)), ("c", "i1")])
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back_exactly(name: str) -> None:
    array = ARRAYS[name]
    back = decode(encode({"it": array}))["it"]
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert back.flags.c_contiguous == array.flags.c_contiguous
        assert back.flags.f_contiguous == array.flags.f_contiguous
    assert encode(back) == encode(array) == encode(array.copy(order="A"))
    assert equal(back, array)
    assert same(back, array)


@pytest.mark.parametrize("name", ARRAYS)
def test_numpy_reads_the_content(name: str) -> None:
    array = ARRAYS[name]
    content = format_of(np.ndarray).write(array)
    loaded = np.load(BytesIO(content), allow_pickle=False)
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    assert loaded.tobytes() == np.ascontiguousarray(array).tobytes()


@given(st.lists(st.floats(width=32), max_size=40), st.sampled_from(["<f8", ">f8", "<f4"]))
def test_floats_keep_their_bits(numbers: list[float], kind: str) -> None:
    array = np.array(numbers, kind)
    assert decode(encode(array)).tobytes() == array.tobytes()


def test_bytes_between_fields_do_not_count() -> None:
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    buffers = [bytearray([fill]) * 32 for fill in (1, 2)]  # `copy()` may leave these bytes out
    one, other = (np.frombuffer(buffer, dtype) for buffer in buffers)
    for array in one, other:
        array["a"], array["b"] = 7, 0.5
    assert buffers[0] != buffers[1]
    assert encode(one) == encode(other)


SCALARS = [
    np.float64(1.5),
    np.float32("nan"),
    np.int8(-3),
    np.uint64(2**63),
    np.bool_(True),
    np.str_("hä"),
    np.str_(""),
    np.bytes_(b"ab"),
    np.datetime64("NaT"),
    np.datetime64("2020-01-01T01:02:03.000000004"),
    np.timedelta64(3, "s"),
    np.complex128(1j),
    np.void(b"abc"),
    np.zeros((), STRUCTURE)[()],
]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_a_scalar_comes_back_exactly(scalar: Any) -> None:
    back = decode(encode([scalar]))[0]
    assert type(back) is type(scalar)
    assert back.dtype == scalar.dtype
    assert repr(back) == repr(scalar)
    assert encode(back) == encode(scalar)


def test_a_scalar_differs_from_the_number_and_from_an_array() -> None:
    codes = {encode(value) for value in (np.float64(1), np.float32(1), 1.0, np.array(1.0), np.array([1.0]))}
    assert len(codes) == 5
    assert equal(np.float64(1), 1.0)
    assert not equal(np.array(1.0), 1.0)


class Mine(np.ndarray):
    pass


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.zeros(2, [("a", "O")]),
        np.array(["a"], dtype=np.dtypes.StringDType())
        if hasattr(np.dtypes, "StringDType")
        else np.array([object()]),
        np.zeros(2, np.longdouble),
        np.ma.array([1]),
        np.zeros(1, [("a", "i4")]).view(np.recarray),
        np.zeros(1, np.dtype((np.record, [("a", "i4")]))),
        np.zeros(2).view(Mine),
        np.zeros(1, [(f"field {n}", "i1") for n in range(1000)]),
    ],
    ids=lambda array: f"{type(array).__name__} {array.dtype.kind}",
)
def test_what_cannot_be_stored_is_rejected_with_its_path(array: Any) -> None:
    with pytest.raises(EncodeError, match=r"^state\.deep\[1\]: .*; ") as caught:
        encode({"deep": [0, array]}, at="state")
    assert "convert it" in str(caught.value) or "split it" in str(caught.value)


def test_an_array_that_was_read_is_read_only() -> None:
    back = decode(encode(np.arange(3)))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True


def test_a_large_array_is_separate_content_and_never_base64() -> None:
    blobs: dict[str, bytes] = {}
    array = np.arange(LARGE, dtype="i2")
    stored = stored_value([array, array.copy()], at="value", blobs=blobs)
    ((digest, content),) = blobs.items()
    reference = b'{"$blob":["npy","%s"]}' % digest.encode()
    assert stored == b"[" + reference + b"," + reference + b"]"
    assert content[:6] == b"\x93NUMPY"
    assert content.endswith(array.tobytes())
    for back in decode(stored, blob=blobs.__getitem__):
        assert equal(back, array)


def head(text: str) -> bytes:
    encoded = text.encode()
    return b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x02\x00\x00\x00\x00\x00",
        head("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"12345678",
        head("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }") + b"12345678",
        head("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }") + b"12345678",
        head("{'descr': '<f8', 'fortran_order': False, 'shape': 1, }") + b"12345678",
        head("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }") + b"123456789",
        head("{'descr': 'os.system', 'fortran_order': False, 'shape': (1,), }") + b"12345678",
        head("__import__('os')"),
        head("(" * 5000),
        head("-" * 9000 + "1"),
        head("{}"),
    ],
)
def test_invalid_content_is_an_error(content: bytes) -> None:
    from clew.state.values.scalars import base64

    with pytest.raises(DecodeError):
        decode(b'{"$npy":"%s"}' % base64(content).encode())
    with pytest.raises(DecodeError):
        decode(b'{"$blob":["npy","%s"]}' % (b"0" * 64), blob=lambda digest: content)


@pytest.mark.parametrize(
    "tree", [b"1", b'["<f8"]', b'["<f8","AA=="]', b'["O","AAAAAAAAAAA="]', b'["npy","AA=="]']
)
def test_invalid_scalars_are_an_error(tree: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(b'{"$numpy_scalar":%s}' % tree)


def test_short_forms() -> None:
    assert brief(np.zeros((1000, 3))) == "ndarray float64 (1000, 3)"
    assert brief(np.float32(1)) == repr(np.float32(1))
    assert brief([1]) is None


@dataclass(frozen=True)
class Model:
    weights: Any


def test_instances_with_arrays_compare() -> None:
    register_type(Model, name="model")
    one, other, third = (Model(np.array(weights)) for weights in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))
    assert equal(one, other)
    assert not equal(one, third)
    assert equal({"a": [one]}, {"a": [other]})
    assert not equal({"a": [one]}, {"a": [third]})
    stored = [decode(encode(each), classes=False) for each in (one, other, third)]
    assert all(type(each) is StoredObject for each in stored)
    assert stored[0] == stored[1] != stored[2]
    assert hash(stored[0]) == hash(stored[1])


def test_arrays_that_cannot_be_stored_compare() -> None:
    one, other = np.array([1, "a"], object), np.array([1, "b"], object)
    assert equal(one, one.copy())
    assert same(one, one.copy())
    assert not equal(one, other)
    assert not same([one], [other])
    assert not equal(np.zeros(2), np.zeros(3))
    assert not equal(np.zeros(2), "text")
    assert not equal(np.zeros(()), np.zeros((1,)))


# Programs of their own: what is imported, and what is not installed, belongs to a process.

WITHOUT = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow", "pandas", "polars"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
"""


def in_a_process(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_encoding_imports_no_library() -> None:
    program = """
import sys
from clew.state import decode, encode, equal
decode(encode({"a": [1, b"2"]}))
assert equal({"a": 1}, {"a": 1})
print(sorted({"numpy", "pandas", "polars", "pyarrow"} & set(sys.modules)))
"""
    assert in_a_process(program) == "[]\n"


def test_reading_imports_an_installed_library() -> None:
    program = """
import sys
from clew.state import decode
value = decode(sys.argv[1].encode())
print(type(value).__name__, value.tolist())
"""
    assert in_a_process(program, encode(np.arange(3)).decode()) == "ndarray [0, 1, 2]\n"


def test_without_the_library_a_value_stays_as_it_was_stored() -> None:
    program = f"""{WITHOUT}
from clew.errors import DecodeError
from clew.state import decode, encode, from_tree
from clew.state.values.codec import why_unbuilt
from clew.state.stored_object import StoredContent, find_stored
code = sys.argv[1].encode()
value = decode(code)
array = value["a"][0]
assert type(array) is StoredContent and find_stored(value) is not None
assert encode(value) == code
assert decode(code) == value and hash(array) == hash(decode(code)["a"][0])
assert "numpy" in str(why_unbuilt(array)) and "install" in str(why_unbuilt(array))
try:
    array.shape
except AttributeError as error:
    assert "numpy" in str(error)
print(repr(array))
"""
    assert "numpy.ndarray" in in_a_process(program, encode({"a": [np.arange(3)], "b": np.int8(1)}).decode())
    assert issubclass(StoredContent, StoredObject)
