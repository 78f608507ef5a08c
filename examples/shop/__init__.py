"""A small shop, explored while it serves.

`service` is a real HTTP service, Starlette on PostgreSQL and Redis through its own pools, with a bug that takes
four steps in the right order; `fixed=True` makes its twin without the bug. `serving` runs it. `exploring` says what
can be done to it and what must always hold::

    SHOP_DSN=postgresql://... SHOP_REDIS=redis://... clew explore examples.shop.exploring:AGENT --report shop.html
"""
