"""Policies of nodes: timeouts, retries, caching and side effects.

A policy is validated when it is created:

- a timeout is greater than zero;
- a retry policy allows at least one attempt, and ``max_delay >= base_delay >= 0``;
- in a list of retry policies, the first one that covers an exception decides whether it is retried;
- a node that requires idempotency needs no key function: by default the engine derives a key from run and path.

The delay before attempt ``n + 1`` is ``min(base_delay * factor**n + jitter, max_delay)``. The caller passes the jitter,
because it comes from the item's random stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import PolicyError
from clew.state.number_checks import is_int, is_number


def any_exception(error: BaseException) -> bool:
    """Return whether an error is an `Exception`: the default of ``RetryPolicy.retryable``."""
    return isinstance(error, Exception)


def _is_duration(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _is_at_least(value: Any, least: Any) -> bool:
    return _is_duration(value) and _is_duration(least) and bool(value >= least)


@dataclass(frozen=True)
class RetryPolicy:
    """The number of attempts of a node, and the delays between them.

    Args:
        max_attempts: The number of attempts, including the first one. In a list of policies, all attempts count.
        base_delay: The seconds to wait after the first attempt; 0 to retry at once.
        max_delay: The longest delay in seconds.
        retryable: A function that takes an exception whose class is in `retry_on`, and returns whether to retry.
        factor: The factor by which each delay is longer than the previous one.
        jitter: The longest random addition to a delay, in seconds. By default `base_delay`.
        retry_on: The exception classes that are retried.
    """

    max_attempts: int = 3
    base_delay: float = 0.1
    max_delay: float = 30.0
    retryable: Callable[[BaseException], bool] = any_exception
    factor: float = 2.0
    jitter: float | None = None
    retry_on: tuple[type[BaseException], ...] = (Exception,)

    def __post_init__(self) -> None:
        seconds = "a number of seconds >= "
        rules = (
            ("max_attempts", is_int(self.max_attempts, 1), "an int >= 1 (it includes the first attempt)"),
            ("base_delay", _is_at_least(self.base_delay, 0), f"{seconds}0"),
            (
                "max_delay",
                _is_at_least(self.max_delay, self.base_delay),
                f"{seconds}base_delay ({self.base_delay!r})",
            ),
            ("retryable", callable(self.retryable), "a function from an exception to a bool"),
            ("factor", _is_at_least(self.factor, 1), "a number >= 1"),
            ("jitter", self.jitter is None or _is_at_least(self.jitter, 0), f"{seconds}0 or None"),
        )
        for name, is_valid, expected in rules:
            if not is_valid:
                raise PolicyError(f"{name}: expected {expected}, got {getattr(self, name)!r}.")
        classes: Any = self.retry_on
        if isinstance(classes, type):
            classes = (classes,)
            object.__setattr__(self, "retry_on", classes)
        if not isinstance(classes, tuple) or not all(
            isinstance(each, type) and issubclass(each, BaseException) for each in classes
        ):
            raise PolicyError(f"retry_on: expected a tuple of exception classes, got {self.retry_on!r}.")

    def retries(self, error: BaseException) -> bool:
        """Return whether this policy retries an exception: its class is in `retry_on`, and `retryable` agrees."""
        return issubclass(type(error), self.retry_on) and bool(self.retryable(error))

    @property
    def most_jitter(self) -> float:
        """The longest random addition to a delay, in seconds."""
        return self.base_delay if self.jitter is None else self.jitter

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Return the seconds to wait after ``attempt`` (from 0) failed; ``jitter`` is in ``[0, most_jitter)``."""
        if self.base_delay == 0:
            return min(jitter, self.max_delay)
        try:
            grown = self.base_delay * self.factor**attempt
        except OverflowError:  # max_delay applies much earlier
            grown = math.inf
        return min(grown + jitter, self.max_delay)


@dataclass(frozen=True)
class NodePolicy:
    """A node's timeout, retries and idempotency key. With ``timeout=None`` the engine's default applies."""

    timeout: float | None = None
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None
    idempotency_key_func: Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and (not _is_duration(self.timeout) or self.timeout <= 0):
            raise PolicyError(f"timeout: expected a number of seconds > 0 or None, got {self.timeout!r}.")
        if isinstance(self.retry_policy, list):
            object.__setattr__(self, "retry_policy", tuple(self.retry_policy))
        policies: Any = self.retry_policies
        if not isinstance(policies, tuple) or not all(isinstance(each, RetryPolicy) for each in policies):
            raise PolicyError(
                f"retry_policy: expected a RetryPolicy, a list of them or None, got {self.retry_policy!r}."
            )
        if self.idempotency_key_func is not None and not callable(self.idempotency_key_func):
            raise PolicyError(
                "idempotency_key_func: expected a function of the node's inputs or None, "
                f"got {self.idempotency_key_func!r}."
            )

    @property
    def retry_policies(self) -> tuple[RetryPolicy, ...]:
        """The retry policies, in the order in which they are tried."""
        found: Any = self.retry_policy
        if found is None:
            return ()
        return (found,) if isinstance(found, RetryPolicy) else found


@dataclass(frozen=True)
class Cache:
    """A cache for the results of a node, in the engine's store: ``@node(cache=Cache(ttl=3600))``.

    Args:
        ttl: Seconds after which a result is computed again. With None, it is valid until ``engine.clear_cache()``.
        key: A function of the node's inputs. Its value identifies the result, instead of the inputs themselves.
    """

    ttl: float | None = None
    key: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.ttl is not None and (not _is_duration(self.ttl) or self.ttl <= 0):
            raise PolicyError(f"ttl: expected a number of seconds > 0 or None, got {self.ttl!r}.")
        if self.key is not None and not callable(self.key):
            raise PolicyError(f"key: expected a function of the node's inputs or None, got {self.key!r}.")


@dataclass(frozen=True)
class SideEffectPolicy:
    """The external side effects of a node, which a resume or a replay must not repeat."""

    recordable: bool = False
    requires_idempotency: bool = False

    def __post_init__(self) -> None:
        for name in ("recordable", "requires_idempotency"):
            if not isinstance(getattr(self, name), bool):
                raise PolicyError(f"{name}: expected True or False, got {getattr(self, name)!r}.")


def _retry_of(retry: Any) -> Any:
    """Return a policy for retries, or a list of them; an int is the number of attempts."""
    if isinstance(retry, (list, tuple)):
        if not retry or not all(isinstance(each, RetryPolicy) for each in retry):
            raise PolicyError(f"retry: expected a list of RetryPolicy, got {retry!r}.")
        return retry
    if retry is None or isinstance(retry, RetryPolicy):
        return retry
    if not is_int(retry, 1):
        raise PolicyError(
            f"retry: expected a RetryPolicy, a list of them or an int >= 1 (the number of attempts), "
            f"got {retry!r}."
        )
    return RetryPolicy(max_attempts=retry)


def policy_of(
    *,
    policy: NodePolicy | None,
    timeout: float | None,
    retry: int | RetryPolicy | Sequence[RetryPolicy] | None,
    idempotency_key: Callable[..., str] | None,
) -> NodePolicy:
    """Return the policy of a node from its options: either ``policy``, or its parts."""
    if policy is None:
        attempts = _retry_of(retry)
        if idempotency_key is not None and not callable(idempotency_key):
            raise PolicyError(
                f"idempotency_key: expected a function of the node's inputs, got {idempotency_key!r}."
            )
        return NodePolicy(timeout, attempts, idempotency_key)
    if not isinstance(policy, NodePolicy):
        raise PolicyError(f"policy: expected a NodePolicy, got {policy!r}.")
    parts = {"timeout": timeout, "retry": retry, "idempotency_key": idempotency_key}
    given = [name for name, part in parts.items() if part is not None]
    if given:
        raise PolicyError(f"policy= and {' and '.join(given)} exclude each other; give one of them.")
    return policy
