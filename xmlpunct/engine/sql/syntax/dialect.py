"""The SQL dialect: what sqlglot reads beyond standard SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from xmlpunct.engine.sql.syntax.stream_syntax import StreamParser
from xmlpunct.engine.sql.syntax.window_syntax import WindowParser
from xmlpunct.engine.sql.syntax.window_tables import without_emit
from xmlpunct.expressions.expression import FUNCTIONS
from xmlpunct.operators.group.aggregate import FUNCTIONS as AGGREGATE_FUNCTIONS
from xmlpunct.schema.column_list_parser import ColumnListSQL
from xmlpunct.schema.sql_trees import parse_trees


class AggregateCall(exp.Expression, exp.AggFunc):
    """An aggregate that is read by its name alone, with DISTINCT and ORDER BY where they stand."""

    _sql_names: ClassVar = ["AGGREGATE_CALL"]
    is_var_len_args = True
    arg_types: ClassVar = {"this": True, "expressions": False}


def _called(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: AggregateCall(this=name, expressions=args)


_AGGREGATES = {name for f in AGGREGATE_FUNCTIONS.values() for name in f.called}
_FUNCTIONS = {name for f in FUNCTIONS.values() for name in f.called} | {"DATE_ADD"}


class PunctSQL(ColumnListSQL):
    """Standard SQL with its XML, CREATE STREAM, and PATH in column lists."""

    # Otherwise ORDER BY without NULLS would mean NULLS FIRST, as in some databases.
    NULL_ORDERING = "nulls_are_last"

    class Parser(WindowParser, StreamParser):
        # What is read by its name alone has its arguments in the order in which they stand.
        FUNCTIONS: ClassVar = {
            **{name: f for name, f in WindowParser.FUNCTIONS.items() if name not in _FUNCTIONS},
            **{name: _called(name) for name in _AGGREGATES},
        }
        FUNCTION_PARSERS: ClassVar = {
            name: f for name, f in WindowParser.FUNCTION_PARSERS.items() if name not in _AGGREGATES
        }

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """As sqlglot does; a function remembers the name that it was called by."""
            token = self._curr
            call: exp.Expr | None = super()._parse_function_call(*args, **kwargs)
            if isinstance(call, exp.Func) and token is not None:
                call.meta["name"] = token.text
            return call

        def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
            """As sqlglot does; the join remembers its place, and whether a comma made it."""
            token = self._curr
            join: exp.Join | None = super()._parse_join(*args, **kwargs)
            if join is not None:
                comma = token.token_type is TokenType.COMMA
                join.meta.update(start=token.start, end=self._prev.end, comma=comma)
            return join


def parse_statements(sql: str) -> list[exp.Expr]:
    """Read SQL into sqlglot's trees, one per statement. Raises `SqlError` with the place."""
    return parse_trees(sql, PunctSQL(), without_emit)
