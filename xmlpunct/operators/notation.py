"""Slices in the notation of the paper's tables, for examples.

``1 a; 2 null; P(*, [a,b])`` are two tuples and a punctuation. Blanks separate a tuple's values, which are written as
their types read them; an empty STRING is ``""``. ``2: 1 a`` is a slice for the second port; ``1:`` may be omitted.
"""

from __future__ import annotations

from xmlpunct.operators.driver import run
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


def read(schema: Schema, text: str) -> list[Tuple | Punctuation]:
    """The elements of a slice of ``schema``."""
    elements: list[Tuple | Punctuation] = []
    for piece in filter(None, map(str.strip, text.split(";"))):
        if piece.startswith("P("):
            elements.append(Punctuation.parse(schema, f"<{piece[2:-1]}>"))
        else:
            values = zip(schema, piece.split(), strict=True)
            t = (None if v == "null" else a.type.read(v.replace('""', "")) for a, v in values)
            elements.append(tuple(t))
    return elements


def read_port(text: str) -> tuple[int, str]:
    """The port that a slice is for, from 0, and its elements."""
    port, _, elements = text.partition(":")
    return (int(port) - 1, elements.strip()) if port.isdecimal() and elements else (0, text)


def shown(schema: Schema, slice_: Slice) -> str:
    """A slice in this notation, tuples first."""
    rows = (
        " ".join("null" if v is None else a.type.format(v) or '""' for a, v in zip(schema, t, strict=True))
        for t in slice_.tuples.rows()
    )
    return "; ".join([*rows, *(f"P({str(p)[1:-1]})" for p in slice_.punctuations)])


def show(operator: Operator, *slices: str) -> None:
    """Run an operator on slices; print each slice with its output.

    >>> from xmlpunct.operators.sets.pointwise import Pointwise
    >>> show(Pointwise([Schema.parse("x INT")], "distinct"), "1; 2; 1", "2; 3; P(2)")
    1; 2; 1    -> 1; 2
    2; 3; P(2) -> 3; P(2)
    """
    width = max(map(len, slices))
    for text in slices:
        port, elements = read_port(text)
        parts = read(operator.inputs[port], elements)
        tuples = operator.inputs[port].frame(t for t in parts if not isinstance(t, Punctuation))
        output = run(operator, port, Slice(tuples, [p for p in parts if isinstance(p, Punctuation)]))
        print(f"{text:{width}} -> {shown(operator.schema, output)}".rstrip())
