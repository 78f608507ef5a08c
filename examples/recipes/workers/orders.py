"""The graph that the workers of this deployment execute."""

from clew import Context, Graph, node


@node(output="total")
def add_up(prices: list[int]) -> int:
    return sum(prices)


@node(output="receipt")
def charge(total: int, ctx: Context) -> str:
    return ctx.record("charge", lambda: f"paid {total}")


graph = Graph([add_up, charge], name="orders")
