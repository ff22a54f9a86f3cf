"""Random plans from a seed. Column names are unique in a plan, so the sides of joins never clash."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import count

from tests.oracle import relational
from tests.plans.feeds import MONEY, STREAMS, VALUES
from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Hop,
    Intersect,
    Join,
    Limit,
    Merge,
    Node,
    NotIn,
    Over,
    Project,
    Punctuate,
    Scan,
    Select,
    Session,
    Sort,
    Union,
    Unnest,
    WindowPromises,
    numbered,
)
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.functions import call, cast, literal
from xmlpunct.operators import Aggregate, OverCall, OverFrame, SortKey
from xmlpunct.operators.group.aggregate import SUMS
from xmlpunct.operators.time.over.calls import FUNCTIONS
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, XML, DecimalType, Type

ARRAYS = [s for s in STREAMS if any(isinstance(a.type, ArrayType) for a in s.schema)]
_UNITS = {INT: (1, 0), DATE: (1, DATE.ordinal(date(1970, 1, 1))), TIMESTAMP: (6 * 3600 * 10**6, 0)}
"""For each timestamp type: the unit of window lengths, and the default origin."""
INSTANTS: dict[Type, int] = {INT: 1, DATE: 1, TIMESTAMP: 3600 * 10**6}
"""For each timestamp type: the unit of RANGE offsets."""
Sides = tuple[Node, Node, tuple[tuple[str, str], ...], Expression | None]


def column(schema: Schema, name: str) -> Column:
    return Column(schema[name].type, schema[name].nullable, name)


class Grower:
    """Grows a plan."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = count()

    def name(self) -> str:
        return f"c{next(self.numbers)}"

    def plan(self, depth: int) -> Node:
        """A plan, perhaps with ORDER BY or LIMIT or both."""
        root = self.grow(depth)
        if self.rng.random() < 0.3:
            names = self.rng.sample(root.schema.names, self.rng.randint(1, len(root.schema.names)))
            root = Sort(root, tuple(SortKey(n, self.coin(0.3), self.coin(0.2)) for n in names))
        if self.rng.random() < 0.2:
            root = Limit(root, self.rng.randint(0, 8))
        return numbered(root)

    def coin(self, chance: float) -> bool:
        return self.rng.random() < chance

    def grow(self, depth: int) -> Node:
        if depth == 0 or self.coin(0.1):
            return self.scan()
        kinds = [self.select, self.project, self.dupelim, self.group, self.group, self.merge, self.union]
        kinds += [self.join, self.join, self.join, self.semijoin, self.semijoin, self.not_in, self.over]
        kinds += [self.window, self.window]
        return self.rng.choice([*kinds, self.intersect, self.difference])(depth - 1)

    def scan(self) -> Node:
        """A scan. Many streams have arrays, which are unnested at once: few operators accept arrays."""
        stream = self.rng.choice(ARRAYS if self.coin(0.25) else STREAMS)
        names, order = stream.schema.names, stream.order
        needed = (
            [names[0]] if order is None or order.sender_column is None else [names[0], order.sender_column]
        )
        optional = [name for name in names if name not in needed]
        picked = [*needed, *self.rng.sample(optional, self.rng.randint(0, len(optional)))]
        named = {name: self.name() for name in picked}
        scan: Node = Scan(stream, tuple(picked), tuple(named.values()))
        if order is None:
            return self.unnested(scan)
        sender_column = None if order.sender_column is None else named[order.sender_column]
        return Punctuate(scan, replace(order, attribute=named[order.attribute], sender_column=sender_column))

    def unnested(self, below: Node) -> Node:
        """Unnest all arrays, including nested ones."""
        plain = Schema.of(a for a in below.schema if not isinstance(a.type, ArrayType))
        if len(plain) == len(below.schema):
            return below
        if self.coin(0.3):
            below = Select(below, self.predicate(plain))
        array = next(a for a in below.schema if isinstance(a.type, ArrayType))
        assert isinstance(array.type, ArrayType)
        names = [a.name for a in array.type.attributes]
        fields = self.rng.sample(names, self.rng.randint(0, len(names)))
        number = self.name() if not fields or self.coin(0.5) else None
        named = tuple((self.name(), field) for field in fields)
        return self.unnested(Unnest(below, array.name, named, number, self.coin(0.5), keeps=False))

    # Expressions

    def constant(self, type_: Type) -> Expression:
        """A constant."""
        return literal(type_, self.rng.choice(VALUES[MONEY if isinstance(type_, DecimalType) else type_]))

    def predicate(self, schema: Schema) -> Expression:
        a, b = (column(schema, self.rng.choice(schema.names)) for _ in range(2))
        first = call(self.rng.choice(["<", "<=", "=", "<>", ">="]), a, self.constant(a.type))
        alike = column(schema, self.rng.choice([x.name for x in schema if x.type == a.type]))
        second = self.rng.choice([call("IS NULL", b), call("<", a, alike), call("NOT", call("=", alike, a))])
        return self.rng.choice([first, first, second, call("OR", first, second), call("AND", first, second)])

    def value(self, schema: Schema) -> Expression:
        """An expression over a column, most of them monotone."""
        a = column(schema, self.rng.choice(schema.names))
        b = column(schema, self.rng.choice([x.name for x in schema if x.type == a.type]))
        n = self.constant(a.type)
        if a.type is INT:
            expressions = [
                call("+", a, n),
                call("-", n, a),
                call("/", a, literal(INT, self.rng.choice([-2, 2, 3]))),
            ]
            expressions += [
                call("*", a, literal(INT, 2)),
                call("NEG", a),
                call("+", a, b),
                call("COALESCE", a, n),
            ]
            return self.rng.choice([*expressions, cast(a, MONEY), cast(a, DOUBLE)])
        if isinstance(a.type, DecimalType):
            return self.rng.choice([call("+", a, n), call("NEG", a), cast(a, INT), cast(a, DOUBLE)])
        if a.type is DOUBLE:
            return self.rng.choice([call("*", a, literal(DOUBLE, -2.0)), call("+", a, n), call("NEG", a)])
        if a.type is DATE:
            return self.rng.choice([call("YEAR", a), cast(a, TIMESTAMP), call("COALESCE", a, n)])
        if a.type is TIMESTAMP:
            return self.rng.choice([call("YEAR", a), cast(a, DATE), call("HOUR", a)])
        if a.type is BOOLEAN:
            return self.rng.choice([call("NOT", a), cast(a, INT), call("=", a, b)])
        return self.rng.choice([call("UPPER", a), call("||", a, literal(STRING, "x")), call("LENGTH", a)])

    def fit(self, schema: Schema, type_: Type) -> Expression:
        """An expression of a type."""
        alike = [a.name for a in schema if a.type == type_]
        if alike:
            return column(schema, self.rng.choice(alike))
        numbers = [a.name for a in schema if a.type is INT or isinstance(a.type, DecimalType)]
        if numbers and (type_ in (INT, DOUBLE) or isinstance(type_, DecimalType)):
            return cast(column(schema, self.rng.choice(numbers)), type_)
        return self.constant(type_)

    # One input

    def select(self, depth: int) -> Node:
        below = self.grow(depth)
        return Select(below, self.predicate(below.schema))

    def project(self, depth: int) -> Node:
        """Some columns and some expressions."""
        below = self.grow(depth)
        names = below.schema.names
        picked: list[Expression] = [
            column(below.schema, n) for n in self.rng.sample(names, self.rng.randint(1, min(3, len(names))))
        ]
        expressions = [self.value(below.schema) if self.coin(0.5) else e for e in picked]
        return Project(below, tuple((self.name(), e) for e in expressions))

    def shape(self, below: Node, types: Sequence[Type]) -> Node:
        """A projection to columns of these types."""
        return Project(below, tuple((self.name(), self.fit(below.schema, t)) for t in types))

    def dupelim(self, depth: int) -> Node:
        return DupElim(self.grow(depth))

    def window(self, depth: int) -> Node:
        """Windows or sessions over a timestamp column, often with a GROUP BY of the windows."""
        below = self.grow(depth)
        stamps = [a for a in below.schema if a.type in _UNITS and not a.nullable]
        if not stamps:
            return below
        stamp = self.rng.choice(stamps)
        unit, epoch = _UNITS[stamp.type]
        slide = self.rng.randint(1, 3)
        size = slide if self.coin(0.5) else self.rng.randint(1, 4)
        start, end = self.name(), self.name()
        if self.coin(0.4):
            comparable = [a.name for a in below.schema if a.type.comparable and a != stamp]
            partition_by = self.rng.sample(comparable, min(len(comparable), self.rng.choice([0, 1, 1, 2])))
            return Session(below, stamp.name, slide * unit, tuple(partition_by), start, end)
        frame = HoppingWindows(stamp.type, slide * unit, size * unit, epoch + self.rng.randint(-2, 2))
        hop = Hop(below, stamp.name, frame, start, end)
        windows = WindowPromises(hop, stamp.name, frame, start, end)
        if self.coin(0.5):
            return windows
        keys = [start, end, self.rng.choice(windows.schema.names)][self.rng.choice([0, 1]) :]
        return GroupBy(windows, tuple(dict.fromkeys(keys)), (Aggregate("COUNT", None, False, self.name()),))

    def group(self, depth: int) -> Node:
        """A group-by of columns or expressions, often of the first column, which most punctuations constrain."""
        below = self.grow(depth)
        if self.coin(0.5):
            columns = [(name, column(below.schema, name)) for name in below.schema.names]
            below = Project(below, ((self.name(), self.value(below.schema)), *columns))
        names = below.schema.names
        keys = self.rng.sample(names, self.rng.choice([0, 1, 1, min(2, len(names))]))
        keys = [names[0]] if keys and self.coin(0.5) else keys
        aggregates = [Aggregate("COUNT", None, False, self.name())]
        for name in self.rng.sample(names, min(2, len(names))):
            type_ = below.schema[name].type
            functions = ["COUNT", "MIN", "MAX", *(["SUM"] if isinstance(type_, DecimalType) else [])]
            functions += ["SUM", "AVG"] if type_ in (INT, DOUBLE) else []
            aggregates.append(Aggregate(self.rng.choice(functions), name, self.coin(0.3), self.name()))
        return GroupBy(below, tuple(keys), tuple(aggregates[self.rng.choice([0, 1]) :] or aggregates))

    def over(self, depth: int) -> Node:
        """Calls with OVER in any order, or ordered by a non-null column or by a COALESCE of a nullable one."""
        below = self.grow(depth)
        if self.coin(0.3):
            return self.over_in_any_order(below)
        firsts = [a.name for a in below.schema if not a.nullable and a.type in INSTANTS]
        if not firsts:
            columns = [(name, column(below.schema, name)) for name in below.schema.names]
            expression: Expression = self.constant(INT)
            if ages := [a for a in below.schema if a.type in INSTANTS]:
                a = self.rng.choice(ages)
                expression = call("COALESCE", column(below.schema, a.name), self.constant(a.type))
            firsts = [self.name()]
            below = Project(below, (*columns, (firsts[0], expression)))
        first = self.rng.choice(firsts)
        other_columns = [name for name in below.schema.names if name != first]
        keys = self.rng.sample(other_columns, min(len(other_columns), self.rng.choice([0, 1, 1, 1, 2])))
        further_keys = self.rng.sample(other_columns, min(len(other_columns), self.rng.choice([0, 0, 1])))
        order = [SortKey(first), *(SortKey(n, self.coin(0.5), self.coin(0.5)) for n in further_keys)]
        step = INSTANTS[below.schema[first].type] if len(order) == 1 else 0
        calls = [self.windowed(below.schema, step) for _ in range(4)]
        alike = [c for c in calls if c.release == calls[0].release]
        return Over(below, tuple(keys), tuple(order), tuple(alike))

    def over_in_any_order(self, below: Node) -> Node:
        """Calls with OVER whose order has no timestamp: it is empty, descending, nullable, or not of numbers."""
        names = self.rng.sample(below.schema.names, len(below.schema))
        keys, columns = names[: self.rng.choice([0, 1, 1, 2])], names[-self.rng.choice([1, 2]) :]
        order = [SortKey(n, self.coin(0.5), self.coin(0.5)) for n in columns if self.coin(0.8)]
        if order and not below.schema[order[0].column].nullable:
            order[0] = SortKey(order[0].column, True, order[0].nulls_first)
        calls = tuple(self.windowed(below.schema, 0) for _ in range(self.rng.choice([1, 2, 3])))
        return Over(below, tuple(keys), tuple(order), calls, has_timestamp=False)

    def windowed(self, schema: Schema, step: int) -> OverCall:
        """A call that DuckDB defines: not the first of peers in RANGE, where ``step`` is the unit of offsets, or 0."""
        argument = self.rng.choice(schema.names)
        type_ = schema[argument].type
        sums = ("COUNT",) + ("SUM",) * (isinstance(type_, DecimalType) or type_ in (INT, DOUBLE))
        sums += ("AVG",) * (type_ is INT)
        function = self.rng.choice([f for f in FUNCTIONS if f not in SUMS or f in sums])
        picks = function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
        unit = "ROWS" if picks else self.rng.choice(["ROWS", "RANGE"])
        start, end = self.rng.choice([None, -2, -1, 0]), self.rng.choice([None, 0, 0, 1, 2])
        if unit == "RANGE":
            start, end = (None if x is None else x * step for x in (start, end))
        without = function in ("ROW_NUMBER", "RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK", "NTILE")
        call_argument = None if without or (function == "COUNT" and self.coin(0.3)) else argument
        count = self.rng.choice([1, 1, 2, 3])
        default = argument if function in ("LAG", "LEAD") and self.coin(0.3) else None
        return OverCall(function, self.name(), call_argument, count, default, OverFrame(unit, start, end))

    # Several inputs

    def pair(self, depth: int) -> tuple[Node, Node]:
        """Two inputs of the same types."""
        left, right = self.grow(depth), self.grow(depth)
        shared = [a.type for a in left.schema if any(a.type == b.type for b in right.schema)]
        types = self.rng.sample(shared, min(len(shared), self.rng.randint(1, 2))) or [INT]
        return self.shape(left, types), self.shape(right, types)

    def merge(self, depth: int) -> Node:
        return Merge(self.pair(depth))

    def union(self, depth: int) -> Node:
        return Union(self.pair(depth))

    def intersect(self, depth: int) -> Node:
        return Intersect(*self.pair(depth))

    def difference(self, depth: int) -> Node:
        return Difference(*self.pair(depth))

    def sides(self, depth: int) -> Sides:
        """Two inputs, some equality attributes, perhaps a residual condition."""
        left, right = self.grow(depth), self.grow(depth)
        alike = [(a.name, b.name) for a in left.schema for b in right.schema if a.type == b.type]
        self.rng.shuffle(alike)
        keys: list[tuple[str, str]] = []
        for a, b in alike[: self.rng.choice([0, 1, 1, 1, 1, 2])]:
            if not any(a == other[0] or b == other[1] for other in keys):
                keys.append((a, b))
        residual = None
        if alike and self.coin(0.3):
            a, b = self.rng.choice(alike)
            residual = self.pairing(column(left.schema, a), column(right.schema, b))
        return left, right, tuple(keys), residual

    def pairing(self, a: Expression, b: Expression) -> Expression:
        """A condition on two columns of one type, often that one lies in an interval around the other."""
        if not a.type.numeric or self.coin(0.3):
            return call(self.rng.choice(["<", "<=", "<>"]), a, b)
        a, b = self.rng.choice([(a, b), (b, a)])
        n, m = self.constant(a.type), self.constant(a.type)
        around = call("BETWEEN", a, call("-", b, n), call("+", b, m))
        apart = call("AND", call("<=", call("-", a, b), n), call("<", call("-", b, a), m))
        moved = call("AND", call("<", call("-", a, n), b), call("<=", b, call("+", a, m)))
        close = call("<=", call("ABS", call("-", a, b)), m)
        return self.rng.choice([around, apart, moved, close])

    def join(self, depth: int) -> Node:
        left, right, keys, residual = self.sides(depth)
        return Join(left, right, keys, self.rng.choice(list(relational.PRESERVED)), residual)

    def semijoin(self, depth: int) -> Node:
        left, right, keys, residual = self.sides(depth)
        return Join(left, right, keys, "anti" if self.coin(0.5) else "semi", residual)

    def not_in(self, depth: int) -> Node:
        left, right = self.pair(depth)
        return NotIn(left, right, left.schema.names[0], right.schema.names[0])


class XmlGrower(Grower):
    """Grows a plan whose output is grouped XML, once or twice."""

    def plan(self, depth: int) -> Node:
        below = self.aggregated(self.grow(min(depth, 2)))
        return numbered(self.aggregated(below) if self.coin(0.5) else below)

    def aggregated(self, below: Node) -> Node:
        """Group the XML elements of all columns, some in an explicit order."""
        plain = [a.name for a in below.schema if a.type.comparable]
        element, columns = self.name(), [(name, column(below.schema, name)) for name in plain]
        below = Project(below, ((element, self.element(below.schema)), *columns))
        keys = self.rng.sample(plain, min(self.rng.choice([0, 1, 1, 2]), len(plain)))
        aggregates = [Aggregate("COUNT", element, False, self.name())]
        for _ in range(self.rng.randint(1, 2)):
            order = self.rng.sample(plain, self.rng.randint(0, min(2, len(plain))))
            sort_keys = tuple(SortKey(name, self.coin(0.5), self.coin(0.3)) for name in order)
            aggregates.append(Aggregate("XMLAGG", element, False, self.name(), sort_keys))
        return GroupBy(below, tuple(keys), tuple(aggregates[self.rng.choice([0, 1]) :]))

    def element(self, schema: Schema) -> Expression:
        words = [
            a.name
            for a in schema
            if a.type in (STRING, INT, BOOLEAN, DATE) or isinstance(a.type, DecimalType)
        ]
        xml = [column(schema, a.name) for a in schema if a.type is XML]
        attributes = [column(schema, name) for name in words[: self.rng.randint(0, len(words))]]
        content = [column(schema, name) for name in words[len(attributes) :]]
        if not attributes and not xml and content and self.coin(0.5):
            return call(
                "XMLFOREST", literal(STRING, " ".join(f"f{i}" for i in range(len(content)))), *content
            )
        names = literal(STRING, " ".join(f"a{i}" for i in range(len(attributes))))
        return call("XMLELEMENT", literal(STRING, "e"), names, *attributes, *xml, *content)


class AggregateGrower(Grower):
    """Grows a plan whose root is a group-by with aggregates outside standard SQL."""

    def plan(self, depth: int) -> Node:
        below = self.grow(min(depth, 2))
        plain = [a for a in below.schema if a.type.comparable]
        columns = [(a.name, column(below.schema, a.name)) for a in plain]
        numbers: list[str] = []
        texts: list[str] = []
        flags: list[str] = []
        for a in plain:
            if a.type is INT:
                numbers.append(self.name())
                columns.append((numbers[-1], cast(column(below.schema, a.name), DOUBLE)))
            if a.type in (STRING, INT, BOOLEAN, DATE):
                texts.append(self.name())
                columns.append((texts[-1], cast(column(below.schema, a.name), STRING)))
        if plain:
            a = self.rng.choice(plain)
            flags.append(self.name())
            columns.append(
                (
                    flags[-1],
                    call("IS NULL", call("NULLIF", column(below.schema, a.name), self.constant(a.type))),
                )
            )
        below = Project(below, tuple(columns))
        names = [a.name for a in plain]
        keys = self.rng.sample(names, min(self.rng.choice([0, 1, 1, 2]), len(names)))
        aggregates = [
            self.special(below.schema, names, numbers, texts, flags) for _ in range(self.rng.randint(1, 3))
        ]
        return numbered(GroupBy(below, tuple(keys), tuple(aggregates)))

    def special(
        self, schema: Schema, names: list[str], numbers: list[str], texts: list[str], flags: list[str]
    ) -> Aggregate:
        distinct, name = self.coin(0.3), self.name()
        where = self.rng.choice([None, *flags])
        steps = [
            n
            for n in names
            if schema[n].type in (INT, DOUBLE, DATE) or isinstance(schema[n].type, DecimalType)
        ]
        kinds = ["ARG_MIN", "ARG_MAX", "QUANTILE_DISC", "ARRAY_AGG"]
        kinds += (
            ["VAR_SAMP", "VAR_POP"] * bool(numbers)
            + ["STRING_AGG"] * bool(texts)
            + ["QUANTILE_CONT"] * bool(steps)
        )
        function = self.rng.choice(kinds)
        quantile = str(self.rng.choice([0, 1, "0.5", "0.25", "0.9", "0.333"]))
        if function in ("ARG_MIN", "ARG_MAX"):
            sort_key = SortKey(self.rng.choice(names), function == "ARG_MAX")
            return Aggregate(function, self.rng.choice(names), False, name, (sort_key,))
        if function in ("VAR_SAMP", "VAR_POP"):
            return Aggregate(function, self.rng.choice(numbers), distinct, name)
        if function in ("QUANTILE_CONT", "QUANTILE_DISC"):
            subject = self.rng.choice(steps if function == "QUANTILE_CONT" else names)
            return Aggregate(function, subject, distinct, name, (), quantile, where)
        plain = [n for n in names if schema[n].type is not TIMESTAMP] or texts
        subject = self.rng.choice(texts if function == "STRING_AGG" else plain or names)
        order_columns = [] if distinct else self.rng.sample(names, self.rng.randint(0, min(2, len(names))))
        order = tuple(SortKey(n, self.coin(0.5), self.coin(0.3)) for n in order_columns)
        return Aggregate(function, subject, distinct, name, order, "-" * (function == "STRING_AGG"), where)
