"""A report that stays current. Each value is computed on demand, and again only if its inputs have changed.

``sales`` and ``rates`` are sources: you set them. The other values follow from them.
"""

from clew import schema


def total(inputs, old, bindings):
    sales, rates = inputs
    return round(sum(sale["amount"] * rates[sale["currency"]] for sale in sales), 2)


def of_region(inputs, old, bindings):
    return [sale for sale in inputs[0] if sale["region"] == bindings["region"]]


def line(inputs, old, bindings):
    return f"{bindings['region']}: {inputs[0]} of {inputs[1]} EUR"


graph = [
    schema("total", inputs=["sales", "rates"], computor=total),
    schema("sales_of(region)", inputs=["sales"], computor=of_region),
    schema("total_of(region)", inputs=["sales_of(region)", "rates"], computor=total),
    schema("line(region)", inputs=["total_of(region)", "total"], computor=line),
]
