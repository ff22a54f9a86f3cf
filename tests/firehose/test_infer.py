"""What a sample says: the element, the columns, their types. Every tuple of the sample fits what was inferred."""

from __future__ import annotations

import io
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.firehose.test_sniff import Once
from xmlpunct import Reject, Schema, SourceError, slices
from xmlpunct.engine.sql.declaration import column_list
from xmlpunct.firehose import Source
from xmlpunct.firehose.infer import infer, take_sample
from xmlpunct.firehose.inferred import Inferred

PUNCT = "http://www.cse.ogi.edu/dot/niagara/punct"


def inferred(xml: str, element: str | None = None, size: int = 2**20) -> Inferred:
    return infer(take_sample(Source.of(xml.encode()), size)[0], element)


def columns(xml: str, element: str | None = None) -> str:
    return column_list(inferred(xml, element).schema)


@pytest.mark.parametrize(
    ("xml", "element"),
    [
        ("<osm><node id='1'><tag k='a'/><tag k='b'/></node><node id='2'/><way id='3'/></osm>", "node"),
        (
            "<feed><link r='1'/><link r='2'/>" + "<entry><id>1</id><t/><link r='1'/></entry>" * 3 + "</feed>",
            "entry",
        ),
        ("<s>" + f"<hour n='1'>{'<t><a/></t>' * 30}</hour>" * 2 + "</s>", "t"),
        ("<s>" + "<one><t><a/></t></one>" * 3 + "</s>", None),
        ("<s>" + "<one><t><a/></t><t><a/></t></one>" * 3 + "</s>", "t"),
        ("<s><a x='1'/><b x='1'/><b x='1'/><b x='1'/><a x='1'/></s>", "b"),
        (f"<s xmlns:p='{PUNCT}'>" + "<p:t><a>1</a></p:t>" * 9 + "<t><a>1</a></t><t><a>1</a></t></s>", "t"),
        ("<s xmlns='urn:x'><t a='1'/><t a='1'/></s>", "{urn:x}t"),
        ("<s><t a='1'/><t a='1'/></s><?xml version='1.0'?><s><u a='1'/><u a='1'/><u a='1'/></s>", "u"),
        ("<s><t><t a='1'/><t a='2'/></t><t a='3'/></s>", "t"),
    ],
)
def test_the_element_is_the_outermost_that_repeats_and_is_no_container(xml: str, element: str | None) -> None:
    if element is None:
        assert inferred(xml).element in ("one", "t")
    else:
        assert inferred(xml).element == element


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", " -2 ", "0"], "INT"),
        (["1", "007"], "STRING"),
        (["1", "+2"], "STRING"),
        (["1", "2.5"], "DOUBLE"),
        (["1e5", "NaN", "INF", "1"], "DOUBLE"),
        (["1.2345678901234567"], "STRING"),
        ([str(2**63)], "STRING"),
        (["true", "false"], "BOOLEAN"),
        (["true", "1"], "STRING"),
        (["2026-01-31"], "DATE"),
        (["2026-02-30"], "STRING"),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00.5+02:00"], "TIMESTAMP"),
        (["2026-01-31", "2026-01-31T10:00:00Z"], "STRING"),
        (["1", ""], "STRING"),
        (["a"], "STRING"),
    ],
)
def test_a_type_holds_the_whole_of_every_value(values: list[str], type_: str) -> None:
    rows = "".join(f"<t><a>{value}</a></t>" for value in values)
    assert columns(f"<s>{rows}</s>", "t") == f"a {type_} NOT NULL"


def test_what_no_column_can_hold_is_told() -> None:
    xml = (
        "<s xmlns:o='urn:o'><t o:x='1' b='1'>text<o:c><d/></o:c><e>m<f/></e><g/><g><h/></g><t/></t>"
        "<t b='1'><i/></t></s>"
    )
    found = inferred(xml)
    assert column_list(found.schema) == "b INT NOT NULL PATH '@b', i STRING"
    assert found.left_out == (
        "@x in the namespace urn:o",
        "c in the namespace urn:o",
        "<t> inside another",
        "the text of the element itself",
        "e, which mixes text and elements",
        "g, which comes up to 2 times in one tuple",
    )


def test_the_tuple_that_the_sample_cuts_off_does_not_count() -> None:
    xml = "<s><t><a>1</a></t><t><a>2</a></t><t><b>x</b><a>" + 100 * "x" + "</a></t></s>"
    found = inferred(xml, size=60)
    assert (column_list(found.schema), found.tuples) == ("a INT NOT NULL", 2)


def test_many_names_take_no_time() -> None:
    """Each is looked at once."""
    names = [f"<n{n} a='1'><b/></n{n}>" for n in range(10_000)]
    assert inferred(f"<s>{''.join(names + names)}</s>").element == "n0"


def test_too_many_columns_are_refused() -> None:
    xml = "<s><t>" + "".join(f"<a{n}/>" for n in range(1001)) + "</t></s>"
    with pytest.raises(SourceError, match="more than 1,000 different places"):
        inferred(xml, "t")


@pytest.mark.parametrize("kind", [io.BytesIO, Once])
def test_the_sample_is_not_lost(kind: type) -> None:
    xml = b"<s><t a='1'/><t a='2'/></s>"
    sample, source = take_sample(Source.of(kind(xml)), 20)
    assert infer(sample, "t").tuples == 1
    found = slices(source, Schema.parse("a INT PATH '@a'"), element="t")
    assert [row for part in found for row in part.tuples.rows()] == [(1,), (2,)]


NAMES = st.sampled_from(["a", "A", "a_b", "b", "group", "Date", "x-y", "é", "xmlns.", "if", "count"])
TEXTS = st.sampled_from(
    ["", " ", "1", "01", "-5", "1.5", "true", "2026-01-01", "2026-01-01T00:00:00Z", "a&b'", "1e400"]
)


@st.composite
def elements(draw: st.DrawFn, name: str, depth: int) -> str:
    attributes = draw(st.dictionaries(NAMES, TEXTS, max_size=2))
    shown = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    inside = escape(draw(TEXTS))
    if depth and draw(st.booleans()):
        inside = "".join(draw(elements(child, depth - 1)) for child in draw(st.lists(NAMES, max_size=3)))
    return f"<{name}{shown}>{inside}</{name}>"


@given(st.lists(elements("t", 2), min_size=1, max_size=4), st.sampled_from(["", " xmlns='urn:x'"]))
def test_every_tuple_of_the_sample_fits(tuples: list[str], namespace: str) -> None:
    xml = f"<s{namespace}>{''.join(tuples)}</s>"
    element = "{urn:x}t" if namespace else "t"
    try:
        found = inferred(xml, element)
    except SourceError:  # there is nothing that could be a column
        reject()
    schema = Schema.parse(column_list(found.schema))
    assert schema == found.schema
    rejects: list[Reject] = []
    parts = list(slices(xml.encode(), schema, element=found.element, on_reject=rejects.append))
    assert (rejects, sum(part.tuples.height for part in parts)) == ([], len(tuples))
