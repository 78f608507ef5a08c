"""What people see of runs, as JSON data: lists, timelines, states, reasons, questions. Read from the store alone.

No function here imports or calls user code, and none changes a store. ``docs/reference/http-api.md`` describes the
data.
"""
