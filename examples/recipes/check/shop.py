"""A workflow that charges a card. `clew check shop:check` finds the way in which it charges twice.

`fixed` has the repair: the bank receives an idempotency key, and ignores a second charge with the same key.
"""

from clew import Context, Graph, RetryPolicy, SideEffectPolicy, node
from clew.explore import Check, Invariant
from clew.explore.systems import MemoryStorage

bank = MemoryStorage()  # stands for the real one, and is rolled back with the run
TWICE = RetryPolicy(max_attempts=2, base_delay=1.0)


def charge_card(order, key=None):
    """Charge the card, unless this key was charged before."""
    charges = bank.list()
    name = key or f"charge {len(charges) + 1}"
    if name not in charges:
        bank.put(name, order)
    return f"receipt for {order}"


@node(output="receipt", retry=TWICE)
def charge(order, ctx: Context):
    return ctx.record("charge", charge_card, order)


@node(
    name="charge",
    output="receipt",
    retry=TWICE,
    side_effects=SideEffectPolicy(recordable=True, requires_idempotency=True),
)
def charge_with_key(order, ctx: Context):
    return ctx.record("charge", charge_card, order, key=ctx.idempotency_key)


@node(output="mail")
def thank(receipt):
    return f"thank you, here is your {receipt}"


def charged_once(world):
    return len(world.systems["bank"].list()) <= 1 or "the card was charged more than once"


def check_of(charge):
    return Check(
        Graph([charge, thank], name="shop"),
        {"order": "tea"},
        [Invariant("charged once", charged_once), "resume_equivalent", "terminates"],
        systems={"bank": bank},
    )


check = check_of(charge)
fixed = check_of(charge_with_key)
graph = fixed.graph
