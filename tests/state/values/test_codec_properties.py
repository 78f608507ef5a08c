"""Laws of the canonical codec, over arbitrary nested values."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from datetime import timedelta, timezone
from pathlib import PurePosixPath
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.state.graph_state import GraphState
from clew.state.values.codec import decode, encode, from_tree, to_tree

zones = (
    st.none()
    | st.timezones()
    | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)), st.text(max_size=3))
)
text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**62, max_value=2**65)
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=8)
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=zones)
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False)
    | st.builds(PurePosixPath, st.text("ab/.", max_size=5))
)
hashables = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
values = st.recursive(
    atoms | hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(text | st.sampled_from(["$tuple", "$dict", "$"]), inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.binary(max_size=4).map(bytearray)
    ),
    max_leaves=20,
)


def same(a: Any, b: Any) -> bool:
    """Equal, with equal types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(a[key], b.get(key)) for key in a) and _kinds(a) == _kinds(b)
    if isinstance(a, set | frozenset):
        return a == b and _kinds(a) == _kinds(b)
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b) and getattr(a, "fold", 0) == getattr(b, "fold", 0)


def _kinds(values: Any) -> list[str]:
    return sorted(f"{type(value).__name__}" for value in values)


@given(values)
def test_decoding_gives_back_equal_values_of_the_same_types(value):
    assert same(decode(encode(value)), value)
    assert same(from_tree(to_tree(value)), value)


@given(values)
def test_encoding_is_a_function_of_the_value(value):
    data = encode(value)
    assert encode(decode(data)) == data
    ordered = encode(value, ordered=True)
    assert encode(decode(ordered), ordered=True) == ordered
    assert encode(decode(ordered)) == data


@given(values, values)
def test_different_values_have_different_bytes(one, other):
    if encode(one) == encode(other):
        assert same(one, other)


@given(values, st.randoms(use_true_random=False))
def test_insertion_order_does_not_matter(value, shuffle):
    assert encode(_shuffled(value, shuffle)) == encode(value)


def _shuffled(value: Any, shuffle: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, _shuffled(item, shuffle)) for key, item in value.items()]
        shuffle.shuffle(items)
        return dict(items)
    if isinstance(value, list | tuple):
        return type(value)(_shuffled(item, shuffle) for item in value)
    if isinstance(value, set | frozenset):
        elements = list(value)
        shuffle.shuffle(elements)
        return type(value)(elements)
    return value


@given(st.dictionaries(text, values, max_size=5))
def test_a_checkpoint_gives_back_an_equal_state(initial):
    state = GraphState(initial).record_gate_decision("g", ("a", "b"))
    restored = GraphState.from_checkpoint(state.to_checkpoint())
    assert restored == state
    assert same(dict(restored.values), dict(state.values))
    assert repr(restored) == repr(state) or "{" in repr(state)
    assert restored.to_checkpoint() == state.to_checkpoint()
    assert restored.digest == state.digest


def test_bytes_and_digests_are_the_same_under_every_hash_seed():
    code = (
        "from clew.state.values.codec import encode, digest\n"
        "from clew.state.graph_state import GraphState\n"
        "value = {'set': set('qwertzuiop'), 'frozen': {frozenset('abc'), frozenset('xyz'), ('p', 'q')},\n"
        "         'keys': {('a', 1): 2, 'b': frozenset('lmn'), None: {3, 4.5, 'x', b'y'}}}\n"
        "state = GraphState(value).set('more', {'s', 't', 'u'})\n"
        "print(digest(encode(value), encode(value, ordered=True)), state.digest, state.to_checkpoint().hex())"
    )
    printed = set()
    for seed in ("0", "1", "2", "3", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
