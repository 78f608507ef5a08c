"""A small shop, explored while it serves.

`service` is an HTTP service: Starlette with PostgreSQL and Redis. It has a bug that needs four actions in the right
order; `fixed=True` removes it. `serving` runs the service. `exploring` defines the actions and the invariants::

    SHOP_DSN=postgresql://... SHOP_REDIS=redis://... clew explore examples.shop.exploring:AGENT --report shop.html
"""
