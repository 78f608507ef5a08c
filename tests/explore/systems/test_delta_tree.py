"""The tree of deltas: any way between any states, whatever was released meanwhile."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UnknownCheckpointError
from clew.explore.systems.delta_tree import DeltaTree, add

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("change"), st.dictionaries(st.sampled_from("abcd"), st.sampled_from([-1, 1]), min_size=1)
        ),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("go"), st.integers(0, 20)),
        st.tuples(st.just("release"), st.integers(0, 20)),
    ),
    max_size=40,
)


@settings(max_examples=200, derandomize=True)
@given(OPERATIONS)
def test_the_way_between_two_states_is_their_difference(operations: list[tuple[str, object]]) -> None:
    tree: DeltaTree[str, None] = DeltaTree()
    tree.new_root(None)
    held: Counter[str] = Counter()
    known: dict[int, Counter[str]] = {}
    for kind, argument in operations:
        if kind == "change":
            assert isinstance(argument, dict)
            add(tree.pending, argument)
            if len(argument) != 1:  # a single change stays pending
                tree.step(None)
            for item, count in argument.items():
                held[item] += count
        elif kind == "mark":
            tree.step(None)
            known[tree.mark()] = held.copy()
        elif known and isinstance(argument, int):
            token = sorted(known)[argument % len(known)]
            if kind == "go":
                way = tree.path_to(tree[token])
                assert all(way.values())
                for item, count in way.items():
                    held[item] += count
                assert +held == +known[token]
                assert -held == -known[token]
                tree.move(tree[token])
            else:
                tree.release(token)
                del known[token]
    for token, wanted in known.items():
        way = tree.path_to(tree[token])
        total = {item: count for item, count in held.items() if count}
        add(total, way)
        assert total == {item: count for item, count in wanted.items() if count}


def test_what_nobody_needs_is_forgotten() -> None:
    tree: DeltaTree[int, None] = DeltaTree()
    tree.new_root(None)
    root = tree.here
    tokens = []
    for number in range(100):
        tree.pending = {number: 1}
        tree.step(None)
        tokens.append(tree.mark())
    last = tree.here
    for token in tokens[:-1]:
        tree.release(token)
    assert last.parent is root
    assert last.delta == dict.fromkeys(range(100), 1)
    tree.move(root)
    tree.release(tokens[-1])
    assert root.children == set()


def test_tokens_that_are_not_there() -> None:
    tree: DeltaTree[int, None] = DeltaTree()
    tree.new_root(None)
    for token in (1, "x", []):
        assert token not in tree
        with pytest.raises(UnknownCheckpointError, match="Checkpoint not found"):
            tree[token]


def test_what_several_states_share_is_held_once() -> None:
    """A state that nobody can go back to stays while it is what two others differ from."""
    tree: DeltaTree[int, None] = DeltaTree()
    tree.new_root(None)
    tree.pending = dict.fromkeys(range(1_000), 1)
    tree.step(None)
    shared = tree.mark()
    between = tree.here
    tokens = []
    for number in (-1, -2):
        tree.move(between)
        tree.pending = {number: 1}
        tree.step(None)
        tokens.append(tree.mark())
    tree.release(shared)
    assert [tree[token].delta for token in tokens] == [{-1: 1}, {-2: 1}]
    tree.move(tree[tokens[0]])
    assert tree.path_to(tree[tokens[1]]) == {-1: -1, -2: 1}
    tree.move(tree[tokens[1]])
    tree.release(tokens[0])  # now it is between its parent and one state only
    assert len(tree[tokens[1]].delta) == 1_001
