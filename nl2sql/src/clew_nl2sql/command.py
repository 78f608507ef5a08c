"""The command ``clew ask`` answers questions across databases. Without a question, it reads one per line."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from clew.cli.commands.replay import report
from clew.cli.options import IdOption, JsonOption, StoreOption, find_run, store_at
from clew.cli.output import CommandError, count, note, say, say_json, say_table
from clew.cli.run_output import id_of, progress

# Every `clew --help` imports this module, so the pipeline is imported on first use.
if TYPE_CHECKING:
    from clew_nl2sql import Answer, Pipeline, PipelineError, UserContext
    from clew_nl2sql.dialogue.conversation import Conversation
    from clew_nl2sql.schemas import ReadingsQuestion

SHOWN = 50  # rows of an answer; --json prints all of them
REPL = """Enter a question, or a command: .sources  .explain (on or off)  .help  .quit"""


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command("ask")(ask)


def ask(
    question: Annotated[
        str | None,
        typer.Argument(
            help="Question to answer. Without one, read questions from standard input, one per line."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="NAME=ADDRESS",
            help="Query this database: sqlite:///FILE, duckdb:///FILE or postgresql://... Can be repeated.",
        ),
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="Query three small sample databases.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan behind the answer.")] = False,
    as_json: JsonOption = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAME", help="Query only this source.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="GRANT",
            help="Allow only these tables: source.*, source.table or source.schema.*. Can be repeated. [default: all]",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME@URL",
            help="Use a language model; set its API key in CLEW_MODEL_KEY. [default: the offline planner]",
        ),
    ] = None,
    readings: Annotated[
        bool,
        typer.Option(
            "--readings",
            help="If the question is uncertain, print its readings and wait for --choose. "
            "At a terminal, you are asked anyway.",
        ),
    ] = False,
    choose: Annotated[
        int | None,
        typer.Option(
            "--choose",
            metavar="NUMBER",
            help="Choose a reading for the question that --resume names; 0 for none.",
        ),
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Use your choice for the same question from now on.")
    ] = False,
    run_id: IdOption = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Resume an interrupted question.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay", metavar="RUN", help="Replay a question from its recordings, without its sources."
        ),
    ] = None,
    store: StoreOption = None,
) -> int:
    """Answer a question from one or several databases.

    \b
    Examples:
      clew ask "How many orders are there?" --source sales=sqlite:///sales.db
      clew ask "How many orders and how many tickets are there?" --samples --explain
      clew ask --source sales=sqlite:///sales.db --source support=duckdb:///support.duckdb

    Databases are opened read-only. The question is a run: `clew show RUN` shows its steps, and `clew ask --replay RUN`
    replays it without the databases. The exit code is 0 if it was answered, 3 for a partial answer, 4 for none,
    5 if it was refused, and 1 if it failed."""
    with ExitStack() as stack:
        if replay:
            return _replayed(stack.enter_context(store_at(store)), replay, as_json)
        addresses = _addresses(source, samples, stack)
        opened = stack.enter_context(store_at(store, create=True))
        # interactive mode shows no progress
        listeners = () if question is None and not resume else stack.enter_context(progress())
        pipeline = _pipeline(addresses, opened, model, listeners)
        user = _user(allow)
        if choose is not None and not resume:
            raise CommandError("--choose needs a question that waits", "name its run with --resume RUN")
        if resume:
            name = find_run(opened, resume).run_id
            if choose is not None:
                chosen = choose
                return _answered(
                    lambda: pipeline.choose(name, chosen, remember=remember), name, explain, as_json
                )
            return _answered(lambda: pipeline.resume(name), name, explain, as_json)
        from clew_nl2sql.dialogue.conversation import Conversation

        conversation = Conversation(pipeline, user=user, source=only)
        asker = Asker(pipeline, conversation, explain, as_json, readings, remember)
        if question is None:
            return _interactive(asker)
        return asker.ask(question, id_of(f"ask-{uuid4()}" if run_id is None else run_id, "ask"))


# -- options ----------------------------------------------------------------------------------------------------


def _addresses(given: list[str] | None, samples: bool, stack: ExitStack) -> dict[str, str]:
    found: dict[str, str] = {}
    if samples:
        from clew_nl2sql.sample_data import make_samples

        found.update(make_samples(stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-samples-"))))
    for pair in given or ():
        name, split, address = pair.partition("=")
        if not split or not name or not address:
            raise CommandError(
                f"{pair!r} is not a source", "write NAME=ADDRESS, for example sales=sqlite:///sales.db"
            )
        if name in found:
            raise CommandError(f"two sources have the name {name!r}", "rename one of them")
        found[name] = address
    if not found:
        raise CommandError("no source given", "use --source NAME=ADDRESS, or --samples to try it out")
    return found


def _pipeline(addresses: dict[str, str], store: Any, model: str | None, listeners: Any) -> Pipeline:
    from clew_nl2sql import Pipeline
    from clew_nl2sql.errors import UsageError

    try:
        return Pipeline(addresses, store=store, listeners=listeners, **_models(model))
    except UsageError as error:
        raise _usage_error(error) from error


def _models(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    name, split, address = given.partition("@")
    if not split:
        raise CommandError(
            f"{given!r} is not a model", "write NAME@URL, for example my-model@http://localhost:8000/v1"
        )
    from clew_nl2sql.models import ChatModel, ModelDecomposer, ModelPlanner, ModelSynthesizer

    chat = ChatModel(address, name, api_key=os.environ.get("CLEW_MODEL_KEY"))
    return {
        "planner": ModelPlanner(chat),
        "decomposer": ModelDecomposer(chat),
        "synthesizer": ModelSynthesizer(chat),
    }


def _replayed(store: Any, run: str, as_json: bool) -> int:
    """Replay a question. The run stores the shape of its pipeline as data; this builds the graph from it."""
    from clew_nl2sql.replay_graphs import graph_for

    row = find_run(store, run)
    graph = graph_for(row.target)
    if graph is None:
        raise CommandError(
            f"run {row.run_id!r} is not a question", f"replay it with: clew replay {row.run_id}"
        )
    return report(store, graph, [row.run_id], strict=True, as_json=as_json)


def _user(allow: list[str] | None) -> UserContext | None:
    if allow is None:
        return None
    from clew_nl2sql import UserContext

    return UserContext(user_id=os.environ.get("USER", "user"), policies=tuple(allow))


def _usage_error(error: Exception) -> CommandError:
    what, _, hint = str(error).rpartition("; ")
    return CommandError(what or hint, hint if what else "see `clew ask --help`")


# -- one question ----------------------------------------------------------------------------------------------


@dataclass
class Asker:
    """How questions are asked and answers are printed."""

    pipeline: Pipeline
    conversation: Conversation
    explain: bool
    as_json: bool
    readings: bool
    remember: bool

    def ask(self, question: str, run_id: str) -> int:
        """Ask a question, and return the exit code. At a terminal, a person chooses between readings."""
        present = sys.stdin.isatty() and sys.stdout.isatty() and not (self.as_json or self.readings)

        def answer() -> Answer:
            return self.conversation.ask(
                question,
                run_id=run_id,
                choose=choose_reading if present else None,
                ask_back=self.readings,
                remember=self.remember,
            )

        return _answered(answer, run_id, self.explain, self.as_json)


def _answered(verb: Callable[[], Answer], run_id: str, explain: bool, as_json: bool) -> int:
    from clew_nl2sql.answer import EXIT_CODES
    from clew_nl2sql.errors import UsageError

    try:
        answer = verb()
    except UsageError as error:
        raise _usage_error(error) from error
    except KeyboardInterrupt:
        raise CommandError(
            f"run {run_id!r} was interrupted; its finished work is stored",
            f"resume it with: clew ask --resume {run_id} --source ...",
            code=1,
        ) from None
    if as_json:
        say_json(answer.to_dict())
    else:
        say_answer(answer, explain)
    return EXIT_CODES[answer.status]


def say_answer(answer: Answer, explain: bool) -> None:
    """Print an answer: text, rows, queries and provenance. Warnings and errors go to standard error."""
    say(answer.text)
    if answer.columns and not len(answer.rows) == len(answer.columns) == 1:
        _say_rows(answer)
    for asked in answer.questions:
        say_readings(asked)
    if answer.questions:
        say(f"Choose with: clew ask --resume {answer.run_id} --choose NUMBER --source ...")
    elif answer.scans:
        say()
    for line in _query_lines(answer):
        say(line)
    for line in ["", *plan_lines(answer)] if explain else []:
        say(line)
    say(f"run {answer.run_id}")
    for warning in answer.warnings:
        note(warning)
    _note_errors(answer)


def _query_lines(answer: Answer) -> list[str]:
    """Return the query of each source, and where the answer comes from."""
    queries = [f"{name}: {sql}" for name, sql in answer.sql.items()]
    origins = [line if line in answer.notes else f"from {line}" for line in answer.provenance]
    return [*queries, "", *origins] if origins else queries


def _note_errors(answer: Answer) -> None:
    # The text already says why the planner abstained, and what it considered.
    unsaid = [e for e in answer.errors if e.code.name != "PLAN_ABSTAINED" or e.message not in answer.text]
    for message, times in Counter(map(_error_line, unsaid)).items():
        note(message if times == 1 else f"{message} ({times} times)")


def _say_rows(answer: Answer) -> None:
    say()
    say_table(answer.columns, [[_cell(value) for value in row] for row in answer.rows[:SHOWN]])
    if len(answer.rows) > SHOWN:
        say(f"({len(answer.rows) - SHOWN} more rows; --json prints them)")


def _error_line(error: PipelineError) -> str:
    where = f" ({error.source})" if error.source else ""
    return f"{error.code.value} in {error.node}{where}: {error.message}"


def plan_lines(answer: Answer) -> Iterator[str]:
    """Yield the lines of the plan: parts, certainty, retries, other candidates, how results were combined."""
    yield f"plan {answer.plan_hash[:16]}: {count(len(answer.scans), 'scan')}, {answer.operation}"
    for scan in answer.scans:
        sure = f", certainty {scan.certainty:.2f}" if scan.certainty is not None else ""
        yield f"  {scan.id}: {scan.intent!r} -> {scan.source} ({scan.status}{sure}, retries {scan.retries})"
        chosen = (
            bool(scan.sql) and not scan.retries
        )  # the first candidate is the answer, with names for its columns
        others = [sql for sql in scan.candidates[chosen:] if sql != scan.sql]
        for sql in others[:3]:
            yield f"    or: {sql}"
        if scan.artifact:
            yield f"    artifact {scan.artifact}"
    if len(answer.scans) > 1 and answer.combined_by:
        yield f"  combined by: {answer.combined_by}"
    for part in answer.unmapped:
        yield f"  not mapped: {part!r}"


def _cell(value: Any) -> str:
    from clew_nl2sql.template_synthesizer import shown

    return "-" if value is None else shown(value)


# -- readings of a question -------------------------------------------------------------------------------------


def say_readings(asked: ReadingsQuestion) -> None:
    """Print the readings of a question, by number."""
    from clew_nl2sql.template_synthesizer import shown

    for number, reading in enumerate(asked.readings, 1):
        say(f"  {number}. {reading.words}")
        say(f"     {asked.source}: {reading.sql}")
        row = "no rows" if reading.row is None else f"first row: {', '.join(map(shown, reading.row))}"
        say(f"     {row}")
        if reading.unread:
            say(f"     does not use: {', '.join(map(repr, reading.unread))}")


def choose_reading(asked: ReadingsQuestion) -> int:
    """Ask the person at the terminal which reading is meant; 0 stands for none."""
    say(f"{asked.question!r} can be read in more than one way:")
    say_readings(asked)
    while True:
        try:
            said = input(f"Which one? [1-{len(asked.readings)}, Enter for none] ").strip()
        except EOFError:
            said = ""
        if not said:
            return 0
        if said.isdecimal() and int(said) <= len(asked.readings):
            return int(said)
        say(f"Enter a number from 1 to {len(asked.readings)}, or only press Enter.")


# -- interactive mode -------------------------------------------------------------------------------------------


def _interactive(asker: Asker) -> int:
    """Answer questions from standard input.

    If input is not a terminal, return the highest exit code. At a terminal, return 0; an interrupt ends the
    current line or question, not the session.
    """
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() a history
        say(REPL)
    worst = 0
    for line in _lines(at_terminal):
        if line == ".explain":
            asker.explain = not asker.explain
            say(f"explain is {'on' if asker.explain else 'off'}")
        elif line.startswith("."):
            _command(line, asker.pipeline)
        elif line:
            worst = max(worst, _asked(asker, line, at_terminal))
    return 0 if at_terminal else worst


def _lines(at_terminal: bool) -> Iterator[str]:
    """Yield the lines of standard input, until its end or a quit command."""
    while True:
        try:
            line = input("ask> " if at_terminal else "").strip()
        except EOFError:
            if at_terminal:
                say()
            return
        except KeyboardInterrupt:
            if not at_terminal:
                raise
            say()
            continue
        if line in (".quit", ".exit", "exit", "quit"):
            return
        yield line


def _command(line: str, pipeline: Pipeline) -> None:
    if line == ".sources":
        for name, source in pipeline.resources.sources.items():
            say(f"{name}: {source!r}")
        return
    if line != ".help":
        note(f"unknown command {line!r}")
    say(REPL)


def _asked(asker: Asker, line: str, at_terminal: bool) -> int:
    try:
        return asker.ask(line, f"ask-{uuid4()}")
    except CommandError as failed:
        if not at_terminal:
            raise
        note(f"{failed.what}; {failed.hint}")
        return failed.code
