"""What a caller decides about a new run, however it begins.

`Registration` is what a store gets besides the state: the thread, the place in a queue, and the attributes.

Attributes are named texts that the user gives to a run, in order to find it. A run that is put into a queue has no
owner until a worker takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.engine.stops import Stops
from clew.errors import InputError
from clew.graph.names import is_text
from clew.runtime.reporting.events import Listener
from clew.stores import QueueEntry, ThreadMove


class Registration(msgspec.Struct, frozen=True):
    """Where a new run belongs."""

    thread: ThreadMove | None = None
    queue: QueueEntry | None = None
    attributes: Mapping[str, str] = {}
    codes: Mapping[str, str] | None = None  # the code hashes of a graph that has no code here


PLAIN = Registration()
"""Of a run in no thread and no queue, without attributes."""


class NewRun(msgspec.Struct, frozen=True):
    """A run that is to be created. The `owner` is the token of its claim; "" to take a new one."""

    run_id: str
    owner: str = ""
    stops: Stops | None = None
    registration: Registration = PLAIN
    listener: Listener | None = None


def read_attributes(attributes: Any) -> dict[str, str]:
    """Return attributes if they are valid; raise InputError otherwise."""
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise InputError(f"attributes must map names to text, such as {{'tenant': 'a'}}; got {attributes!r}")
    for name, value in attributes.items():
        if type(name) is not str or not name or not is_text(name):
            raise InputError(f"attributes: a name must be text that is not empty, got {name!r}")
        if type(value) is not str or not is_text(value):
            raise InputError(f"attributes: {name!r} must be text, got {value!r}; write str(...) around it")
    return dict(attributes)


def registered(attributes: Any, **more: Any) -> Registration:
    """Return the registration of a run with attributes that a user gave."""
    return Registration(attributes=read_attributes(attributes), **more) if attributes or more else PLAIN
