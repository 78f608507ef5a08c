"""Human input: the run asks a question, waits for as long as it takes, and resumes with the answer.

Refunds are computed from orders. Small ones are paid at once. For a large one, `approval` asks a person. Only the
branch behind it waits; the statistics finish in the meantime. `engine.resume` continues with the answer, and finished
nodes do not run again. The answer can come days later, from any process: a waiting run is only data.
"""

from clew import Engine, Graph, interrupt, node, route

Order = dict[str, float]


@node(output="refund")
def work_out(order: Order) -> float:
    """Return the price of the broken pieces and half the postage."""
    return round(order["price"] * order["broken"] + order["postage"] / 2, 2)


@route(targets=["approval", "pay"])
def large(refund: float) -> str:
    return "approval" if refund > 50 else "pay"


@interrupt(output="approved")
def approval(refund: float, customer: str) -> str:
    """Return the question; the output is the answer."""
    return f"Refund {refund:.2f} to {customer}?"


@node(output="letter", after="approval")
def pay(customer: str, refund: float, approved: bool = True) -> str:
    if not approved:
        return f"Dear {customer}, we would like to talk about your order first."
    return f"Dear {customer}, {refund:.2f} is on its way to you."


@node(output="broken_rate")
def statistics(order: Order, earlier: list[float]) -> float:
    """Return the rate of broken pieces. This does not wait for the approval."""
    rates = [*earlier, order["broken"] / order["pieces"]]
    return round(sum(rates) / len(rates), 3)


graph = Graph([work_out, large, approval, pay, statistics], name="refunds")
values = {
    "customer": "Ariadne",
    "order": {"price": 24.5, "pieces": 6, "broken": 3, "postage": 9.0},
    "earlier": [0.0, 0.25, 0.1],
}
answers = {"approval": True}

if __name__ == "__main__":
    engine = Engine(graph)
    for run_id, answer in (("yes", True), ("no", False)):
        waiting = engine.run(values, run_id=run_id)
        print(
            f"{waiting.status}: {waiting.questions[0].question} (meanwhile: broken rate {waiting['broken_rate']})"
        )
        print(f"    {answer}: {engine.resume(run_id, answer=answer)['letter']}")
