"""Test a graph: control which item completes next.

A price is the lower of two offers. The functions are tested by calling them. The graph is tested with `Stepper`: it
shows which items run at the same time, completes them in the order that the test needs, lets one fail without a
broken network, and lets one time out without waiting. `run_in_order` with `random_order` shows that the order does not
matter.
"""

import re

from clew import Engine, Graph, node
from clew.testing import Stepper, random_order, run_in_order

CATALOGUES = {
    "north": "rope 20 m;18.50\nlamp;9.90\n",
    "south": "Lamp (oil);11.20\nRope, 20 m;17.80\n",
}


def price_in(catalogue: str, article: str) -> float | None:
    """Return the price in the first line that contains all words of the article."""
    for line in catalogue.splitlines():
        name, _, price = line.rpartition(";")
        if set(re.findall(r"\w+", article.lower())) <= set(re.findall(r"\w+", name.lower())):
            return float(price)
    return None


@node(output="north", retry=2)
def ask_north(article: str) -> float | None:
    return price_in(CATALOGUES["north"], article)


@node(output="south", timeout=5.0)
def ask_south(article: str) -> float | None:
    return price_in(CATALOGUES["south"], article)


@node(output="best")
def compare(north: float | None, south: float | None) -> tuple[str, float] | None:
    offers = [(price, shop) for shop, price in (("north", north), ("south", south)) if price is not None]
    return (min(offers)[1], min(offers)[0]) if offers else None


graph = Graph([ask_north, ask_south, compare], name="prices")
values = {"article": "rope 20 m"}


def test_a_function() -> None:
    assert compare.func(north=3.0, south=None) == ("north", 3.0)


def test_shops_are_asked_at_the_same_time() -> None:
    run = Stepper(graph, values)
    assert run.running == ["ask_north#0", "ask_south#0"]
    run.complete("ask_south#0")
    assert run.running == ["ask_north#0"], "the comparison waits for both"
    run.complete("ask_north#0")
    run.complete("compare#0")
    assert run.finish()["best"] == ("south", 17.8)


def test_a_lost_connection_is_tried_again() -> None:
    run = Stepper(graph, values)
    run.fail("ask_north#0", ConnectionError("lost"))
    run.complete("ask_south#0")
    run.complete("ask_north#0")
    run.complete("compare#0")
    assert run.finish().metrics.total_retries == 1


def test_a_slow_shop_fails_the_run() -> None:
    run = Stepper(graph, values)
    run.complete("ask_north#0")
    run.time_out("ask_south#0")
    result = run.finish()
    assert result.status == "failed"
    assert "compare" in result.never_ran


def test_no_order_matters() -> None:
    digests = {
        run_in_order(Engine(graph), values, choose=random_order(seed)).state.digest for seed in range(20)
    }
    assert len(digests) == 1


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: good")
