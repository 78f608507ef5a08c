"""Policies are checked when they are made."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import PolicyError
from clew.graph import NodePolicy, RetryPolicy, SideEffectPolicy
from clew.graph.policies import policy_of
from tests.messages import mentions


def test_defaults_of_a_retry_policy() -> None:
    policy = RetryPolicy()
    assert (policy.max_attempts, policy.base_delay, policy.max_delay) == (3, 0.1, 30.0)


def test_every_exception_is_retryable_by_default() -> None:
    assert RetryPolicy().retryable(ValueError())


def test_an_interpreter_told_to_stop_is_not() -> None:
    assert not RetryPolicy().retryable(KeyboardInterrupt())


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "3"])
def test_at_least_one_attempt(attempts: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        RetryPolicy(max_attempts=attempts)
    assert mentions(str(caught.value), "max_attempts", "1", repr(attempts))


@pytest.mark.parametrize("delay", [-0.1, math.nan, math.inf, True, "1"])
def test_a_first_delay_not_below_zero(delay: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        RetryPolicy(base_delay=delay)
    assert mentions(str(caught.value), "base_delay", "0", repr(delay))


@pytest.mark.parametrize("delay", [0.5, math.inf, None])
def test_a_longest_delay_not_below_the_first(delay: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        RetryPolicy(base_delay=1.0, max_delay=delay)
    assert mentions(str(caught.value), "max_delay", "base_delay", "1.0", repr(delay))


def test_retryable_is_a_function() -> None:
    with pytest.raises(PolicyError) as caught:
        RetryPolicy(retryable=ValueError())
    assert mentions(str(caught.value), "retryable", "ValueError")


@pytest.mark.parametrize("attempt, delay", [(0, 1.0), (1, 2.0), (2, 4.0), (3, 5.0), (100_000, 5.0)])
def test_delays_double_up_to_the_longest(attempt: int, delay: float) -> None:
    assert RetryPolicy(base_delay=1.0, max_delay=5.0).delay(attempt) == delay


def test_delays_grow_by_the_factor() -> None:
    policy = RetryPolicy(base_delay=1.0, max_delay=1000.0, factor=3.0)
    assert [policy.delay(attempt) for attempt in range(4)] == [1.0, 3.0, 9.0, 27.0]
    assert RetryPolicy(base_delay=2.0, factor=1.0).delay(9) == 2.0


@pytest.mark.parametrize("attempt", [0, 1, 100_000])
def test_a_delay_of_zero(attempt: int) -> None:
    assert RetryPolicy(base_delay=0).delay(attempt) == 0


def test_the_jitter_is_by_default_the_first_delay() -> None:
    assert RetryPolicy(base_delay=3.0).most_jitter == 3.0
    assert RetryPolicy(base_delay=3.0, jitter=0).most_jitter == 0


def test_the_classes_to_retry_on() -> None:
    policy = RetryPolicy(retry_on=(OSError, KeyError), retryable=lambda error: "no" not in str(error))
    assert policy.retries(ConnectionError("x"))
    assert not policy.retries(ConnectionError("no"))
    assert not policy.retries(ValueError("x"))
    assert RetryPolicy(retry_on=OSError).retry_on == (OSError,)


@pytest.mark.parametrize(
    "option",
    [
        {"factor": 0.5},
        {"factor": "2"},
        {"jitter": -1},
        {"jitter": math.inf},
        {"retry_on": "OSError"},
        {"retry_on": (1,)},
        {"retry_on": [OSError]},
    ],
)
def test_invalid_options_name_themselves(option: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        RetryPolicy(**option)
    assert mentions(str(caught.value), next(iter(option)))


def test_a_list_of_policies() -> None:
    policies = [RetryPolicy(retry_on=(OSError,)), RetryPolicy(max_attempts=1)]
    made = policy_of(policy=None, timeout=None, retry=policies, idempotency_key=None)
    assert made.retry_policies == tuple(policies)
    assert NodePolicy(retry_policy=policies).retry_policies == tuple(policies)
    assert NodePolicy().retry_policies == ()
    for wrong in ([], [1], "x"):
        with pytest.raises(PolicyError):
            policy_of(policy=None, timeout=None, retry=wrong, idempotency_key=None)
    with pytest.raises(PolicyError):
        NodePolicy(retry_policy=[1])


def test_jitter_is_added() -> None:
    assert RetryPolicy(base_delay=1.0).delay(1, jitter=0.25) == 2.25


@given(
    base=st.floats(1e-6, 1e6),
    more=st.floats(0, 1e6),
    attempt=st.integers(0, 5000),
    share=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_is_the_formula(base: float, more: float, attempt: int, share: float) -> None:
    policy = RetryPolicy(base_delay=base, max_delay=base + more)
    jitter = base * share
    exact = base * 2**attempt + jitter if attempt < 900 else math.inf
    assert policy.delay(attempt, jitter) == min(exact, base + more)


def test_a_node_policy_leaves_everything_to_the_engine() -> None:
    assert NodePolicy() == NodePolicy(timeout=None, retry_policy=None, idempotency_key_func=None)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, True, "1"])
def test_a_timeout_above_zero(timeout: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        NodePolicy(timeout=timeout)
    assert mentions(str(caught.value), "timeout", "0", "None", repr(timeout))


def test_retry_policy_is_one() -> None:
    with pytest.raises(PolicyError, match=r"retry_policy.*RetryPolicy.*None.*3"):
        NodePolicy(retry_policy=3)


def test_the_idempotency_key_is_computed() -> None:
    with pytest.raises(PolicyError) as caught:
        NodePolicy(idempotency_key_func="key")
    assert mentions(str(caught.value), "idempotency_key_func", "None", "'key'")


@pytest.mark.parametrize("field", ["recordable", "requires_idempotency"])
def test_a_side_effect_is_there_or_not(field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        SideEffectPolicy(**{field: 1})
    assert mentions(str(caught.value), field, "True", "False", "1")


def test_idempotency_needs_no_key_function() -> None:
    assert SideEffectPolicy(requires_idempotency=True).requires_idempotency


def options(**given: Any) -> NodePolicy:
    return policy_of(**{"policy": None, "timeout": None, "retry": None, "idempotency_key": None, **given})


def test_retry_as_a_number_is_a_number_of_attempts() -> None:
    assert options(retry=5) == NodePolicy(retry_policy=RetryPolicy(max_attempts=5))


def test_the_parts_make_a_policy() -> None:
    retry = RetryPolicy(max_attempts=2)
    assert options(timeout=1.0, retry=retry, idempotency_key=str) == NodePolicy(1.0, retry, str)


def test_a_whole_policy_is_kept() -> None:
    policy = NodePolicy(timeout=2.0)
    assert options(policy=policy) is policy


def test_a_whole_policy_and_parts_of_it_contradict() -> None:
    with pytest.raises(PolicyError) as caught:
        options(policy=NodePolicy(), timeout=1.0, retry=2)
    assert mentions(str(caught.value), "policy=", "timeout", "retry")


def test_a_policy_is_a_node_policy() -> None:
    with pytest.raises(PolicyError, match=r"NodePolicy.*3"):
        options(policy=3)
