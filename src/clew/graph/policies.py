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


def any_exception(error: BaseException) -> bool:
    """Return whether an error is an `Exception`: the default of ``RetryPolicy.retryable``."""
    return isinstance(error, Exception)


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


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
        attempts: Any = self.max_attempts
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise PolicyError(
                f"max_attempts: expected an int >= 1 (it includes the first attempt), got {attempts!r}."
            )
        if not _is_duration(self.base_delay) or self.base_delay < 0:
            raise PolicyError(f"base_delay: expected a number of seconds >= 0, got {self.base_delay!r}.")
        if not _is_duration(self.max_delay) or self.max_delay < self.base_delay:
            raise PolicyError(
                f"max_delay: expected a number of seconds >= base_delay ({self.base_delay!r}), got {self.max_delay!r}."
            )
        if not callable(self.retryable):
            raise PolicyError(
                f"retryable: expected a function from an exception to a bool, got {self.retryable!r}."
            )
        if not _is_duration(self.factor) or self.factor < 1:
            raise PolicyError(f"factor: expected a number >= 1, got {self.factor!r}.")
        if self.jitter is not None and (not _is_duration(self.jitter) or self.jitter < 0):
            raise PolicyError(f"jitter: expected a number of seconds >= 0 or None, got {self.jitter!r}.")
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


def policy_of(
    *,
    policy: NodePolicy | None,
    timeout: float | None,
    retry: int | RetryPolicy | Sequence[RetryPolicy] | None,
    idempotency_key: Callable[..., str] | None,
) -> NodePolicy:
    """Return the policy of a node from its options: either ``policy``, or its parts."""
    if policy is None:
        attempts: Any = retry
        if isinstance(attempts, (list, tuple)):
            if not attempts or not all(isinstance(each, RetryPolicy) for each in attempts):
                raise PolicyError(f"retry: expected a list of RetryPolicy, got {retry!r}.")
        elif attempts is not None and not isinstance(attempts, RetryPolicy):
            if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
                raise PolicyError(
                    f"retry: expected a RetryPolicy, a list of them or an int >= 1 (the number of attempts), "
                    f"got {retry!r}."
                )
            attempts = RetryPolicy(max_attempts=attempts)
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
