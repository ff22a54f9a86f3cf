"""XMLELEMENT and XMLFOREST: from syntax to typed trees."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from sqlglot import exp

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import in_attribute
from xmlpunct.engine.sql.planner.scope import PlannedRelation
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.xml_syntax import XmlAttributes
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.functions.xml import ELEMENT, FOREST
from xmlpunct.firehose.result_elements import check_uri, expanded_name
from xmlpunct.schema.column_attributes import namespaces_of
from xmlpunct.schema.sql_errors import at, refuse
from xmlpunct.types import STRING

Reading = Generator[exp.Expr, Expression, Expression]
"""A reader of a node: yields child nodes, receives their expressions, and returns its own expression."""

_REMEDY = "XMLELEMENT(NAME ..., XMLNAMESPACES('URI' AS {}), ...) around it declares it"


def plan_element(node: exp.Expr, relation: PlannedRelation) -> Reading:
    """XMLELEMENT over a relation."""
    name, parts = take(node, "this", "expressions")
    content = list(parts or ())
    opening = [name.name]
    for prefix, uri in _declared(node).items():
        opening.append(f'xmlns:{prefix}="{in_attribute(uri)}"')
    if content and isinstance(content[0], exp.Properties):
        take(content.pop(0), "expressions")
    _expanded(name.name, name, node)
    attributes: list[exp.Expr] = []
    if content and isinstance(content[0], XmlAttributes):
        attributes = only(content.pop(0), "expressions")
    for part in content:
        if isinstance(part, exp.Properties | XmlAttributes):
            refuse(
                "after the name of XMLELEMENT, write XMLNAMESPACES, then XMLATTRIBUTES, then the content",
                part,
            )
    names, values = _names_and_values(attributes, relation)
    expanded_names = set[str]()
    for attribute, where in zip(names, attributes, strict=True):
        expanded = _expanded(attribute, where, node)
        if attribute == "xmlns" or attribute.startswith("xmlns:"):
            refuse("XMLNAMESPACES declares namespaces: xmlns is no attribute", where)
        if expanded in expanded_names:
            refuse(f"two attributes are named {attribute}", where)
        expanded_names.add(expanded)
    arguments = []
    for part in (*values, *content):
        arguments.append((yield part))
    with at(node):
        return ELEMENT(_constant(" ".join(opening)), _constant(" ".join(names)), *arguments)


def forest(node: exp.Expr, relation: PlannedRelation) -> Reading:
    """XMLFOREST over a relation."""
    parts = only(node, "expressions")
    names, values = _names_and_values(parts, relation)
    for name, where in zip(names, parts, strict=True):
        _expanded(name, where, node)
    arguments = []
    for value in values:
        arguments.append((yield value))
    with at(node):
        return FOREST(_constant(" ".join(names)), *arguments)


def _constant(names: str) -> Expression:
    return fn.literal(STRING, names)


def _names_and_values(
    items: Iterable[exp.Expr], relation: PlannedRelation
) -> tuple[list[str], list[exp.Expr]]:
    """Names and values of a list with AS; the default name of a column is its declared name."""
    names, values = [], []
    for item in items:
        value, name = take(item, "this", "alias") if isinstance(item, exp.Alias) else (item, None)
        if name is not None:
            names.append(name.name)
        elif not isinstance(value, exp.Column) or isinstance(value.this, exp.Star):
            refuse("AS and a name are missing: only a column needs no name", value)
        else:
            column, table = value.this, value.args.get("table")
            field = relation.find(column, table, value) if relation.sees(column, table, value) else None
            names.append(field.name if field else column.name)
        values.append(value)
    return names, values


def _declared(node: exp.Expr) -> dict[str, str]:
    """The namespaces that an XMLELEMENT declares."""
    declared = namespaces_of((node.args.get("expressions") or ())[:1])
    for prefix, uri in declared.items():
        try:
            check_uri(uri)
        except UsageError as error:
            refuse(str(error), node.expressions[0])
        if not prefix:
            refuse("an element of XMLELEMENT has no default namespace: give it a prefix", node.expressions[0])
    return declared


def _expanded(name: str, where: exp.Expr, node: exp.Expr) -> str:
    """The expanded name of an element or attribute, by the namespaces of the XMLELEMENTs around it."""
    declared: dict[str, str] = {}
    outer: exp.Expr | None = node
    while outer is not None and not isinstance(outer, exp.Query):
        if isinstance(outer, exp.XMLElement):
            declared = _declared(outer) | declared
        outer = outer.parent
    with at(where):
        return expanded_name(name, declared, _REMEDY)
