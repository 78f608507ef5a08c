"""A question across three databases: sales in SQLite, support in DuckDB, invoices in SQLite.

They share no keys, only the names of their customers. The example creates the databases first.
"""

from clew_nl2sql import Pipeline, UserContext
from clew_nl2sql.sample_data import make_samples

with Pipeline(make_samples("data"), store="questions.db") as pipeline:
    answer = pipeline.ask(
        "For each customer, what is the total amount of orders, how many tickets were opened"
        " and what is the total amount of overdue invoices?"
    )
    print(answer)
    for source, sql in answer.sql.items():
        print(f"  {source}: {sql}")
    for row in answer.rows[:3]:
        print("  ", *row)
    for line in answer.provenance:
        print("  from", line)
    assert answer.status == "answered"
    assert len(answer.rows) == 12

    # replay the run without a single query
    assert pipeline.replay(answer.run_id).ok

    # a user who may see only orders
    clerk = UserContext(user_id="clerk", policies=("sales.orders",))
    print(pipeline.ask("How many orders are there?", user=clerk))
    denied = pipeline.ask("How many products are there?", user=clerk)
    print(denied)
    assert denied.errors[0].code.value == "SECURITY_VIOLATION"
