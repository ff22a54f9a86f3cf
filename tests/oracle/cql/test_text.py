"""A feed as XML reads back as itself."""

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
        for name, given in case.inputs.items():
            path = tmp_path / "feed.xml"
            path.write_text(document(given, case.feed), encoding="utf-8")
            own = [
                e for n, e in case.feed if n == name and not (isinstance(e, Punctuation) and e.is_everything)
            ]
            found = list(xmlpunct.parse(path, given.schema, element=name))
            assert bag(canonical(t) for t in found if not isinstance(t, Punctuation)) == bag(
                canonical(t) for t in own if not isinstance(t, Punctuation)
            )
            assert [str(p) for p in found if isinstance(p, Punctuation) and not p.is_everything] == [
                str(p) for p in own if isinstance(p, Punctuation)
            ]


def test_queries_and_declarations_print() -> None:
    """One column's name is in one SELECT only, so that SQL needs no qualified names."""
    for seed in range(100):
        case = Case(seed)
        text = Printer(case.inputs).sql(case.query)
        made = [part.split(",")[0].split(" ")[0] for part in text.split(" AS c")[1:]]
        assert len(made) == len(set(made))
        for given in case.inputs.values():
            plain = replace(given, name="s", stamp=None, change=None)
            text = statement(plain).replace("CREATE RELATION", "CREATE STREAM")
            (stream,) = declared(parse_statements(text), {}).values()
            assert stream.schema == given.schema
