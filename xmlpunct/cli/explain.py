"""``xmlpunct explain``."""

from __future__ import annotations

import click

from xmlpunct.cli.options import query_argument, read_query, rule_option, sql_option
from xmlpunct.cli.terminal import put_line
from xmlpunct.engine.rule_options import read_rules


@click.command("explain")
@query_argument
@sql_option
@rule_option
def explain_command(query: str | None, sql: str | None, rules: tuple[str, ...]) -> None:
    """Show the plan of a query: operators, fragments, partitioning, and what unblocks what."""
    from xmlpunct.engine.explain import explain
    from xmlpunct.engine.sql import plan

    put_line(explain(plan(read_query(query, sql), rules=read_rules(rules))))
