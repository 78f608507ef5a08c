"""Laws of the stored form, over arbitrary nested values; and what mutated documents do to a reader."""

from __future__ import annotations

import enum
import hashlib
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.errors import DecodeError, GraphWarning
from clew.state import (
    LARGE,
    StoredObject,
    canonical,
    decode,
    encode,
    register_type,
    stored_value,
    stored_values,
)
from tests.state.values.test_codec_properties import text, values


class Mood(enum.Enum):
    GOOD = 1
    BAD = 2


@dataclass(frozen=True)
class Doc:
    title: Any
    inner: Any = None


@dataclass(frozen=True)
class Need:
    must: Any


@pytest.fixture(autouse=True)
def _classes():
    for cls in (Mood, Doc, Need):
        register_type(cls)


# Leaves at the limit, and some that are far above it.
large = st.builds(
    lambda unit, more: unit * (LARGE // len(unit)) + unit[:1] * more,
    st.sampled_from([b"x", bytearray(b"y"), "z", "é", "ab\ud800", '"\n']),
    st.integers(-3, 3),
)
keys = st.sampled_from([b"k" * (LARGE + 1), "k" * (LARGE + 1), ("k" * (LARGE + 1),), Mood.GOOD, Doc("a")])
leaves = values | large | st.sampled_from(Mood) | st.builds(Need, values)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(text | st.just("$blob"), inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=2)
        | st.builds(Doc, inner, inner)
        | st.sets(keys, max_size=3)
        | st.builds(StoredObject, st.sampled_from(["gone:Class", "x"]), inner)
    ),
    max_leaves=6,
)
bounded = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@bounded
@given(trees)
def test_a_value_is_read_as_it_was_stored(value):
    blobs: dict[str, bytes] = {}
    stored = stored_value(value, at="value", blobs=blobs)
    assert len(stored) <= LARGE
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())
    back = decode(stored, blob=blobs.__getitem__)
    assert encode(back, ordered=True) == encode(value, ordered=True)
    assert type(back) is type(value)
    without = decode(stored, blob=blobs.__getitem__, classes=False)
    again: dict[str, bytes] = {}
    assert stored_value(without, at="value", blobs=again) == stored
    assert again == blobs


@bounded
@given(st.dictionaries(text | st.sampled_from(["$blob", "$dict", "a"]), trees, max_size=3))
def test_the_canonical_form_follows_from_the_stored_one(update):
    blobs: dict[str, bytes] = {}
    stored, form = stored_values(update, at="state", blobs=blobs)
    assert canonical(stored) == form
    assert canonical(form) == form
    assert encode(decode(stored, blob=blobs.__getitem__), ordered=True) == encode(update, ordered=True)
    if not blobs:
        assert (stored, form) == (encode(update, ordered=True), encode(update))
    turned = dict(reversed(update.items()))
    assert stored_values(turned, at="state", blobs={})[1] == form


@bounded
@given(st.dictionaries(text, values, max_size=4))
def test_small_values_are_stored_as_they_are_encoded(update):
    assert stored_values(update, at="state", blobs={}) == (encode(update, ordered=True), encode(update))


@given(st.sampled_from(["a:B", "x"]), values)
def test_a_stored_object_goes_and_comes_back(name, fields):
    stored = StoredObject(name, fields)
    for classes in (True, False):
        back = decode(encode(stored, ordered=True), classes=classes)
        assert back == stored
        assert hash(back) == hash(stored)
        assert encode(back) == encode(stored)
    assert isinstance(repr(stored), str)


SEEDS = [
    {"b": Doc(Mood.GOOD, (1, {2: b"x"})), "a": [{Doc("s")}, 2**70, 1.5, "é\ud800"]},
    {"n": [Need(Doc([]))], "blob": b"x" * (LARGE + 1), "t": "t" * (LARGE + 1)},
    {"big": [Doc(str(i)) for i in range(2_000)], "d": {("a", 1): {Mood.BAD: None}}},
]
REPLACED = st.sampled_from(
    [
        b'"$',
        b'{"$tuple":',
        b'{"$object":["os:system",',
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b",",
        b":",
        b"null",
        b"-",
        b"1e999",
    ]
    + [
        b'{"$blob":["json","',
        b'"$set"',
        b'"$dict"',
        b'"$blob"',
        b'"title"',
        b'"must"',
        b"\\u0024",
        b"\xff",
        b"0" * 64,
        b"",
    ]
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 12), REPLACED), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_mutated_document_is_read_or_refused(seed, edits, is_in_content):
    blobs: dict[str, bytes] = {}
    stored, _ = stored_values(seed, at="state", blobs=blobs)
    changed = dict(blobs)
    if is_in_content and blobs:
        name = sorted(blobs)[edits[0][0] % len(blobs)]
        changed[name] = _mutated(blobs[name], edits)
    else:
        stored = _mutated(stored, edits)
    modules = set(sys.modules)
    for classes in (True, False):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GraphWarning)
                warnings.simplefilter("ignore", DeprecationWarning)  # of Python's own escapes
                decode(stored, blob=changed.__getitem__, classes=classes)
        except DecodeError:
            pass
    try:
        form = canonical(stored)
        assert canonical(form) == form
    except DecodeError:
        pass
    assert set(sys.modules) == modules


def _mutated(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, new in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + length :]
    return data


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text.filter(str.isascii),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "title"] + [f"${tag}" for tag in ("tuple", "set", "dict", "object", "blob", "str")]
            ),
            inner,
            max_size=2,
        )
        | st.tuples(
            st.sampled_from([f"{__name__}:Doc", f"{__name__}:Mood", "os:system", "builtins:eval"]), inner
        ).map(lambda pair: {"$object": list(pair)})
        | st.tuples(st.sampled_from(["json", "bytes"]), st.just("0" * 64)).map(
            lambda pair: {"$blob": list(pair)}
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(json)
def test_any_json_is_read_or_refused(tree):
    data = msgspec.json.encode(tree) if _fits(tree) else b"0"
    for lookup in (None, lambda digest: data):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GraphWarning)
                warnings.simplefilter("ignore", DeprecationWarning)
                decode(data, blob=lookup)
        except DecodeError:
            pass
    try:
        canonical(data)
    except DecodeError:
        pass


def _fits(tree: Any) -> bool:
    try:
        msgspec.json.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return False
    return True
