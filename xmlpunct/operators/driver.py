"""The driver: runs a tree of operators over slices."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from xmlpunct.errors import Reject
from xmlpunct.operators.iterator import Operator
from xmlpunct.slice import Slice, concat


@dataclass(slots=True)
class Counters:
    """What went through an operator; state and held punctuations are counted after keep."""

    tuples_in: int = 0
    tuples_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    state_rows: int = 0
    state_rows_peak: int = 0
    held_punctuations: int = 0
    held_punctuations_peak: int = 0


def run(operator: Operator, port: int, given: Slice) -> Slice:
    """Give one slice to one operator: step, pass, keep, prop."""
    at_once = operator.step(port, given.tuples) if given.tuples.height else operator.schema.empty()
    if not given.punctuations and not operator.speaks:
        return Slice(at_once)
    released = operator.pass_(port, given.punctuations)
    operator.keep(port, given.punctuations)
    promised = operator.prop(port, given.punctuations)
    if released.height:
        at_once = pl.concat([at_once, released]) if at_once.height else released
    return Slice(at_once, promised)


Edge = tuple[int, int]
"""An operator's place in its pipeline, and one of its ports."""


@dataclass
class Pipeline:
    """Operators wired into a directed acyclic graph with one output.

    ``operators`` are in an order in which each comes after those it reads from; the last one's output is the
    pipeline's. ``inputs[i]`` lists the (operator, port) pairs that the pipeline's own input i feeds, and
    ``targets[o]`` the one pair that operator o's output feeds (None for the last).
    """

    operators: Sequence[Operator]
    inputs: Sequence[Sequence[Edge]]
    targets: Sequence[Edge | None]
    counters: list[Counters] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counters = [Counters() for _ in self.operators]

    def push(self, port: int, given: Slice) -> Slice:
        """Give a slice to input ``port``; return what comes out at the end."""
        output = self.operators[-1].schema if self.operators else None
        if output is None:
            return given
        return concat(output, [self._climb(edge, given) for edge in self.inputs[port]])

    def _climb(self, edge: Edge | None, given: Slice) -> Slice:
        while edge is not None:
            place, port = edge
            operator, counters = self.operators[place], self.counters[place]
            counters.tuples_in += given.tuples.height
            counters.punctuations_in += len(given.punctuations)
            given = run(operator, port, given)
            counters.tuples_out += given.tuples.height
            counters.punctuations_out += len(given.punctuations)
            counters.state_rows, counters.held_punctuations = operator.rows, operator.held
            counters.state_rows_peak = max(counters.state_rows_peak, counters.state_rows)
            counters.held_punctuations_peak = max(counters.held_punctuations_peak, counters.held_punctuations)
            if operator.rejects:
                self.rejects += operator.rejects
                operator.rejects = []
            edge = self.targets[place]
        return given

    def waits(self) -> list[int]:
        """For each input of the pipeline, how much that is retained waits for it."""
        found = [0] * len(self.inputs)
        for i, edges in enumerate(self.inputs):
            for edge in edges:
                at: Edge | None = edge
                while at is not None:
                    place, port = at
                    found[i] += self.operators[place].waits()[port]
                    at = self.targets[place]
        return found

    def snapshot(self) -> bytes:
        """The state of all operators as one piece of bytes."""
        return pack({f"{i}/{k}": v for i, o in enumerate(self.operators) for k, v in o.snapshot().items()})

    def restore(self, data: bytes) -> None:
        """Take the state of a snapshot."""
        parts: list[dict[str, pl.DataFrame]] = [{} for _ in self.operators]
        for key, frame in unpack(data).items():
            place, _, name = key.partition("/")
            parts[int(place)][name] = frame
        for operator, part in zip(self.operators, parts, strict=True):
            operator.restore(part)


def pack(frames: dict[str, pl.DataFrame]) -> bytes:
    """Named data frames as bytes: for each its name and its Arrow IPC stream, each behind its length."""
    out = io.BytesIO()
    for name, frame in frames.items():
        body = io.BytesIO()
        frame.write_ipc_stream(body)
        for piece in (name.encode(), body.getvalue()):
            out.write(len(piece).to_bytes(8, "big"))
            out.write(piece)
    return out.getvalue()


def unpack(data: bytes) -> dict[str, pl.DataFrame]:
    """The inverse of `pack`."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "big")
        pieces.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return {
        name.decode(): pl.read_ipc_stream(io.BytesIO(body))
        for name, body in zip(pieces[::2], pieces[1::2], strict=True)
    }
