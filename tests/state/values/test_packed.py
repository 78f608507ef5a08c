"""The packed form: a value and its large contents in one piece of bytes, without Base64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import DecodeError
from clew.state import LARGE, decode, encode, equal, packed, stored_part, unpacked

CONTENT = bytes(range(256)) * (LARGE // 128)


@pytest.mark.parametrize(
    "value",
    [
        CONTENT,
        bytearray(CONTENT),
        "é" * LARGE,
        np.arange(LARGE),
        {"a": [np.arange(LARGE), CONTENT], "b": CONTENT},
        list(range(LARGE)),
        {"key": 1},
        None,
    ],
)
def test_a_value_is_unpacked_as_it_was(value: Any) -> None:
    found = unpacked(packed(value))
    assert type(found) is type(value)
    assert equal(found, value)


def test_large_contents_are_contained_as_they_are_and_once() -> None:
    data = packed({"a": CONTENT, "b": [CONTENT]})
    assert data.count(CONTENT) == 1
    assert len(data) < len(CONTENT) + 1000
    assert len(stored_part(data)) < 1000
    array = np.arange(LARGE, dtype="int64")
    assert array.tobytes() in packed(array)


@given(st.recursive(st.integers() | st.text() | st.binary(), lambda inner: st.lists(inner)))
def test_a_value_without_large_contents_is_its_stored_form(value: Any) -> None:
    data = packed(value)
    assert stored_part(data) is data
    assert encode(decode(data)) == encode(value)


@pytest.mark.parametrize("data", [b"\x00", b"\x00\xc1", b"\x00" + packed(CONTENT)[1:-1]])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        unpacked(data)
