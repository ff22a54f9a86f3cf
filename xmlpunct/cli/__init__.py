"""The command line. Commands parse options, call the library, and turn its errors into messages."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import StringIO
from typing import Any

import click
from click.shell_completion import CompletionItem

from xmlpunct import __version__
from xmlpunct.base.cores import cores
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.base.lazy_imports import loading
from xmlpunct.base.printable import printable
from xmlpunct.base.secrets import hide
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.cli.shared_options import is_sql
from xmlpunct.cli.terminal import LAYOUT, hold_places
from xmlpunct.cli.terminal import say as write_message  # the command `say` has the same name

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells: 128 plus the number of SIGINT."""

COMMANDS = {
    "check": "Check that a stream is well formed and grammatical.",
    "checkpoint": "Show, verify or copy the checkpoint of a run.",
    "explain": "Show the plan of a query, and the punctuations that unblock its operators.",
    "generate": "Write punctuated test streams.",
    "infer": "Print a CREATE STREAM statement for a source.",
    "parse": "Write the tuples and punctuations of a source.",
    "replay": "Serve a file as a live stream.",
    "run": "Run a query over XML streams.",
    "say": "Send a punctuation to a running query.",
    "why": "List the punctuations that the results of a run wait for.",
}
"""A summary for each command. Each command is in the module of its name, or in `_MODULES`."""
_MODULES = {"checkpoint": "checkpoint_commands"}


class _Commands(click.Group):
    """Loads a command when it is called. A query or an option in its place means `run`.

    A reader that stops early, such as ``head``, is no failure.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        with loading():
            command: click.Command = getattr(
                import_module(f"xmlpunct.cli.{_MODULES.get(name, name)}"), f"{name}_command"
            )
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own_options = {option for param in self.get_params(ctx) for option in param.opts}
        if args and args[0] not in own_options | {*COMMANDS} and _belongs_to_run(args[0]):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with 1
            return 0


def _belongs_to_run(argument: str) -> bool:
    """True for an option, a query and the name of a file."""
    is_option = argument.startswith("-")
    return is_option or is_sql(argument) or argument.endswith(".sql") or os.path.isfile(argument)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xmlpunct")
def cli() -> None:
    """Continuous queries over punctuated XML streams.

    `xmlpunct QUERY.sql` and `xmlpunct "SELECT ..."` are short for `xmlpunct run`.

    Data is written to standard output, messages to standard error. Exit codes: 0 for success, 1 if data or a
    source failed, 2 for wrong options or SQL, 130 if interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    hold_places()
    _share_cores()
    code = invoke(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the process is ending already
    gc.freeze()  # the interpreter does not search all objects for garbage at exit
    sys.exit(code)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    _log_to_terminal()
    try:
        result = cli.main(args=arguments, prog_name="xmlpunct", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        with suppress(OSError):
            click.echo(printable(hide(text.getvalue()), LAYOUT), err=True, nl=False)
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        _drop_output()  # do not wait for a reader that may have stopped
        return INTERRUPTED
    except XmlPunctError as error:
        write_message("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return error.exit_code
    except Exception as error:
        if os.environ.get("XMLPUNCT_DEBUG"):
            raise
        write_message(_unexpected_message(error))
        return 1
    finally:
        _flush_output()


def _share_cores() -> None:
    """Leave half of the cores to the threads that read. polars uses all, unless a limit is set before its import."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(max(1, cores() // 2)))


class _OneLine(logging.Formatter):
    """Formats a record as one line without secrets and control characters, whatever a library logs."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(hide(super().format(record)))


def _log_to_terminal() -> None:
    """Show log records of xmlpunct, and none of its libraries: py4j logs whole tracebacks."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("xmlpunct: %(message)s"))
    logging.getLogger("xmlpunct").handlers = [handler]
    logging.getLogger().addHandler(logging.NullHandler())


def _flush_output() -> None:
    """Flush standard output; if that fails, drop its buffer, so that Python reports no second error at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Redirect standard output to the null device."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unexpected_message(error: Exception) -> str:
    """The message for an unexpected error: the system's own, or that it is a fault of xmlpunct."""
    if isinstance(error, MemoryError):
        return "out of memory: use a smaller --slice"
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    message = printable(f"internal error: {type(error).__name__}: {error}")
    return f"{message}\nThis is a bug in xmlpunct. Please report it, with the traceback that XMLPUNCT_DEBUG=1 shows."
