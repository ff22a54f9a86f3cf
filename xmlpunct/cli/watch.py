"""``run --watch``: a frame on the terminal that follows the run."""

from __future__ import annotations

from types import TracebackType

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from xmlpunct.base.printable import printable
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.drawing import FLOWS, STILL, WAITS, does
from xmlpunct.engine.view.moment import InputMoment, Moment, OperatorBox, OutputMoment, waiting
from xmlpunct.engine.view.view import View

_COLOURS = {WAITS: "red", FLOWS: "green", STILL: "dim"}


class Watch:
    """Shows a view on standard error during a run; if that is no terminal, only the last moment, at the end."""

    def __init__(self, view: View, console: Console | None = None) -> None:
        self._view, self._console = view, console or Console(stderr=True)
        self._live: Live | None = None

    def __enter__(self) -> Watch:
        if self._console.is_terminal:
            self._live = Live(frame(self._view.latest), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = frame(self._view.latest)
        if self._live is not None:
            self._live.update(last, refresh=True)
            self._live.stop()
        else:
            self._console.print(last)

    def show(self, stats: RunStats) -> None:
        """Show the latest moment of the view, which already reflects ``stats``."""
        if self._live is not None:
            self._live.update(frame(self._view.latest), refresh=True)


def frame(moment: Moment) -> Group:
    """A moment on the terminal: a tree of operators, tables of inputs and sinks, and the waiting operators."""
    waits = [_text(line, "red") for line in waiting(moment)]
    return Group(_title(moment), _operators(moment), _inputs(moment.inputs), *_sinks(moment.outputs), *waits)


def _title(moment: Moment) -> Text:
    numbers = (
        f"{moment.seconds:.0f} s, {moment.slices:,} slices, {moment.tuples_out:,} results "
        f"({moment.rate_out:,.0f}/s), {moment.punctuations_out:,} punctuations out, "
        f"{moment.state_rows:,} retained, {moment.rejected:,} rejected"
    )
    return Text.assemble((moment.state, "bold"), f" on the {moment.engine} engine: {numbers}")


def _operators(moment: Moment) -> Table:
    table = _table("operator", "in", "out", "out/s", "retained", "held", "waits for")
    by_number = {b.id: b for b in moment.boxes}
    stack = [(by_number[output.root], 0) for output in reversed(moment.outputs)]
    printed = set[int]()
    while stack:
        b, depth = stack.pop()
        if b.id in printed:
            table.add_row(_text(f"{'  ' * depth}#{b.id} {b.name}: as above"))
            continue
        printed.add(b.id)
        states = [does(moment, b, port) for port in range(len(b.inputs))]
        colour = _COLOURS[WAITS if WAITS in states else FLOWS if b.rate > 0 else STILL]
        waits = ", ".join(f"#{i}: {n:,}" for i, n in zip(b.inputs, b.waits, strict=False) if n)
        table.add_row(
            _text(f"{'  ' * depth}#{b.id} {b.name} {b.what}{_sink_names(b)}".rstrip()),
            f"{b.tuples_in:,}",
            f"{b.tuples_out:,}",
            Text(f"{b.rate:,.0f}", colour),
            f"{b.state_rows:,}",
            f"{b.held_punctuations:,}",
            Text(waits, "red"),
        )
        stack += [(by_number[i], depth + 1) for i in reversed(b.inputs)]
    return table


def _sink_names(b: OperatorBox) -> str:
    return f" -> {', '.join(b.sinks)}" if b.sinks else ""


def _sinks(outputs: tuple[OutputMoment, ...]) -> list[Table]:
    """A table of the output of each answer, if there are several."""
    if len(outputs) < 2:
        return []
    table = _table("sink", "results", "results/s", "punctuations", "bytes", "late")
    for o in outputs:
        name = f"{o.name} (complete)" if o.complete else o.name
        counts = (o.tuples, o.punctuations, o.bytes, o.late)
        tuples, *numbers = (f"{count:,}" for count in counts)
        table.add_row(_text(name), tuples, f"{o.rate:,.0f}", *numbers)
    return [table]


def _inputs(inputs: tuple[InputMoment, ...]) -> Table:
    table = _table("input", "tuples", "tuples/s", "punctuations", "made", "last one", "rejected", "to read")
    for i in inputs:
        age = "none yet" if i.punctuation_age is None else f"{i.punctuation_age:.0f} s ago"
        unread = "ended" if i.ended else "?" if i.behind is None else f"{i.behind:,} B"
        counts = (i.tuples, i.rate, i.punctuations, i.punctuations_made)
        table.add_row(_text(i.name), *(f"{n:,.0f}" for n in counts), age, f"{i.rejected:,}", unread)
    return table


def _text(line: str, style: str = "") -> Text:
    """A literal line: in a str, rich would parse brackets as markup."""
    return Text(printable(line), style)


def _table(first: str, *numbers: str) -> Table:
    """A table as wide as the terminal. Only the first column is truncated."""
    table = Table(box=box.SIMPLE, pad_edge=False, expand=True)
    table.add_column(first, overflow="ellipsis", no_wrap=True, ratio=1)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    return table
