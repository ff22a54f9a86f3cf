"""The syntax of XML in SQL: XMLNAMESPACES, XMLELEMENT, XMLATTRIBUTES, XMLFOREST, XMLAGG."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from xmlpunct.schema.column_list_parser import ColumnListParser


class XmlAgg(exp.Expression, exp.AggFunc):
    """XMLAGG(this [ORDER BY ...])."""

    _sql_names: ClassVar = ["XMLAGG"]
    arg_types: ClassVar = {"this": True}


class XmlAttributes(exp.Expression, exp.Func):
    """XMLATTRIBUTES(expression [AS name], ...)."""

    _sql_names: ClassVar = ["XMLATTRIBUTES"]
    arg_types: ClassVar = {"expressions": True}


class XmlForest(exp.Expression, exp.Func):
    """XMLFOREST(expression [AS name], ...)."""

    _sql_names: ClassVar = ["XMLFOREST"]
    arg_types: ClassVar = {"expressions": True}


class XmlParser(ColumnListParser):
    """Reads them."""

    FUNCTION_PARSERS: ClassVar = {
        **ColumnListParser.FUNCTION_PARSERS,
        "XMLAGG": lambda self: XmlAgg(this=self._parse_lambda() or self._fail("XMLAGG needs an argument")),
        "XMLATTRIBUTES": lambda self: XmlAttributes(expressions=self._parse_csv(self._parse_named)),
        "XMLFOREST": lambda self: XmlForest(expressions=self._parse_csv(self._parse_named)),
    }

    def _parse_xml_element(self) -> exp.XMLElement:
        """NAME name [, XMLNAMESPACES(...)] [, XMLATTRIBUTES(...)] [, content...], inside its parentheses."""
        name = self._parse_id_var(any_token=True) if self._match_text_seq("NAME") else None
        if name is None:
            self._fail("XMLELEMENT(NAME name, XMLATTRIBUTES(expression AS name, ...), content, ...)")
        parts = self._parse_csv(self._parse_xml_part) if self._match(TokenType.COMMA) else []
        return exp.XMLElement(this=name, expressions=parts)

    def _parse_xml_part(self) -> exp.Expr | None:
        return self._parse_namespaces() or self._parse_disjunction()

    def _parse_named(self) -> exp.Expr:
        """An expression, perhaps with AS and a name."""
        expression = self._parse_disjunction() or self._fail("an expression")
        if not self._match(TokenType.ALIAS):
            return expression
        return exp.Alias(this=expression, alias=self._parse_id_var(any_token=True) or self._fail("a name"))
