"""Expressions of 1,000 terms are planned, printed, pickled and computed without deep recursion."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import pytest

import xmlpunct
from xmlpunct.base.errors import SqlError
from xmlpunct.engine.plan import Project, Select
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.compiler import Compiler
from xmlpunct.expressions.expression import LONGEST, Call, Column, Expression
from xmlpunct.expressions.program import Program
from xmlpunct.types import DOUBLE, INT, STRING, decimal

COLUMNS = "a INT, b INT NOT NULL, t STRING, x DOUBLE, d DECIMAL(7,2), p BOOLEAN"
ROWS = [(1, 1), (2, 3), (3, 1), (5, 0)]
"""The values of a and b."""


def stream(folder: Path) -> str:
    """Declares a stream of ROWS."""
    tuples = (f"<s><a>{a}</a><b>{b}</b><t>x{a}</t><x>{a}.5</x><d>{a}.25</d><p>true</p></s>" for a, b in ROWS)
    source = folder / "s.xml"
    source.write_text(f"<r>{''.join(tuples)}</r>")
    return f"CREATE STREAM s ({COLUMNS}) WITH (source = '{source}');"


def chain(*parts: str, n: int) -> str:
    """The parts, repeated ``n`` times."""
    return "".join(part for part, _ in zip(repeat(parts), range(n), strict=False) for part in part)


def nested(head: str, inner: str, tail: str, n: int) -> str:
    return head * n + inner + tail * n


def selected(text: str) -> str:
    return f"SELECT {text} AS r FROM s"


KINDS: dict[str, tuple[Callable[[int], str], Callable[[int, int, int], object]]] = {
    "sum": (lambda n: selected("a" + " + a" * n), lambda a, b, n: a + n * a),
    "difference": (lambda n: selected("a" + " - b" * n), lambda a, b, n: a - n * b),
    "product": (lambda n: selected("a" + " * 1" * n), lambda a, b, n: a),
    "quotient": (lambda n: selected("a" + " / b" * n), lambda a, b, n: (a if b == 1 else 0) if b else None),
    "remainder": (lambda n: selected("a" + " % b" * n), lambda a, b, n: (a % b) if b else None),
    "doubles": (lambda n: selected("x" + " + 0e0" * n), lambda a, b, n: a + 0.5),
    "decimals": (
        lambda n: selected("CAST(d" + " + 0.25" * n + " AS DOUBLE)"),
        lambda a, b, n: a + (n + 1) / 4,
    ),
    "to the left": (lambda n: selected(nested("(", "a", " + 1)", n)), lambda a, b, n: a + n),
    "to the right": (lambda n: selected(nested("(1 + ", "a", ")", n)), lambda a, b, n: a + n),
    "signs": (lambda n: selected(nested("-(", "a", ")", n)), lambda a, b, n: a * (-1) ** n),
    "calls": (lambda n: selected(nested("ABS(", "a", ")", n)), lambda a, b, n: a),
    "casts": (
        lambda n: selected(nested("CAST(CAST(", "a", " AS STRING) AS INT)", n // 2)),
        lambda a, b, n: a,
    ),
    "nullif": (lambda n: selected(nested("NULLIF(", "a", ", b)", n)), lambda a, b, n: a if a != b else None),
    "greatest": (
        lambda n: selected(f"GREATEST({', '.join(f'a / b + {i}' for i in range(n))})"),
        lambda a, b, n: a // b + n - 1 if b else None,
    ),
    "coalesce": (
        lambda n: selected(f"COALESCE({'a / b, ' * (n - 1)} 0)"),
        lambda a, b, n: a // b if b else None,
    ),
    "texts": (lambda n: selected("t" + " || t" * n), lambda a, b, n: f"x{a}" * (n + 1)),
    "concat": (lambda n: selected(f"CONCAT({'t, ' * (n - 1)} t)"), lambda a, b, n: f"x{a}" * n),
    "case": (
        lambda n: selected(
            f"CASE {' '.join(f'WHEN a / b = {i} THEN a + {i}' for i in range(n))} ELSE 1 / b END"
        ),
        lambda a, b, n: a + a // b if b else None,
    ),
    "case in case": (
        lambda n: selected(
            "".join(f"CASE WHEN a = {i} THEN a / b ELSE " for i in range(5, n + 5)) + "-1" + " END" * n
        ),
        lambda a, b, n: -1 if b else None,
    ),
    "or": (
        lambda n: f"SELECT a AS r FROM s WHERE {' OR '.join(f'a / b = {i + 2}' for i in range(n))}",
        lambda a, b, n: a if b and a // b > 1 else None,
    ),
    "and": (
        lambda n: f"SELECT a AS r FROM s WHERE {' AND '.join(f'a <> {i + 2}' for i in range(n))}",
        lambda a, b, n: a if a < 2 else None,
    ),
    "and of or": (
        lambda n: f"SELECT a AS r FROM s WHERE {'b = 3 OR (a <> 2 AND (' * (n // 2)}p{'))' * (n // 2)}",
        lambda a, b, n: a,
    ),
    "not": (lambda n: f"SELECT a AS r FROM s WHERE {'NOT ' * (2 * (n // 2))}p", lambda a, b, n: a),
    "in": (
        lambda n: f"SELECT a AS r FROM s WHERE a IN ({', '.join(map(str, range(2, n)))})",
        lambda a, b, n: a if a > 1 else None,
    ),
    "in of expressions": (
        lambda n: f"SELECT a AS r FROM s WHERE a IN ({', '.join(f'b + {i}' for i in range(n))})",
        lambda a, b, n: a if a >= b else None,
    ),
    "order": (lambda n: f"SELECT a AS r FROM s ORDER BY a{' + 0' * n}", lambda a, b, n: a),
    "group": (lambda n: f"SELECT SUM(a{' + 0' * n}) AS r FROM s GROUP BY a{' + 0' * n}", lambda a, b, n: a),
}
"""For each kind a query of n terms, and its result for a and b (None: no result)."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_terms(kind: str, tmp_path: Path) -> None:
    build, expected = KINDS[kind]
    n = 1000
    sql = stream(tmp_path) + build(n)
    query = plan(sql)
    sent = pickle.loads(pickle.dumps(query))
    assert sent.root == query.root
    assert hash(sent.root) == hash(query.root)
    assert explain(sent) == explain(query)
    results = sorted(str(t[0]) for t in xmlpunct.query(sql) if isinstance(t, tuple) and t[0] is not None)
    values = [expected(a, b, n) for a, b in ROWS]
    assert results == sorted(str(value) for value in values if value is not None)


def test_a_thousand_columns(tmp_path: Path) -> None:
    items = ", ".join(f"a / b + {i} AS c{i}" for i in range(1000))
    rows = [t for t in xmlpunct.query(f"{stream(tmp_path)} SELECT {items} FROM s") if isinstance(t, tuple)]
    assert rows == [tuple(a // b + i for i in range(1000)) for a, b in ROWS if b]


def effort(expression: Expression) -> int:
    """The number of column reads in all compiled polars expressions, with repetitions."""
    compiler = Compiler([expression], ())
    stages = [part.size for stage in compiler.stages for part in stage.values()]
    return sum(stages) + sum(c.size for c in compiler.compiled)


def expression_of(sql: str) -> Expression:
    """The longest expression of a query."""
    nodes = list(plan(f"CREATE STREAM s ({COLUMNS}) WITH (source = '-'); {sql}").root.walk())
    expressions = [e for node in nodes if isinstance(node, Project) for _, e in node.columns]
    expressions += [node.predicate for node in nodes if isinstance(node, Select)]
    return max(expressions, key=lambda e: len(str(e)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "group"])
def test_work_is_about_linear_in_the_terms(kind: str) -> None:
    build, _ = KINDS[kind]
    small, large = (effort(expression_of(build(n))) for n in (100, 400))
    assert large < 6 * small


@pytest.mark.parametrize("function", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("type_", [INT, DOUBLE, decimal(7, 2)], ids=str)
def test_arithmetic_of_many_terms_is_not_exponential(function: str, type_: object) -> None:
    def terms(n: int) -> Expression:
        e: Expression = Column(type_, True, "a")  # type: ignore[arg-type]
        for i in range(n):
            other = Column(type_, i % 2 == 0, f"b{i % 7}")  # type: ignore[arg-type]
            e = fn.call(function, *((other, e) if i % 3 else (e, other)))
            if e.type != type_:
                e = fn.cast(e, type_)  # type: ignore[arg-type]
        return e

    if function in ("/", "%") and type_ not in (INT, DOUBLE):
        return
    small, large = effort(terms(50)), effort(terms(200))
    assert large < 6 * small


def test_shared_subexpressions_are_computed_once() -> None:
    e: Expression = Column(INT, True, "a")
    for _ in range(60):
        e = fn.call("+", e, e)
    assert len(set(e.columns())) == 1
    assert effort(e) < 2000
    assert pickle.loads(pickle.dumps(e)) == e
    assert e.rewrite(lambda part: Column(INT, True, "b") if isinstance(part, Column) else None) != e
    assert len(str(e)) <= LONGEST + 10
    (values,), reasons = Program([("v", e)]).run(xmlpunct.Schema.parse("a INT").frame([(0,), (8,)]))
    assert values[0] == 0
    assert reasons is not None
    assert reasons[1].startswith("INT overflow")


def test_an_error_shows_the_failing_subexpression(tmp_path: Path) -> None:
    source = "CREATE STREAM s (a INT, b INT) WITH (source = '-');"
    e = expression_of(f"{source.replace(source, '')} SELECT a{' / b' * 500} AS r FROM s")
    assert isinstance(e, Call)
    _, reasons = Program([("r", e)]).run(
        xmlpunct.Schema.parse('"s.a" INT, "s.b" INT').frame([(1, 0), (1, 1)])
    )
    assert reasons is not None
    assert reasons.to_list() == ["division by zero: s.a / s.b", None]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT {'(' * 1501}a{')' * 1501} FROM s", "at most 1,500 parentheses, CASE, NOT and -"),
        (f"SELECT a FROM s WHERE {'NOT ' * 1501}p", "at most 1,500 parentheses, CASE, NOT and -"),
        (f"SELECT a FROM {'(SELECT a FROM ' * 65}s{')' * 65}", "at most 64 queries"),
        (" INTERSECT ".join(["SELECT a FROM s"] * 160), "at most 150 steps"),
        (f"SELECT a FROM {'(' * 1000}s{')' * 1000}", "nested too deeply"),
    ],
)
def test_deep_nesting_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(
        SqlError,
        match=f"this query is (nested too deeply|too long).*{reason}" if "most" in reason else reason,
    ):
        plan(f"CREATE STREAM s ({COLUMNS}) WITH (source = '-'); {sql}")


def test_equality_of_expressions() -> None:
    a, b = Column(INT, True, "a"), Column(INT, True, "b")
    first, second = fn.call("+", a, b), fn.call("+", a, Column(INT, True, "b"))
    assert first == second
    assert hash(first) == hash(second)
    assert first not in (a, fn.call("+", b, a), fn.call("-", a, b), fn.cast(first, STRING), None, "a + b")
    assert a not in (first, second)
