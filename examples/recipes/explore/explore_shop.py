from shop import Shop

from clew.explore import Action, Agent, Invariant, Severity, World
from clew.explore.systems import SQLiteSystem


def ordered(world):
    return bool(world.api.run("SELECT 1 FROM orders WHERE id = 1"))


def refunded_once(world):
    ((refunds,),) = world.api.run("SELECT count(*) FROM refunds WHERE order_id = 1")
    return refunds <= 1 or f"refunded {refunds} times"


def agent(path="shop.db"):
    world = World(api=Shop(path), systems={"db": SQLiteSystem(path)})
    actions = [
        Action("place", lambda world: world.api.place(), max_calls=1),
        Action("pay", lambda world: world.api.pay(1), precondition=ordered),
        Action("cancel", lambda world: world.api.cancel(1), precondition=ordered, max_calls=3),
    ]
    invariants = [Invariant("refunded_once", refunded_once, severity=Severity.CRITICAL)]
    return Agent(world, actions, invariants)
