"""The syntax of XML in SQL: XMLNAMESPACES, XMLELEMENT, XMLATTRIBUTES, XMLFOREST, XMLAGG."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.engine.sql.syntax.nesting import InsideOut


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


class XmlParser(InsideOut):
    """Reads them."""

    FUNCTION_PARSERS: ClassVar = {
        **InsideOut.FUNCTION_PARSERS,
        "XMLAGG": lambda self: XmlAgg(this=self._parse_lambda() or self._fail("XMLAGG wants an argument")),
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

    def _parse_namespaces(self) -> exp.Properties | None:
        """XMLNAMESPACES('uri' AS prefix, DEFAULT 'uri'), if that comes next."""
        token = self._curr
        is_open = self._next and self._next.token_type == TokenType.L_PAREN
        if not (is_open and token and token.text.upper() == "XMLNAMESPACES"):
            return None
        self._advance()
        found = exp.Properties(expressions=self._parse_wrapped_csv(self._parse_namespace))
        found.meta.update(start=token.start, end=self._prev.end)
        return found

    def _parse_namespace(self) -> exp.Expr:
        token = self._curr
        is_default = self._match_text_seq("DEFAULT")
        uri = self._parse_string() or self._fail("XMLNAMESPACES('uri' AS prefix, DEFAULT 'uri')")
        if not is_default and not self._match_text_seq("AS"):
            self._fail("AS and a prefix")
        prefix = None if is_default else self._parse_id_var(any_token=True) or self._fail("a prefix")
        found = exp.Property(this=exp.Literal.string(prefix.name if prefix else ""), value=uri)
        found.meta.update(start=token.start, end=self._prev.end)
        return found

    def _fail(self, message: str, token: Token | None = None) -> NoReturn:
        self.raise_error(message, token or self._curr or self._prev)
        raise AssertionError(message)  # not reached: errors are raised at once
