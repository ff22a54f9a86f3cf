"""The command line. Commands parse options, call the library, and turn its errors into messages."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from xmlpunct import __version__
from xmlpunct.cli.check import check_command
from xmlpunct.cli.explain import explain_command
from xmlpunct.cli.generate import generate_command
from xmlpunct.cli.infer import infer_command
from xmlpunct.cli.parse import parse_command
from xmlpunct.cli.replay import replay_command
from xmlpunct.cli.run import run_command
from xmlpunct.cli.say import say_command
from xmlpunct.cli.terminal import hold_places, say
from xmlpunct.cli.why import why_command
from xmlpunct.errors import XmlPunctError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of SIGINT."""


class _Commands(click.Group):
    """Commands whose reader may stop early, as ``head`` does. That is no failure."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # which click would take for a failure
            return 0


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xmlpunct")
def cli() -> None:
    """Continuous queries over punctuated XML streams.

    Data goes to standard output, everything else to standard error. The exit code is 0 when all is done,
    1 when data or a source failed, 2 for a wrong call or SQL, 130 when interrupted.
    """


cli.add_command(run_command)
cli.add_command(parse_command)
cli.add_command(check_command)
cli.add_command(explain_command)
cli.add_command(why_command)
cli.add_command(say_command)
cli.add_command(infer_command)
cli.add_command(generate_command)
cli.add_command(replay_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    hold_places()
    code = invoke(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it is ending already
    sys.exit(code)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    _log_to_terminal()
    try:
        result = cli.main(args=arguments, prog_name="xmlpunct", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        _drop_output()  # do not wait for a reader that may have stopped
        return INTERRUPTED
    except XmlPunctError as error:
        say(str(error))
        return error.exit_code
    except Exception as error:
        if os.environ.get("XMLPUNCT_DEBUG"):
            raise
        say(_unforeseen(error))
        return 1
    finally:
        _give_up_output()


def _log_to_terminal() -> None:
    """Show what xmlpunct logs, and not what its libraries do: py4j logs whole tracebacks."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("xmlpunct: %(message)s"))
    logging.getLogger("xmlpunct").handlers = [handler]
    logging.getLogger().addHandler(logging.NullHandler())


def _give_up_output() -> None:
    """Drop what standard output does not take, so that Python does not complain again when it closes it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unforeseen(error: Exception) -> str:
    """The message for an unexpected error: the system's own, or that it is a fault of xmlpunct."""
    if isinstance(error, MemoryError):
        return "out of memory: a smaller --slice takes less"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    said = f"internal error: {type(error).__name__}: {error}"
    return f"{said}\nXMLPUNCT_DEBUG=1 shows where. Please report it."
