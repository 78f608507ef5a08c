"""`Conversation` asks questions one after the other, and resolves those that continue the last one."""

from __future__ import annotations

from typing import Any, Unpack

import msgspec

from clew_nl2sql.access import UserContext
from clew_nl2sql.answer import Answer
from clew_nl2sql.dialogue.follow_ups import resolved
from clew_nl2sql.errors import SourceDownError
from clew_nl2sql.pipeline import AskOptions, Pipeline


class Conversation:
    """Questions of one user that may continue each other. It knows the last question, if that was answered."""

    def __init__(
        self, pipeline: Pipeline, *, user: UserContext | None = None, source: str | None = None
    ) -> None:
        self._pipeline, self._user, self._source = pipeline, user, source
        self._last: str | None = None

    def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question, or one that continues the last. `Answer.question` is the complete question.

        A question that continues nothing is asked unchanged; "of them" never stands for all rows.
        """
        complete = resolved(question, self._last, self._catalogs())
        answer = self._pipeline.ask(complete or question, user=self._user, source=self._source, **options)
        if answer.status in ("answered", "partial"):
            self._last = answer.question
        elif complete == question:
            self._last = None  # a later "of them" would mean this question, which has no answer
        if complete in (None, question):
            return answer
        return msgspec.structs.replace(answer, text=f"Read as: {complete}\n{answer.text}")

    def _catalogs(self) -> list[Any]:
        resources = self._pipeline.resources
        user = self._user or UserContext.operator()
        access = resources.access(user)
        names = [self._source] if self._source else list(resources.sources)
        found = []
        for name in names:
            if name in resources.sources and access.source(name):
                try:
                    found.append(resources.seen(user, name))
                except SourceDownError:
                    continue
        return found
