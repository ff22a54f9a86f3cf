"""Feeds survive a round trip through XML, and queries and declarations print as valid SQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import xmlpunct
from tests.oracle.cql.feeds import canonical
from tests.oracle.cql.generate import Case
from tests.oracle.cql.text import Printer, document, statement
from tests.oracle.values import bag
from xmlpunct.engine.sql.planner.catalog import declared
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.punctuations.punctuation import Punctuation


def test_documents_read_back(tmp_path: Path) -> None:
    for seed in range(30):
        case = Case(seed)
        for name, input_ in case.inputs.items():
            path = tmp_path / "feed.xml"
            path.write_text(document(input_, case.feed), encoding="utf-8")
            written = [
                e for n, e in case.feed if n == name and not (isinstance(e, Punctuation) and e.is_everything)
            ]
            parsed = list(xmlpunct.parse(path, input_.schema, element=name))
            assert bag(canonical(t) for t in parsed if not isinstance(t, Punctuation)) == bag(
                canonical(t) for t in written if not isinstance(t, Punctuation)
            )
            assert [str(p) for p in parsed if isinstance(p, Punctuation) and not p.is_everything] == [
                str(p) for p in written if isinstance(p, Punctuation)
            ]


def test_queries_and_declarations_print() -> None:
    """A column name occurs in one SELECT only, so SQL needs no qualified names."""
    for seed in range(100):
        case = Case(seed)
        text = Printer(case.inputs).sql(case.query)
        aliases = [part.split(",")[0].split(" ")[0] for part in text.split(" AS c")[1:]]
        assert len(aliases) == len(set(aliases))
        for input_ in case.inputs.values():
            plain = replace(input_, name="s", stamp=None, change=None)
            text = statement(plain).replace("CREATE RELATION", "CREATE STREAM")
            (stream,) = declared(parse_statements(text), {}).values()
            assert stream.schema == input_.schema
