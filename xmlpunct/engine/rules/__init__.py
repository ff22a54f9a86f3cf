"""Plan rewrites: each rule is a function from a plan to an equivalent plan.

Equivalent plans reject the same tuples: no rule changes the tuples on which an expression that can fail is evaluated.
Equivalent plans may propagate more punctuations, but never fewer.
"""

from __future__ import annotations

from collections.abc import Callable

from xmlpunct.engine.plan import Node
from xmlpunct.engine.rule_options import DROP_DUPELIMS, USUAL, Rules
from xmlpunct.engine.rules.combine_sides import combine_sides
from xmlpunct.engine.rules.drop_dupelims import drop_dupelims
from xmlpunct.engine.rules.drop_ignored import drop_ignored
from xmlpunct.engine.rules.drop_pointwise import drop_pointwise
from xmlpunct.engine.rules.drop_projects import drop_projects
from xmlpunct.engine.rules.find_keys import find_keys
from xmlpunct.engine.rules.flatten_merges import flatten_merges
from xmlpunct.engine.rules.join_selects import join_selects
from xmlpunct.engine.rules.merge_projects import merge_projects
from xmlpunct.engine.rules.merge_selects import merge_selects
from xmlpunct.engine.rules.order_joins import order_joins
from xmlpunct.engine.rules.prune_columns import prune_columns
from xmlpunct.engine.rules.push_projects import push_projects
from xmlpunct.engine.rules.push_residuals import push_residuals
from xmlpunct.engine.rules.push_selects import push_selects
from xmlpunct.engine.rules.report_once import report_once
from xmlpunct.engine.rules.settle_failing import settle_failing
from xmlpunct.engine.rules.split_projects import split_projects
from xmlpunct.engine.rules.split_senders import split_senders

RULES: tuple[Callable[[Node], Node], ...] = (
    flatten_merges,
    find_keys,
    push_residuals,
    push_selects,
    join_selects,
    merge_selects,
    push_projects,
    merge_projects,
    drop_dupelims,
    drop_pointwise,
    prune_columns,
    drop_projects,
)
"""The rules, in order of application."""


def optimize(root: Node, on: Rules = USUAL) -> Node:
    """Split senders, apply all rules until the plan no longer changes, then apply the rules that run once and last.

    ``on`` has the optional rules that are on.
    """
    root = split_senders(root)
    rules = (*RULES, drop_ignored) if DROP_DUPELIMS in on else RULES
    while True:
        rewritten = root
        for rule in rules:
            rewritten = rule(rewritten)
        if rewritten == root:
            return combine_sides(split_projects(join_selects(order_joins(report_once(settle_failing(root))))))
        root = rewritten
