"""A query printed as SQL (relations 1), its inputs as CREATE statements, and a feed as XML documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

from tests.oracle.cql import query as cql
from tests.oracle.cql.feeds import Feed, Input, Inputs, timestamp
from xmlpunct.expressions.functions import literal as expression
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT, TIMESTAMP, Type
from xmlpunct.types.pattern import WILDCARD, Range

Named = tuple[str, list[str]]
"""A SELECT and its column names, which are unique in the query."""


def literal(type_: Type, value: Any) -> str:
    """A constant in SQL."""
    return f"CAST(NULL AS {type_})" if value is None else str(expression(type_, value))


def statement(input_: Input, source: str = "-") -> str:
    """CREATE STREAM or CREATE RELATION."""
    options = [f"source = '{source}'", f"element = '{input_.name}'"]
    options += [] if input_.stamp is None else [f"timestamp = '{input_.stamp}'"]
    options += [] if input_.change is None else [f"change = '{input_.change}'"]
    columns = ", ".join(map(_column, input_.schema))
    kind = "STREAM" if input_.is_stream else "RELATION"
    return f"CREATE {kind} {input_.name} ({columns}) WITH ({', '.join(options)});"


def _column(a: Attribute) -> str:
    rule = "" if a.nullable else " NOT NULL"
    if isinstance(a.domain, Range):
        ends = ((a.domain.low, ">="), (a.domain.high, "<="))
        tests = [f"{a.name} {op} {literal(a.type, v)}" for v, op in ends if v is not None]
        rule += f" CHECK ({' AND '.join(tests)})" if tests else ""
    return f"{a.name} {a.type}{rule}"


class Printer:
    """Prints a query."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.type: Type = next((i.type for i in inputs.values() if i.stamp is not None), INT)
        self._columns, self._tables = count(), count()

    def sql(self, q: cql.Query) -> str:
        """A complete query."""
        if isinstance(q, cql.IStream | cql.DStream | cql.RStream):
            return self.to_stream(q)[0]
        return self.select(q)[0]

    def to_stream(self, q: cql.Query) -> Named:
        text, names = self.select(q.inputs[0])
        if isinstance(q, cql.RStream):
            text += "" if q.every is None else f" EVERY {self.span(q.every)}{self.origin(q.origin)}"
        return f"{type(q).__name__.upper()}({text})", names

    def span(self, n: int) -> str:
        """A length of ``n`` instants: a number, of days for DATE, or seconds."""
        if self.type is not TIMESTAMP:
            return str(n)
        return f"INTERVAL '{n // 1_000_000}' SECOND"

    def origin(self, at: int) -> str:
        return f" ORIGIN {literal(self.type, timestamp(self.type, at))}" if at else ""

    def new_names(self, n: int) -> list[str]:
        return [f"c{next(self._columns)}" for _ in range(n)]

    def table(self, text: str) -> str:
        return f"{text} AS q{next(self._tables)}"

    def below(self, q: cql.Query) -> Named:
        """A relation as a subquery in FROM."""
        text, names = self.select(q)
        return self.table(f"({text})"), names

    def picked(self, columns: Sequence[str], table: str, clauses: str = "") -> Named:
        names = self.new_names(len(columns))
        listed = ", ".join(f"{c} AS {name}" for c, name in zip(columns, names, strict=True))
        return f"SELECT {listed} FROM {table}{clauses}", names

    def select(self, q: cql.Query) -> Named:
        """A relation as a SELECT."""
        if isinstance(q, cql.Relation):
            return self.picked(self.columns(q.name), self.table(q.name))
        if isinstance(q, cql.Window | cql.Rows):
            text, names = self.stream(q.stream)
            return self.picked(names, self.table(f"{text} {self.window(q, names)}"))
        if isinstance(q, cql.UnionAll | cql.SetOp):
            (left, names), (right, _) = self.below(q.left), self.below(q.right)
            word = "UNION ALL" if isinstance(q, cql.UnionAll) else q.kind
            return f"(SELECT * FROM {left}) {word} (SELECT * FROM {right})", names
        if isinstance(q, cql.Join):
            return self.join(q)
        if isinstance(q, cql.NotIn):
            return self.not_in(q)
        table, names = self.below(q.inputs[0])
        if isinstance(q, cql.Select):
            return self.picked(names, table, f" WHERE {predicate(q.predicate, names)}")
        if isinstance(q, cql.Project):
            return self.picked([scalar(c, names) for c in q.columns], table)
        if isinstance(q, cql.Distinct):
            text, names = self.picked(names, table)
            return text.replace("SELECT", "SELECT DISTINCT", 1), names
        assert isinstance(q, cql.GroupBy)
        keys = [names[i] for i in q.keys]
        columns = [*keys, *(aggregate(a, names) for a in q.aggregates)]
        clauses = f" GROUP BY {', '.join(keys)}" if keys else ""
        clauses += "" if q.having is None else f" HAVING {predicate(q.having, columns)}"
        return self.picked(columns, table, clauses)

    def join(self, q: cql.Join) -> Named:
        (left, names), (right, right_names) = self.below(q.left), self.below(q.right)
        tests = [f"{names[i]} = {right_names[j]}" for i, j in q.keys]
        tests += [] if q.residual is None else [predicate(q.residual, names + right_names)]
        on = " AND ".join(tests) or "TRUE"
        if q.kind in ("semi", "anti"):
            exists = f"EXISTS (SELECT 1 AS one FROM {right} WHERE {on})"
            return self.picked(names, left, f" WHERE {'NOT ' if q.kind == 'anti' else ''}{exists}")
        return self.picked(names + right_names, f"{left} {q.kind.upper()} JOIN {right} ON {on}")

    def not_in(self, q: cql.NotIn) -> Named:
        (left, names), (right, right_names) = self.below(q.left), self.below(q.right)
        tests = " AND ".join(f"{names[i]} = {right_names[j]}" for i, j in q.keys)
        values = f"SELECT {right_names[q.y]} AS one FROM {right}{f' WHERE {tests}' if tests else ''}"
        return self.picked(names, left, f" WHERE {names[q.x]} NOT IN ({values})")

    def columns(self, name: str) -> list[str]:
        input_ = self.inputs[name]
        return [input_.schema.names[i] for i in input_.places]

    def stream(self, q: cql.Query) -> Named:
        """The input of a window, and its columns without the timestamp."""
        if isinstance(q, cql.Stream):
            return q.name, self.columns(q.name)
        if isinstance(q, cql.Stamped):
            name, columns = q.stream.name, self.columns(q.stream.name)
            stamp = self.inputs[name].stamp
            return f"(SELECT {', '.join(columns)}, {stamp} AS t0, {stamp} FROM {name})", [*columns, "t0"]
        return self.to_stream(q)

    def window(self, q: cql.Window | cql.Rows, names: Sequence[str]) -> str:
        if isinstance(q, cql.Rows):
            partition_by = f"PARTITION BY {', '.join(names[i] for i in q.by)} " if q.by else ""
            return f"[{partition_by}ROWS {q.n}]"
        text = {"NOW": "NOW", "RANGE": f"RANGE {self.span(q.size)}", "UNBOUNDED": "RANGE UNBOUNDED"}[q.kind]
        slide = "" if q.slide is None else f" SLIDE {self.span(q.slide)}{self.origin(q.origin)}"
        return f"[{text}{slide}]"


def scalar(e: Any, names: Sequence[str]) -> str:
    if isinstance(e, cql.Constant):
        return literal(e.type, e.value)
    if isinstance(e, cql.Plus):
        return f"{names[e.position]} {'+' if e.n >= 0 else '-'} {abs(e.n)}"
    assert isinstance(e, cql.Column)
    return names[e.position]


def predicate(e: Any, names: Sequence[str]) -> str:
    if isinstance(e, cql.Compare):
        return f"{scalar(e.a, names)} {e.op} {scalar(e.b, names)}"
    if isinstance(e, cql.Or):
        return f"({predicate(e.p, names)} OR {predicate(e.q, names)})"
    assert isinstance(e, cql.IsNull)
    return f"{scalar(e.a, names)} IS NULL"


def aggregate(a: cql.Aggregate, names: Sequence[str]) -> str:
    if a.position is None:
        return f"{a.function}(*)"
    return f"{a.function}({'DISTINCT ' if a.distinct else ''}{names[a.position]})"


def document(input_: Input, feed: Feed) -> str:
    """The elements of one input as an XML document. The end of the document is the end of the input."""
    lines = ['<stream xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct">']
    for element in (e for name, e in feed if name == input_.name):
        is_punctuation = isinstance(element, Punctuation)
        texts: list[str | None] = []
        for i, a in enumerate(input_.schema):
            if isinstance(element, Punctuation):
                p = element.patterns[i]
                texts.append(None if p is WILDCARD else str(p))
            else:
                texts.append(None if element[i] is None else a.type.format(element[i]))
        if is_punctuation and not any(texts):
            continue
        children = "".join(
            f"<{a.name}>{escape(text)}</{a.name}>"
            for a, text in zip(input_.schema, texts, strict=True)
            if text is not None
        )
        name = f"punct:{input_.name}" if is_punctuation else input_.name
        lines.append(f"  <{name}>{children}</{name}>")
    return "\n".join([*lines, "</stream>", ""])
