"""Policies: how long a node may take, how often it is tried, and what it does to the outside world.

A policy is checked when it is made, so a wrong one never reaches a run:

- a timeout is above zero;
- a retry policy tries at least once, its first delay is above zero and its longest is not below that;
- a node that requires idempotency need not bring a key function: the engine derives a key from run and path.

The delay before attempt ``n + 1`` is ``min(base_delay * 2**n + jitter, max_delay)``. The jitter comes from
the item's own random stream, which belongs to the run; so it is an argument here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clew.errors import PolicyError


def any_exception(error: BaseException) -> bool:
    """The default of ``RetryPolicy.retryable``: all but what tells the interpreter to stop."""
    return isinstance(error, Exception)


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class RetryPolicy:
    """How often a node is tried, and how long a run waits in between."""

    max_attempts: int = 3
    base_delay: float = 0.1
    max_delay: float = 30.0
    retryable: Callable[[BaseException], bool] = any_exception

    def __post_init__(self) -> None:
        attempts: Any = self.max_attempts
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise PolicyError(
                f"max_attempts counts the first attempt too: a whole number of at least 1, not {attempts!r}."
            )
        if not _is_duration(self.base_delay) or self.base_delay <= 0:
            raise PolicyError(f"base_delay is a number of seconds above 0, not {self.base_delay!r}.")
        if not _is_duration(self.max_delay) or self.max_delay < self.base_delay:
            raise PolicyError(
                f"max_delay is a number of seconds, not below base_delay ({self.base_delay!r}), "
                f"not {self.max_delay!r}."
            )
        if not callable(self.retryable):
            raise PolicyError(
                f"retryable is a function from an exception to whether to try again, not {self.retryable!r}."
            )

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Seconds to wait after ``attempt`` (from 0) failed; ``jitter`` is in ``[0, base_delay)``."""
        doublings = min(attempt, 1000)  # a float holds no more, and max_delay caps it long before
        return min(self.base_delay * 2.0**doublings + jitter, self.max_delay)


@dataclass(frozen=True)
class NodePolicy:
    """A node's timeout, its retries and its idempotency key. ``timeout=None`` leaves it to the engine."""

    timeout: float | None = None
    retry_policy: RetryPolicy | None = None
    idempotency_key_func: Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and (not _is_duration(self.timeout) or self.timeout <= 0):
            raise PolicyError(f"timeout is a number of seconds above 0, or None, not {self.timeout!r}.")
        if self.retry_policy is not None and not isinstance(self.retry_policy, RetryPolicy):
            raise PolicyError(f"retry_policy is a RetryPolicy or None, not {self.retry_policy!r}.")
        if self.idempotency_key_func is not None and not callable(self.idempotency_key_func):
            raise PolicyError(
                "idempotency_key_func is a function of the node's inputs, or None, "
                f"not {self.idempotency_key_func!r}."
            )


@dataclass(frozen=True)
class SideEffectPolicy:
    """What a node does to the outside world, and so what a replay must not do again."""

    recordable: bool = False
    requires_idempotency: bool = False

    def __post_init__(self) -> None:
        for name in ("recordable", "requires_idempotency"):
            if not isinstance(getattr(self, name), bool):
                raise PolicyError(f"{name} is True or False, not {getattr(self, name)!r}.")


def policy_of(
    *,
    policy: NodePolicy | None,
    timeout: float | None,
    retry: int | RetryPolicy | None,
    idempotency_key: Callable[..., str] | None,
) -> NodePolicy:
    """The policy that a node's options say: either ``policy`` as a whole, or its parts."""
    if policy is None:
        attempts: Any = retry
        if attempts is not None and not isinstance(attempts, RetryPolicy):
            if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
                raise PolicyError(
                    f"retry is a RetryPolicy, or how often to try in all (1 or more), not {retry!r}."
                )
            attempts = RetryPolicy(max_attempts=attempts)
        if idempotency_key is not None and not callable(idempotency_key):
            raise PolicyError(f"idempotency_key is a function of the node's inputs, not {idempotency_key!r}.")
        return NodePolicy(timeout, attempts, idempotency_key)
    if not isinstance(policy, NodePolicy):
        raise PolicyError(f"policy is a NodePolicy, not {policy!r}.")
    parts = {"timeout": timeout, "retry": retry, "idempotency_key": idempotency_key}
    given = [name for name, part in parts.items() if part is not None]
    if given:
        raise PolicyError(f"policy= already says {' and '.join(given)}; give one or the other.")
    return policy
