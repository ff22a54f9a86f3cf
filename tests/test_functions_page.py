"""docs/functions.md is current and lists every function."""

from __future__ import annotations

from tests.functions_page import PAGE, page
from xmlpunct.expressions.expression import FUNCTIONS
from xmlpunct.operators.group import aggregate


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.functions_page writes it"


def test_every_record_has_its_entry() -> None:
    text = page()
    for record in FUNCTIONS.values():
        if record.name not in ("XMLTEXT", "XMLATTRIBUTE", "SINGLE"):  # these cannot be called in SQL
            assert record.doc is not None, record.name
            assert record.doc.form.replace("|", "\\|") in text
            assert record.doc.example, record.name
    for function in aggregate.FUNCTIONS.values():
        assert f"`{function.doc.form}`" in text
