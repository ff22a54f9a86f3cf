"""Prints a plan as SQL, for DuckDB or for xmlpunct."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from xmlpunct.engine import plan
from xmlpunct.expressions.expression import Call, Expression, Literal
from xmlpunct.operators import Aggregate, OverCall, SortKey
from xmlpunct.operators.time.over.calls import FRAMED
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import DATE, INT, TIMESTAMP, DecimalType, Type

SETS = {plan.Merge: "UNION ALL", plan.Union: "UNION", plan.Intersect: "INTERSECT", plan.Difference: "EXCEPT"}

_OUR_LENGTHS = {INT: "{}", DATE: "INTERVAL '{}' DAY", TIMESTAMP: "INTERVAL '{}' MICROSECOND"}
_ORDINALS = {INT: "{}", DATE: "datediff('day', DATE '1970-01-01', {})", TIMESTAMP: "epoch_us({})"}
_INSTANTS = {INT: "({})", DATE: "(DATE '1970-01-01' + CAST({} AS INTEGER))", TIMESTAMP: "make_timestamp({})"}
"""Lengths in our SQL; for DuckDB, conversions of instants to numbers and back."""


def quoted(name: str) -> str:
    return f'"{name}"'


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _nulls(key: SortKey) -> str:
    return "FIRST" if key.nulls_first else "LAST"


class Printer:
    """Prints a plan. For DuckDB (``duck``) it translates differing syntax and makes the order of ties explicit."""

    def __init__(self, duck: bool) -> None:
        self.duck = duck

    def scalar(self, e: Expression) -> str:
        if isinstance(e, Literal) and e.value is None:
            return f"CAST(NULL AS {self._type(e)})"
        if not isinstance(e, Call):
            return str(e)
        if e.function in ("XMLELEMENT", "XMLFOREST"):
            return self._xml(e)
        args = [self.scalar(a) for a in e.args]
        if e.function == "CAST":
            source = (
                f"TRUNC({args[0]})" if self.duck and e.type is INT and self._is_real(e.args[0]) else args[0]
            )
            return f"CAST({source} AS {self._type(e)})"
        if e.function == "IS NULL":
            return f"({args[0]} IS NULL)"
        if e.function in ("NOT", "NEG"):
            return f"({'NOT' if e.function == 'NOT' else '-'} {args[0]})"
        if e.function == "CASE":
            whens = "".join(f" WHEN {w} THEN {t}" for w, t in zip(args[::2], args[1::2], strict=False))
            return f"(CASE{whens} ELSE {args[-1]} END)"
        if (len(args) == 2 and not e.function.isalpha()) or e.function in ("AND", "OR"):
            is_integer_division = self.duck and e.function == "/" and e.type is INT
            return f"({args[0]} {'//' if is_integer_division else e.function} {args[1]})"
        return f"{e.function}({', '.join(args)})"

    def _xml(self, e: Call) -> str:
        """XMLELEMENT and XMLFOREST of numbers, words and dates, whose text form is the same in DuckDB."""
        names = [str(a.value).split() for a in e.args if isinstance(a, Literal)][:2]
        if e.function == "XMLFOREST":
            values = [self._plain(a) for a in e.args[1:]]
            if not self.duck:
                return f"XMLFOREST({', '.join(f'{v} AS {quoted(n)}' for n, v in zip(names[0], values, strict=True))})"
            parts = [
                f"CASE WHEN {v} IS NULL THEN NULL ELSE concat('<{n}>', {self._escaped(v)}, '</{n}>') END"
                for n, v in zip(names[0], values, strict=True)
            ]
            return f"NULLIF(concat({', '.join(parts)}), '')"
        name, count = names[0][0], len(names[1])
        values = [self._plain(a) for a in e.args[2:]]
        attributes, content = list(zip(names[1], values[:count], strict=True)), values[count:]
        if not self.duck:
            xml_attributes = ", ".join(f"{v} AS {quoted(n)}" for n, v in attributes)
            parts = [
                f"NAME {quoted(name)}",
                *([f"XMLATTRIBUTES({xml_attributes})"] if xml_attributes else []),
                *content,
            ]
            return f"XMLELEMENT({', '.join(parts)})"
        attribute_texts = [
            f"CASE WHEN {v} IS NULL THEN '' ELSE concat(' {n}=\"', {self._escaped(v)}, '\"') END"
            for n, v in attributes
        ]
        inner = [
            self._escaped(v) if isinstance(a, Call) and a.function == "XMLTEXT" else v
            for a, v in zip(e.args[2 + count :], content, strict=True)
        ]
        parts = [f"'<{name}'", *attribute_texts, "'>'", *inner, f"'</{name}>'"]
        return f"concat({', '.join(parts)})"

    def _plain(self, e: Expression) -> str:
        """An argument without its escaping call."""
        inner = e.args[0] if isinstance(e, Call) and e.function in ("XMLTEXT", "XMLATTRIBUTE") else e
        return self.scalar(inner)

    def _escaped(self, text: str) -> str:
        for character, reference in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
            text = f"replace(CAST({text} AS VARCHAR), '{character}', '{reference}')"
        return text

    def _type(self, e: Expression) -> str:
        return "BIGINT" if e.type is INT else str(e.type)

    def _is_real(self, e: Expression) -> bool:
        return isinstance(e.type, DecimalType) or str(e.type) == "DOUBLE"

    def aggregate(self, a: Aggregate) -> str:
        if a.function == "XMLAGG":
            items = [
                f"{quoted(k.column)}{' DESC' * k.descending} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
                for k in a.order
            ]
            value = quoted(str(a.argument))
            order = (
                f" ORDER BY {', '.join([*items, *([value] if self.duck else [])])}"
                if items or self.duck
                else ""
            )
            call = f"string_agg({value}, ''{order})" if self.duck else f"XMLAGG({value}{order})"
            return f"{call} AS {quoted(a.name)}"
        if a.record.called:
            return f"{self._special(a)} AS {quoted(a.name)}"
        argument = "*" if a.argument is None else ("DISTINCT " if a.distinct else "") + quoted(a.argument)
        return f"{a.function}({argument}) AS {quoted(a.name)}"

    def _special(self, a: Aggregate) -> str:
        """Aggregates outside standard SQL. DuckDB gets an explicit order of ties."""
        value = quoted(str(a.argument))
        keys = [f"{quoted(k.column)}{' DESC' * k.descending} NULLS {_nulls(k)}" for k in a.order]
        where = [quoted(a.where)] if a.where else []
        if a.record.best and self.duck:
            non_null = " AND ".join([f"{value} IS NOT NULL", f"{quoted(a.order[0].column)} IS NOT NULL"])
            return f"first({value} ORDER BY {keys[0]}, {value}) FILTER (WHERE {non_null})"
        inside = "DISTINCT " * a.distinct + value
        if a.function == "ARRAY_AGG" and self.duck:
            inside = f"{'DISTINCT ' * a.distinct}struct_pack(value := {value})"
            keys = [f"struct_pack(value := {value})"] if a.distinct else keys
        if a.function == "STRING_AGG":
            inside += f", '{a.parameter}'"
        elif a.parameter:
            inside += f", {a.parameter}"
        elif a.record.best:
            inside += f", {quoted(a.order[0].column)}"
            keys = []
        if self.duck and a.function in ("STRING_AGG", "ARRAY_AGG") and not (a.distinct and keys):
            keys.append(f"{value} NULLS LAST")
        order = f" ORDER BY {', '.join(keys)}" if keys else ""
        return f"{a.function}({inside}{order}){f' FILTER (WHERE {where[0]})' if where else ''}"

    def condition(self, keys: plan.EquiKeys, residual: Expression | None) -> str:
        tests = [f"{quoted(a)} = {quoted(b)}" for a, b in keys]
        return " AND ".join([*tests, *([] if residual is None else [self.scalar(residual)])]) or "TRUE"

    def order(self, node: plan.Sort) -> str:
        """Sort keys with NULLS FIRST or LAST; for DuckDB also the other columns, which break ties."""
        items = [
            f"{quoted(k.column)}{' DESC' * k.descending} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in node.keys
        ]
        named = [k.column for k in node.keys]
        ties = [f"{quoted(n)} NULLS LAST" for n in node.schema.names if n not in named]
        return ", ".join(items + (ties if self.duck else []))

    def over(self, node: plan.Over, below: str) -> str:
        """Calls with OVER. For DuckDB all other columns break ties if the call depends on them."""
        partition = f"PARTITION BY {listed(node.keys)} " if node.keys else ""
        order = [
            f"{quoted(k.column)}{' DESC' * k.descending} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in node.order
        ]
        named = [k.column for k in node.order]
        ties = [f"{quoted(n)} NULLS LAST" for n in node.input.schema.names if n not in named]
        type_ = node.input.schema[named[0]].type if named else INT
        calls = []
        for c in node.calls:
            arguments = [quoted(c.argument)] if c.argument else ["*"] if c.function == "COUNT" else []
            arguments += [str(c.count)] if c.function in ("LAG", "LEAD", "NTH_VALUE", "NTILE") else []
            arguments += [] if c.default is None else [quoted(c.default)]
            frame = ""
            if c.function in FRAMED:
                ends = (
                    self.bound(c.frame.start, "PRECEDING", c, type_),
                    self.bound(c.frame.end, "FOLLOWING", c, type_),
                )
                frame = f" {c.frame.unit} BETWEEN {ends[0]} AND {ends[1]}"
            order_by = ", ".join([*order, *(ties if self.duck and c.goes_by_ties else [])])
            order_by = f"ORDER BY {order_by}" * bool(order_by)
            calls.append(
                f"{c.function}({', '.join(arguments)}) OVER ({partition}{order_by}{frame}) AS {quoted(c.name)}"
            )
        return f"SELECT *, {', '.join(calls)} FROM {below}"

    def bound(self, offset: int | None, unbounded: str, call: OverCall, type_: Type) -> str:
        if offset is None or offset == 0:
            return f"UNBOUNDED {unbounded}" if offset is None else "CURRENT ROW"
        length = str(abs(offset))
        if call.frame.unit == "RANGE" and type_ is DATE:
            length = f"INTERVAL '{length}' DAY"
        if call.frame.unit == "RANGE" and type_ is TIMESTAMP:
            length = f"INTERVAL '{abs(offset) // 1_000_000}' SECOND"
        return f"{length} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"

    def unnest(self, node: plan.Unnest, below: str) -> str:
        """The items of an array. In DuckDB each item is one value."""
        type_ = node.input.schema[node.array].type
        assert isinstance(type_, ArrayType)
        item_columns = ["item"] if self.duck else [a.name for a in type_.attributes]
        part = "item.{}" if self.duck else "{}"
        columns_below = [quoted(a.name) for a in node.input.schema if node.keeps or a.name != node.array]
        columns = [f"u.{part.format(quoted(field))} AS {quoted(name)}" for name, field in node.fields]
        if node.number_column is not None:
            columns.append(f"u.place AS {quoted(node.number_column)}")
        ordinal, item_columns = (
            ("", item_columns)
            if node.number_column is None
            else (" WITH ORDINALITY", [*item_columns, "place"])
        )
        source = f"UNNEST({quoted(node.array)}){ordinal} AS u({listed(item_columns)})"
        joined = f"LEFT JOIN {source} ON TRUE" if node.outer else f"CROSS JOIN {source}"
        return f"SELECT {', '.join([*columns_below, *columns])} FROM {below} {joined}"

    def sessions(self, node: plan.Session) -> str:
        """Each tuple with its session."""
        type_, ts = node.input.schema[node.timestamp].type, quoted(node.timestamp)
        below = f"({self.sql(node.input)}) AS q{node.input.number}"
        columns_below = [quoted(name) for name in node.input.schema.names]
        if not self.duck:
            partition_by = f" PARTITION BY {listed(node.by)}" if node.by else ""
            gap = _OUR_LENGTHS[type_].format(node.gap)
            source = f"SESSION(TABLE (SELECT * FROM {below}){partition_by}, DESCRIPTOR({ts}), {gap})"
            start, end = "window_start", "window_end"
        else:
            x, partition_by = (
                _ORDINALS[type_].format(ts),
                f"PARTITION BY {listed(node.by)}" if node.by else "",
            )
            step = (
                f"CASE WHEN {x} - LAG({x}) OVER ({partition_by} ORDER BY {ts}) < {node.gap} THEN 0 ELSE 1 END"
            )
            begins = f"(SELECT *, {step} AS fresh FROM {below}) AS b"
            source = (
                f"(SELECT *, SUM(fresh) OVER ({partition_by} ORDER BY {ts}) AS number FROM {begins}) AS n"
            )
            session = f"OVER (PARTITION BY {listed([*node.by, 'number'])})"
            start = f"MIN({ts}) {session}"
            end = _INSTANTS[type_].format(f"MAX({x}) {session} + {node.gap}")
        bounds = [(start, node.start), (end, node.end)]
        columns = [*columns_below, *(f"{e} AS {quoted(name)}" for e, name in bounds if name is not None)]
        return f"SELECT {', '.join(columns)} FROM {source}"

    def windows(self, node: plan.WindowPromises) -> str:
        """The windows of each tuple. For DuckDB a timestamp is a number of days or microseconds since 1970."""
        hop = node.input
        assert isinstance(hop, plan.Hop)
        frame, ts = hop.frame, quoted(hop.timestamp)
        below = f"({self.sql(hop.input)}) AS q{hop.number}"
        epoch = DATE.ordinal(date(1970, 1, 1)) if frame.type is DATE else 0
        if not self.duck:
            lengths = {"SLIDE": frame.slide, "SIZE": frame.size, "OFFSET": frame.origin - epoch}
            if frame.slide == frame.size:
                del lengths["SLIDE"]
            arguments = ", ".join(
                f"{name} => {_OUR_LENGTHS[frame.type].format(n)}" for name, n in lengths.items()
            )
            kind = "TUMBLE" if frame.slide == frame.size else "HOP"
            source = (
                f"{kind}(DATA => TABLE (SELECT * FROM {below}), TIMECOL => DESCRIPTOR({ts}), {arguments})"
            )
            start, end = "window_start", "window_end"
        else:
            x, s, o = _ORDINALS[frame.type].format(ts), frame.slide, frame.origin - epoch
            first = f"(({x} - {frame.size - 1}) + ((({o} - {x} + {frame.size - 1}) % {s}) + {s}) % {s})"
            source = f"(SELECT *, unnest(range({first}, {x} + 1, {s})) AS w FROM {below}) AS u"
            start, end = (_INSTANTS[frame.type].format(f"w + {shift}") for shift in (0, frame.size))
        columns_below = [quoted(name) for name in hop.input.schema.names if name in node.schema]
        bounds = [(start, node.start), (end, node.end)]
        columns = [*columns_below, *(f"{e} AS {quoted(name)}" for e, name in bounds if name is not None)]
        return f"SELECT {', '.join(columns)} FROM {source}"

    def sql(self, node: plan.Node) -> str:
        """A plan as an SQL query."""
        if isinstance(node, plan.WindowPromises):
            return self.windows(node)
        if isinstance(node, plan.Session):
            return self.sessions(node)
        below = [f"({self.sql(child)}) AS q{child.number}" for child in node.inputs]
        if isinstance(node, plan.Scan):
            named = zip(node.columns, node.names, strict=True)
            picked = ", ".join(f"{quoted(c)} AS {quoted(n)}" for c, n in named)
            return f"SELECT {picked} FROM {node.stream.name}"
        if isinstance(node, plan.Punctuate):
            return self.sql(node.input)
        if isinstance(node, plan.Select):
            return f"SELECT * FROM {below[0]} WHERE {self.scalar(node.predicate)}"
        if isinstance(node, plan.Project):
            columns = ", ".join(f"{self.scalar(e)} AS {quoted(n)}" for n, e in node.columns)
            return f"SELECT {columns} FROM {below[0]}"
        if isinstance(node, plan.Unnest):
            return self.unnest(node, below[0])
        if isinstance(node, plan.Over):
            return self.over(node, below[0])
        if isinstance(node, plan.DupElim):
            return f"SELECT DISTINCT * FROM {below[0]}"
        if isinstance(node, plan.GroupBy):
            columns = ", ".join([*map(quoted, node.keys), *map(self.aggregate, node.aggregates)])
            group_by = f" GROUP BY {listed(node.keys)}" if node.keys else ""
            return f"SELECT {columns} FROM {below[0]}{group_by}"
        if isinstance(node, plan.Sort):
            return f"SELECT * FROM {below[0]} ORDER BY {self.order(node)}"
        if isinstance(node, plan.Limit):
            if isinstance(node.input, plan.Sort):
                return f"{self.sql(node.input)} LIMIT {node.count}"
            return f"SELECT * FROM {below[0]} LIMIT {node.count}"
        if isinstance(node, plan.Join) and not node.left_only:
            kind, on = node.kind.upper(), self.condition(node.keys, node.residual)
            return f"SELECT {listed(node.schema.names)} FROM {below[0]} {kind} JOIN {below[1]} ON {on}"
        if isinstance(node, plan.Join):
            on = self.condition(node.keys, node.residual)
            exists = f"EXISTS (SELECT 1 AS one FROM {below[1]} WHERE {on})"
            return f"SELECT * FROM {below[0]} WHERE {'NOT ' if node.kind == 'anti' else ''}{exists}"
        if isinstance(node, plan.NotIn):
            values = f"SELECT {quoted(node.right_column)} FROM {below[1]}"
            return f"SELECT * FROM {below[0]} WHERE {quoted(node.left_column)} NOT IN ({values})"
        return f" {SETS[type(node)]} ".join(f"(SELECT * FROM {part})" for part in below)
