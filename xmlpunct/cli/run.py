"""``xmlpunct run``."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from xmlpunct.base.errors import SourceError, StrictError, UsageError, XmlPunctError, ended_by
from xmlpunct.base.lazy_imports import loading
from xmlpunct.cli.progress import activity
from xmlpunct.cli.run_help import EXAMPLES, RunCommand
from xmlpunct.cli.shared_options import (
    file_and_text,
    namespace_option,
    param_option,
    query_argument,
    read_params,
    rule_option,
    sql_option,
)
from xmlpunct.cli.terminal import PLACE, TEXT, say
from xmlpunct.engine.rule_options import read_rules
from xmlpunct.engine.run.output_names import is_xml, resolve_output, table_of
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.run_options import OUTPUT_FORMATS, RunOptions, XmlForm, parse_size, parse_time
from xmlpunct.engine.run.stop import Stop

if TYPE_CHECKING:
    from xmlpunct.engine.plan import Query
    from xmlpunct.engine.run.stats import RunStats

ENGINES = ("spark", "local")


@click.command("run", cls=RunCommand, epilog=EXAMPLES)
@query_argument
@sql_option
@param_option
@click.option(
    "-s",
    "--source",
    "sources",
    type=PLACE,
    multiple=True,
    metavar="NAME=SOURCE",
    help="The source of a declared stream.",
)
@click.option(
    "-o",
    "--output",
    type=PLACE,
    metavar="OUT",
    help="A file, a directory ending in /, sqlite:FILE, duckdb:FILE or a URL (default: standard output). "
    "The ending of a file's name is its format: .xml, .jsonl, .csv, .parquet, .arrow, .duckdb.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="The engine (default: $XMLPUNCT_ENGINE, else spark if PySpark is installed, else local).",
)
@click.option("--master", type=TEXT, metavar="URL", help=f"The Spark master (default: {RunOptions.master}).")
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Threads of the local engine (default: one per core).",
)
@click.option(
    "--slice", "slice_size", metavar="SIZE", help="Input bytes per slice: 64KiB, 8MiB (default: adaptive)."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(OUTPUT_FORMATS),
    help="The format of the results (default: that of the output's name, else xml; on a terminal table).",
)
@click.option(
    "--partition-by",
    "partition_by",
    type=TEXT,
    metavar="COLUMN,...",
    help="Write the results of each value to a separate directory, which appears when it is complete.",
)
@click.option("--root", type=TEXT, metavar="NAME", help="The XML root: name, g:name or {uri}name.")
@click.option("--row", type=TEXT, metavar="NAME", help="The XML element of a result.")
@click.option(
    "--namespaces",
    type=TEXT,
    metavar="'g=URI ...'",
    help="The namespaces of prefixes in --root, --row and columns.",
)
@click.option("--pretty", is_flag=True, help="Write each XML element on its own line.")
@click.option(
    "--checkpoint",
    type=PLACE,
    metavar="DIR",
    help="Save progress here. The same command continues from it.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Compare every byte of the checkpoint and of staged results with its checksum before the run continues.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Remove the results of other runs from the file, directory or table first.",
)
@click.option(
    "--rejects",
    type=PLACE,
    metavar="OUT",
    help="Write rejected tuples here: to a file as JSON lines, to a directory ending in / as Parquet, or to a URL.",
)
@click.option(
    "--max-rejects",
    metavar="N|P%",
    help="Fail after more than N rejects, or if more than P% of an input's tuples are rejects "
    "(checked every 10,000 tuples and at the end).",
)
@click.option("--stats", type=PLACE, metavar="FILE", help="Write the statistics of the run here, as JSON.")
@click.option(
    "--watch",
    is_flag=True,
    help="Show the run on the terminal: operators, rates, and the inputs that they wait for.",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve a live page of the run, /metrics and /healthz (port 0: any free port).",
)
@click.option("--allow-say", is_flag=True, help="Accept punctuations from `xmlpunct say` and the live page.")
@click.option(
    "--partial",
    metavar="TIME",
    help="At this interval (10s), write the results that would follow if all inputs ended now, marked as provisional.",
)
@click.option(
    "--strict", is_flag=True, help="Stop at the first rejected tuple, and if tuples are overlooked."
)
@click.option(
    "--safe", is_flag=True, help="Refuse a query that may block or grow without bound (see explain)."
)
@namespace_option
@rule_option
def run_command(
    query: str | None,
    sql: str | None,
    params: tuple[str, ...],
    sources: tuple[str, ...],
    output: str | None,
    engine: str | None,
    master: str | None,
    threads: int | None,
    slice_size: str | None,
    format_: str | None,
    partition_by: str | None,
    root: str | None,
    row: str | None,
    namespaces: str | None,
    pretty: bool,
    checkpoint: str | None,
    verify: bool,
    replace: bool,
    rejects: str | None,
    max_rejects: str | None,
    stats: str | None,
    watch: bool,
    http: str | None,
    allow_say: bool,
    partial: str | None,
    strict: bool,
    safe: bool,
    punct_namespace: str,
    rules: tuple[str, ...],
) -> None:
    """Run a query over XML streams; write its results and punctuations as they become certain."""
    query_file, text = file_and_text(query, sql)
    engine = chosen_engine(engine, master, threads)
    if format_ is None and output in (None, "-") and not (checkpoint or partial or root or row or namespaces):
        format_ = "table" if not pretty and sys.stdout is not None and sys.stdout.isatty() else None
    output, format_ = resolve_output(output or "-", format_, table_of(query_file))
    with activity(
        "planning the query; columns without a declaration are inferred from the beginning of their source"
    ):
        with loading():  # after the first line: this takes most of the time before a run
            from xmlpunct.cli.live import Live
            from xmlpunct.engine.inference import Inference
            from xmlpunct.engine.run.checkpoint.checkpoint import inferred_before
            from xmlpunct.engine.run.overlap import refuse_overlaps
            from xmlpunct.engine.run.stats import RunStats
            from xmlpunct.engine.sql import plan

        inference = Inference(punct_namespace, inferred_before(checkpoint))
        planned = plan(
            text,
            read_sources(sources),
            read_rules(rules),
            inference,
            parameters=read_params(params),
            has_labels=not is_xml(output, format_),
        )
    reading = [stream.declared for stream in planned.streams if stream.source == "-"]
    if reading and "-" in (query, sql):
        raise UsageError(
            f"standard input has the query, so {reading[0]} needs another source: -s {reading[0]}=FILE"
        )
    if safe:
        from xmlpunct.engine.verdicts import refuse_unsafe

        refuse_unsafe(planned)
    if all(answer.name for answer in planned.answers):
        refuse_idle("-o, --format, --partition-by, --root, --row, --namespaces, --pretty")
    if verify and checkpoint is None:
        raise UsageError("--verify compares a checkpoint: name it with --checkpoint DIR")
    if strict and max_rejects is not None:
        raise UsageError("--strict stops at the first reject: leave out --max-rejects, or --strict")
    options = RunOptions(
        output=None if output == "-" else output,
        format=format_,
        slice_bytes=None if slice_size is None else parse_size(slice_size),
        checkpoint=checkpoint,
        verifies=verify,
        replaces=replace,
        rejects=None if rejects is None else resolve_output(rejects, None, "rejects")[0],
        stats=stats,
        strict=strict,
        max_rejects=None if max_rejects is None else RejectLimit.parse(max_rejects),
        form=XmlForm.of(root, row, namespaces, pretty),
        master=master or RunOptions.master,
        punct_namespace=punct_namespace,
        query_file=query_file,
        partial=None if partial is None else parse_time(partial),
        threads=threads,
        partition_by=() if partition_by is None else tuple(map(str.strip, partition_by.split(","))),
    )
    refuse_overlaps(planned, options)
    live = Live(watch, http, allow_say)
    live.check(planned, options)
    counted = RunStats(engine, watched=live.has_view or partial is not None)
    stop, shows_notices, has_failed = Stop(), True, False

    def finish() -> None:
        notices = counted.finish()
        for notice in notices if shows_notices else ():
            if not (has_failed and notice.is_absence):
                say(str(notice))
        if stats is not None:
            write_text(stats, json.dumps(counted.as_dict(), indent=2) + "\n")

    with asked_by_signals(stop), live.shown(planned, options, counted) as show, ended_by(finish):
        try:
            if engine == "local":
                with loading():
                    from xmlpunct.engine.run.local.local_run import run as run_local

                with undisturbed():
                    run_local(planned, options, counted, show, stop, live.injections)
            else:
                from xmlpunct.engine.spark import run as run_spark

                run_spark(planned, options, counted, show, injections=live.injections)
        except (KeyboardInterrupt, SourceError) as end:
            has_failed = isinstance(end, SourceError)
            report(counted, rejects)
            if isinstance(end, KeyboardInterrupt):
                report_stop(counted, checkpoint)
                if not stop.urgent:
                    report_waits(planned, options, counted)
            raise
        except StrictError:
            shows_notices = False
            raise
    report(counted, rejects)
    for name in counted.lost_inputs:
        raise XmlPunctError(f"all {counted.inputs[name].rejected:,} tuples of {name} were rejected")


def chosen_engine(engine: str | None, master: str | None, threads: int | None) -> str:
    """The engine of the option, else of XMLPUNCT_ENGINE, else spark if it is installed, else local.

    On a terminal, a line reports that Spark is not installed.

    Raises `UsageError` for an option of the other engine.
    """
    engine = engine or os.environ.get("XMLPUNCT_ENGINE") or None
    if engine not in (None, *ENGINES):
        raise UsageError(f"XMLPUNCT_ENGINE={engine}: write spark or local")
    if engine is None:
        from xmlpunct.engine.spark import spark_is_installed

        engine = "spark" if master is not None or spark_is_installed() else "local"
        if engine == "local" and sys.stderr.isatty():
            say(
                "running on the local engine, because Spark is not installed; XMLPUNCT_ENGINE=local hides this line"
            )
    if threads is not None and engine == "spark":
        raise UsageError("--threads is an option of --engine local: on Spark, use --master 'local[2]'")
    if master is not None and engine == "local":
        raise UsageError("--master is an option of --engine spark: leave it out, or use --engine spark")
    return engine


def refuse_idle(options: str) -> None:
    """Refuse options for the output of a SELECT, where all results go to sinks. Raises `UsageError`."""
    for option in options.split(", "):
        name = {"-o": "output", "--format": "format_"}.get(option, option.strip("-").replace("-", "_"))
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} applies to a SELECT without a sink, and the query has none: leave it out, or set the option "
                "in WITH (...) of a CREATE SINK"
            )


def read_sources(options: tuple[str, ...]) -> dict[str, str]:
    """``NAME=SOURCE`` options as a mapping. Raises `UsageError`."""
    sources: dict[str, str] = {}
    for text in options:
        name, equals, source = text.partition("=")
        if not name or not equals or not source:
            raise UsageError(f"-s {text}: write NAME=SOURCE")
        if name in sources:
            raise UsageError(f"-s {text}: {name} is given twice")
        sources[name] = source
    return sources


def write_text(path: str, text: str) -> None:
    """Write a small file. Raises `UsageError` if it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def asked_by_signals(stop: Stop) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM request a stop. No effect outside the main thread, which receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        number: signal.signal(number, lambda *_: stop.ask()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Exempt the objects loaded so far from garbage collection, since scanning them delays results."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def report_stop(stats: RunStats, checkpoint: str | None) -> None:
    """Report on standard error the output of a run that was stopped."""
    written = f"{stats.tuples_out:,} tuples, {stats.bytes_out:,} bytes"
    resumption = "" if checkpoint is None else f"; the same command continues from {checkpoint}"
    say(f"stopped after {written}{resumption}")


def report_waits(query: Query, options: RunOptions, stats: RunStats) -> None:
    """Report on standard error the punctuations that retained tuples of a stopped run waited for."""
    from xmlpunct.engine.rules.guard import with_guards
    from xmlpunct.engine.why.answer import why

    if stats.state_rows:
        complete = [name for name, output in stats.outputs.items() if output.complete]
        query = with_guards(query) if options.guarded else query
        for wait in why(query, stats.holding, {}, options.punct_namespace, complete=complete):
            say(str(wait))


def report(stats: RunStats, rejects: str | None) -> None:
    """Report on standard error rejected, dropped and forgotten tuples and punctuations, if any."""
    if stats.rejected:
        hint = f"see {rejects}" if rejects else "--rejects FILE writes them to a file"
        tuples = "tuple" if stats.rejected == 1 else "tuples"
        say(f"{stats.rejected:,} {tuples} rejected; {hint}")
    if stats.late:
        say(f"{stats.late:,} results dropped: they came after a punctuation that matches them")
    if stats.all_forgotten:
        say(
            f"{stats.all_forgotten:,} punctuations were forgotten to save memory: late tuples of these are not detected"
        )
