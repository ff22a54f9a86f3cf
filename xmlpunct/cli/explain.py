"""``xmlpunct explain``."""

from __future__ import annotations

import click

from xmlpunct.cli.shared_options import (
    file_and_text,
    param_option,
    query_argument,
    read_params,
    rule_option,
    sql_option,
)
from xmlpunct.cli.terminal import put_line
from xmlpunct.engine.rule_options import read_rules


@click.command("explain")
@query_argument
@sql_option
@param_option
@rule_option
def explain_command(
    query: str | None, sql: str | None, params: tuple[str, ...], rules: tuple[str, ...]
) -> None:
    """Show the plan of a query: operators, fragments, partitioning, and the punctuations that unblock operators."""
    from xmlpunct.engine.sql import plan
    from xmlpunct.engine.why.plan_text import explain

    _, text = file_and_text(query, sql)
    planned = plan(text, rules=read_rules(rules), parameters=read_params(params))
    put_line(explain(planned))
