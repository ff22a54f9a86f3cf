"""SQL's constructors of XML. Their results are self-contained: text is escaped, and prefixes are declared.

Names are constants: the name of an element with its namespace declarations (``g:a xmlns:g="u"``); the names of
attributes, and of the elements of a forest, separated by spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from xmlpunct.base.escapes import IN_ATTRIBUTE, IN_TEXT, UNHOLDABLE, escaped
from xmlpunct.expressions.expression import (
    Call,
    CallText,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Literal,
    Notation,
    comma_separated,
)
from xmlpunct.expressions.non_null import of_any, of_none
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import STRING, XML

MOST = 1000
"""The greatest number of attributes plus parts of an element."""


def _constant(record: Function, argument: Expression) -> str:
    """The value of an argument with names. Raises ValueError for other arguments."""
    if not isinstance(argument, Literal) or argument.type is not STRING or argument.value is None:
        raise ValueError(f"{record.name} needs names")
    return str(argument.value)


def _names(call: Call, position: int) -> list[str]:
    argument = call.args[position]
    assert isinstance(argument, Literal)
    return str(argument.value).split()


def _content(record: Function, argument: Expression) -> Expression:
    """An argument converted to XML."""
    _refuse_array(record.name, argument)
    return argument if argument.type is XML else TEXT(argument)


def _refuse_array(name: str, argument: Expression) -> None:
    if isinstance(argument.type, ArrayType):
        raise ValueError(f"{name} does not take an array: UNNEST it, and gather its items with XMLAGG")


def _type_element(record: Function, args: tuple[Expression, ...]) -> Expression:
    _constant(record, args[0])
    last = 2 + len(_constant(record, args[1]).split())
    if last > len(args):
        raise ValueError(f"{record.name} needs a value for each name")
    attributes = [VALUE(a) for a in args[2:last]]
    return record.call(XML, *args[:2], *attributes, *(_content(record, a) for a in args[last:]))


def _type_forest(record: Function, args: tuple[Expression, ...]) -> Expression:
    if len(_constant(record, args[0]).split()) != len(args) - 1:
        raise ValueError(f"{record.name} needs a value for each name")
    return record.call(XML, args[0], *(_content(record, a) for a in args[1:]))


def _type_text(record: Function, args: tuple[Expression, ...]) -> Expression:
    (argument,) = args
    _refuse_array("an attribute" if record is VALUE else "XML", argument)
    if argument.type is XML:
        raise ValueError("an attribute cannot contain XML")
    return record.call(XML, argument)


def _escape(call: Call, value: pl.Expr, references: Mapping[str, str]) -> FunctionResult:
    type_ = call.args[0].type
    if type_ is not STRING:
        return FunctionResult(type_.format_column(value))
    forbidden = value.str.contains(UNHOLDABLE)
    return FunctionResult(escaped(value, references), [(forbidden, "a character that XML cannot hold")])


def _element(call: Call, *operands: pl.Expr) -> FunctionResult:
    opening, names = call.args[0], _names(call, 1)
    assert isinstance(opening, Literal)
    values, content = operands[2 : 2 + len(names)], operands[2 + len(names) :]
    attributes = [
        pl.concat_str(pl.lit(f' {name}="'), value, pl.lit('"'))
        for name, value in zip(names, values, strict=True)
    ]
    head, tail = pl.lit(f"<{opening.value}"), pl.lit(f"</{_names(call, 0)[0]}>")
    return FunctionResult(pl.concat_str(head, *attributes, pl.lit(">"), *content, tail, ignore_nulls=True))


def _forest(call: Call, _: pl.Expr, *values: pl.Expr) -> FunctionResult:
    elements = [
        pl.concat_str(pl.lit(f"<{name}>"), value, pl.lit(f"</{name}>"))
        for name, value in zip(_names(call, 0), values, strict=True)
    ]
    exists = pl.any_horizontal(value.is_not_null() for value in values)
    return FunctionResult(pl.when(exists).then(pl.concat_str(*elements, ignore_nulls=True)))


def _with_names(names: Sequence[str], values: Sequence[Expression]) -> CallText:
    """The text of values with their names."""
    pieces: CallText = []
    for name, value in zip(names, values, strict=True):
        pieces += [", ", value, f' AS "{name}"']
    return pieces[1:]


def _write_element(call: Call) -> CallText:
    names = _names(call, 1)
    pieces: CallText = [f'XMLELEMENT(NAME "{_names(call, 0)[0]}"']
    if names:
        pieces += [", XMLATTRIBUTES(", *_with_names(names, call.args[2 : 2 + len(names)]), ")"]
    content = call.args[2 + len(names) :]
    return [*pieces, *([", "] if content else []), *comma_separated(content), ")"]


_PLAIN = Notation(lambda call: [call.args[0]])
"""The notation of conversions that SQL does not write."""

TEXT = Function(
    "XMLTEXT", _type_text, lambda call, value: _escape(call, value, IN_TEXT), notation=_PLAIN, arity=(1, 1)
)
VALUE = Function(
    "XMLATTRIBUTE", _type_text, lambda call, value: _escape(call, value, IN_ATTRIBUTE), notation=_PLAIN,
    arity=(1, 1), takes_whole=True)  # fmt: skip
ELEMENT = Function(
    "XMLELEMENT", _type_element, _element, notation=Notation(_write_element), arity=(2, 2 + MOST),
    nullable=lambda args: False, non_null=of_none, takes_whole=True,
    doc=Doc("XMLELEMENT(NAME name [, XMLATTRIBUTES(x AS name, ...)], content, ...)",
            "An XML element. Nulls are left out.",
            "XMLELEMENT(NAME \"a\", XMLATTRIBUTES(1 AS \"n\"), 'x')"))  # fmt: skip
FOREST = Function(
    "XMLFOREST", _type_forest, _forest,
    notation=Notation(lambda call: ["XMLFOREST(", *_with_names(_names(call, 0), call.args[1:]), ")"]),
    nullable=lambda args: all(a.nullable for a in args[1:]), non_null=lambda call, args: of_any(call, args[1:]),
    arity=(2, 1 + MOST), takes_whole=True,
    doc=Doc("XMLFOREST(x AS name, ...)",
            "An XML element for each x that is not null.",
            "XMLFOREST(1 AS a, 2 AS b)"))  # fmt: skip
