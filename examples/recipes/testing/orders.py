from clew import Context, Graph, RetryPolicy, node


def pay(order, key):
    raise NotImplementedError("the real service")


@node(output="receipt", retry=RetryPolicy(max_attempts=3, base_delay=10.0))
def charge(order, pay, ctx: Context):
    return ctx.record("pay", pay, order, key=ctx.idempotency_key)


@node(output="mail")
def confirm(receipt):
    return f"We received {receipt}."


def orders(pay=pay):
    return Graph([charge, confirm], name="orders").bind(pay=pay)
