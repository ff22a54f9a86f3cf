"""``xmlpunct explain``."""

from __future__ import annotations

import click

from xmlpunct.cli.run import read_query, rule_option
from xmlpunct.engine.switches import read_rules


@click.command("explain")
@click.argument("query", required=False, metavar="[QUERY.sql]")
@click.option(
    "-q", "--sql", metavar="SQL", help="The query itself, instead of a file; or after one, its last part."
)
@rule_option
def explain_command(query: str | None, sql: str | None, rules: tuple[str, ...]) -> None:
    """Show the plan of a query: operators, fragments, partitioning, and what unblocks what."""
    from xmlpunct.engine.explain import explain
    from xmlpunct.engine.sql import plan

    click.echo(explain(plan(read_query(query, sql), rules=read_rules(rules))))
