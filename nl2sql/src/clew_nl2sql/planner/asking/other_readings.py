"""Readings next to a candidate: the same question about another date, flag, figure or person.

No word of the question decides between them, so they are never answered. A person who is asked may choose one:

- "Invoices of May" may be those issued, sent or paid in May, and "in 2024" no model year.
- "Warranty jobs" are the jobs with the flag `under_warranty`, and not its values.
- "Which shops have closed?" are those with a day of closing; "jobs with no mechanic" those without a reference.
- "Members who never came" are those to whom no visit refers.
- "The most money" is the highest sum, and not the highest number of rows; "the average donation" that of its amounts.
- "Who has asset 12?" is a person that the row refers to, and the manager of Ann Berg is one of the same table.
- "The percentage of jobs that are done" is one of all jobs.
- "The oldest ticket" and "opened first" are the first by a date.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from clew_nl2sql.planner.asking import other_conditions, other_figures
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Query


def other_readings(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Return the readings next to a query, the likeliest first; `unread` are the words that it does not read."""
    if query.compound is not None:
        return iter(())
    return chain(
        other_figures.as_shares(parsed, query),
        other_conditions.with_flags(parsed, query, unread),
        other_conditions.of_shown_flags(parsed, query),
        other_conditions.with_amounts(parsed, query, unread),
        other_conditions.of_states(parsed, query, unread),
        other_conditions.without_references(parsed, query),
        other_conditions.without_any(parsed, query),
        other_conditions.at_other_dates(parsed, query),
        other_conditions.in_years(parsed, query),
        other_figures.by_sums(parsed, query),
        other_figures.of_people(parsed, query),
        other_figures.of_own_kind(parsed, query, unread),
        other_figures.of_measures(parsed, query),
        other_figures.by_dates(parsed, query, unread),
    )
