"""A card that is charged twice: the process dies after the call and before its recording is stored.

`clew check examples.checks.double_charge:check` finds the bug. In `...:fixed`, the bank receives an idempotency key.
"""

from clew import Context, Graph, RetryPolicy, SideEffectPolicy, node
from clew.explore import Check, Invariant
from clew.explore.systems import MemoryStorage

bank = MemoryStorage()  # charges by key; stands for a real bank


def charge_card(order: str, key: str | None = None) -> str:
    """Charge the card, unless this key was charged before."""
    charges = bank.list()
    name = key or f"charge {len(charges) + 1}"
    if name not in charges:
        bank.put(name, order)
    return f"receipt for {order}"


@node(output="receipt", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
def charge(order: str, ctx: Context) -> str:
    return ctx.record("charge", charge_card, order)


@node(
    name="charge",
    output="receipt",
    retry=RetryPolicy(max_attempts=2, base_delay=1.0),
    side_effects=SideEffectPolicy(recordable=True, requires_idempotency=True),
)
def charge_with_key(order: str, ctx: Context) -> str:
    return ctx.record("charge", charge_card, order, key=ctx.idempotency_key)


@node(output="mail")
def thank(receipt: str) -> str:
    return f"thank you, here is your {receipt}"


charged_once = Invariant(
    "charged once",
    lambda world: len(world.systems["bank"].list()) <= 1 or "the card was charged more than once",
)

values = {"order": "tea"}
graph = Graph([charge, thank], name="shop")
fixed_graph = Graph([charge_with_key, thank], name="shop")

check = Check(graph, values, ["resume_equivalent", "terminates", charged_once], systems={"bank": bank})
fixed = Check(
    fixed_graph,
    values,
    ["resume_equivalent", "stable_idempotency_key", "terminates", charged_once],
    systems={"bank": bank},
)
