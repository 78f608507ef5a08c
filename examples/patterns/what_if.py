"""Fork: go back to a state of a finished run, change a value, and see what would have happened.

A loan is paid off month by month. The run stores every state, so "what if I had paid more from the seventh month on?"
is a fork from that state. The earlier months are reused, not computed again, and the two chains can be compared.
"""

from clew import END, Engine, Graph, ifelse, node


@node(output="interest")
def charge(balance: int, rate_per_mille: int) -> int:
    """Return the interest of a month, in cents."""
    return balance * rate_per_mille // 12_000


@node(output=("balance", "paid", "month"))
def pay(balance: int, interest: int, paid: int, month: int, instalment: int) -> tuple[int, int, int]:
    amount = min(instalment, balance + interest)
    return balance + interest - amount, paid + amount, month + 1


@ifelse(when_true=END, when_false="charge")
def paid_off(balance: int) -> bool:
    return balance == 0


graph = Graph([charge, pay, paid_off], name="loan", entry="charge")
values = {"balance": 100_000, "rate_per_mille": 60, "instalment": 9_000, "paid": 0, "month": 0}

if __name__ == "__main__":
    engine = Engine(graph)
    plan = engine.run(values, run_id="plan")
    sixth = next(c.step_id for c in engine.history("plan") if c.values["month"] == 6)
    more = engine.fork("plan", step=sixth, values={"instalment": 15_000})
    for name, result in (("as planned", plan), ("more from the seventh month", more)):
        print(f"{name}: {result['month']} months, {result['paid'] / 100:.2f} paid in all")

    original = {c.step_id: c for c in engine.history("plan")}
    print("month   as planned   paying more")
    for state in engine.history(more.run_id):
        if state.items and state.items[0].startswith("pay#"):
            planned, paying = original[state.step_id].values["balance"], state.values["balance"]
            print(f"{state.values['month']:5}{planned / 100:13.2f}{paying / 100:14.2f}")
