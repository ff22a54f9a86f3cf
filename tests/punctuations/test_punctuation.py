"""Punctuations: the paper's functions against brute force over all tuples of small spaces, and their text."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import table_1
from tests.strategies import LETTER, SMALL, SPACES, TRICKY, Space
from xmlpunct.base.errors import PatternError, SchemaError
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers, from_frame, match, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types import INT, STRING
from xmlpunct.types.pattern import WILDCARD, constant
from xmlpunct.types.pattern_text import parse_pattern

every_space = pytest.mark.parametrize("space", SPACES, ids=str)
TEMP = Schema.parse("sid STRING, hour INT, min INT, temp INT")


@every_space
@given(data=st.data())
def test_combine_matches_what_both_match(space: Space, data: st.DataObject) -> None:
    p, q = data.draw(space.punctuations()), data.draw(space.punctuations())
    combined = combine(p, q)
    assert combined == combine(q, p)
    for t in space.tuples():
        assert (combined is not None and match(t, combined)) == (match(t, p) and match(t, q))


@every_space
@given(data=st.data())
def test_covers_is_inclusion_among_the_schema_s_tuples(space: Space, data: st.DataObject) -> None:
    p, q = data.draw(space.punctuations()), data.draw(space.punctuations())
    assert covers(p, q) == all(match(t, p) for t in space.tuples() if match(t, q))
    assert covers(p, p)
    assert covers(Punctuation.everything(space.schema), p)


@every_space
@given(data=st.data())
def test_table_1(space: Space, data: st.DataObject) -> None:
    several = st.lists(space.punctuations(), max_size=4)
    ps, qs = data.draw(several), data.draw(several)
    ts = data.draw(st.lists(st.sampled_from(space.tuples()), max_size=8))
    hit = {i: any(match(t, p) for p in ps) for i, t in enumerate(ts)}
    assert table_1.set_match_ts(ts, ps) == [t for i, t in enumerate(ts) if hit[i]]
    assert table_1.set_nomatch_ts(ts, ps) == [t for i, t in enumerate(ts) if not hit[i]]
    assert table_1.set_nomatch_ps(ts, ps) == [p for p in ps if all(table_1.nomatch(t, p) for t in ts)]
    for i, t in enumerate(ts):
        assert table_1.set_match(t, ps) == hit[i]
        assert table_1.set_nomatch(t, ps) == (not hit[i])
    combined = table_1.set_combine(ps, qs)
    for t in space.tuples():
        assert table_1.set_match(t, combined) == (table_1.set_match(t, ps) and table_1.set_match(t, qs))


@every_space
@given(data=st.data())
def test_text_frames_and_pickles_read_back(space: Space, data: st.DataObject) -> None:
    ps = data.draw(st.lists(space.punctuations(), max_size=4))
    assert [Punctuation.parse(space.schema, str(p)) for p in ps] == ps
    assert from_frame(space.schema, to_frame(space.schema, ps)) == ps
    assert to_frame(space.schema, ps).columns == list(space.schema.names)
    unpickled = pickle.loads(pickle.dumps(ps))
    assert unpickled == ps
    assert list(map(hash, unpickled)) == list(map(hash, ps))
    assert [p.schema for p in unpickled] == [p.schema for p in ps]
    for p in ps:
        assert Punctuation.of(space.schema, **p.as_dict()) == p
        assert p.is_everything == (p == Punctuation.everything(space.schema))
        assert not (p.is_empty and any(match(t, p) for t in space.tuples()))
        assert [space.schema.names[i] for i in p.constrained] == list(p.as_dict())


@given(st.lists(TRICKY, min_size=2, max_size=2))
def test_any_string_reads_back_from_a_whole_punctuation(texts: list[str]) -> None:
    schema = Schema.parse("a STRING, b STRING")
    p = Punctuation.of(schema, a=constant(STRING, texts[0]), b=constant(STRING, texts[1]))
    assert Punctuation.parse(schema, str(p)) == p
    assert Punctuation.parse(schema, f"\n {p}\t") == p
    assert Punctuation.of(schema, **p.as_dict()) == p
    assert from_frame(schema, to_frame(schema, [p])) == [p]
    assert match(tuple(texts), p)


def test_parse_and_print() -> None:
    p = Punctuation.parse(TEMP, '<*,[17,20),{ 0,  30 } , *>')  # fmt: skip
    assert str(p) == "<*, [17,19], {0,30}, *>"
    assert repr(p) == "Punctuation(<*, [17,19], {0,30}, *>)"
    assert p.as_dict() == {"hour": "[17,19]", "min": "{0,30}"}
    assert p.constrained == (1, 2)
    assert match(("S1", 18, 30, 70), p)
    assert not match(("S1", 18, None, 70), p)


def test_of() -> None:
    p = Punctuation.of(TEMP, sid="S1", hour=5, min=parse_pattern(INT, "(,3)"))
    assert str(p) == "<S1, 5, (,2], *>"
    assert str(Punctuation.of(TEMP)) == "<*, *, *, *>"
    assert Punctuation.of(TEMP).is_everything
    with pytest.raises(SchemaError, match="hours"):
        Punctuation.of(TEMP, hours=5)
    with pytest.raises(PatternError, match="hour") as caught:
        Punctuation.of(TEMP, hour=5.0)
    assert caught.value.attribute == "hour"


def test_equality_is_that_of_canonical_forms() -> None:
    same = [
        Punctuation.parse(TEMP, f"<*, {t}, *, *>")
        for t in ("[17,20)", "(16,19]", "{17,18,19}", "{19,18,17,17}")
    ]
    assert len(set(same)) == 1
    assert same[0] != Punctuation.parse(TEMP, "<*, *, [17,19], *>")
    assert same[0] != "<*, [17,19], *, *>"
    assert Punctuation.parse(TEMP, "<*, (,), *, *>") != Punctuation.everything(TEMP)


def test_rebase_moves_patterns() -> None:
    p = Punctuation.parse(TEMP, "<S1, 5, *, 70>")
    small = Schema.parse("temp INT, x INT, sid STRING")
    moved = p.rebase(small, [3, None, 0])
    assert str(moved) == "<70, *, S1>"
    assert moved.schema is small


WRONG = [
    ("", 0, None),
    ("*, *, *, *", 0, None),
    ("<*, *, *, *", 0, None),
    ("<", 0, None),
    ("<*, *, *>", 1, None),
    ("<*, *, *, *, *>", 1, None),
    ("<*, [1,x], *, *>", 7, "hour"),
    ("  <*, [1,x], *, *>", 9, "hour"),
    ("<*,,*,*>", 3, "hour"),
    ("<, *, *, *>", 1, "sid"),
    ("<*, *, *, {1,}>", 13, "temp"),
    ("<*, *, *, 1.5>", 10, "temp"),
    ('<"S1"x, *, *, *>', 1, "sid"),
]


@pytest.mark.parametrize(("text", "position", "attribute"), WRONG)
def test_a_wrong_punctuation_says_where(text: str, position: int, attribute: str | None) -> None:
    with pytest.raises(PatternError) as caught:
        Punctuation.parse(TEMP, text)
    assert (caught.value.text, caught.value.position, caught.value.attribute) == (text, position, attribute)


def test_covers_reasons_with_not_null_and_domains() -> None:
    schema = Space.of(a=(SMALL, "[0,3]"), b=(LETTER, "NOT NULL"), c=SMALL).schema

    def p(text: str) -> Punctuation:
        return Punctuation.parse(schema, f"<{text}>")

    assert covers(p("[0,3], *, *"), p("*, *, *"))
    assert covers(p("*, (,), *"), p("*, *, *"))
    assert not covers(p("*, *, (,)"), p("*, *, *"))
    assert not covers(p("[0,2], *, *"), p("*, *, *"))
    assert covers(p("[0,2], *, *"), p("[-9,2], *, *"))
    assert covers(p("7, *, *"), p("{9,11}, *, *"))  # neither matches any tuple
    assert p("[0,3], *, *") != p("*, *, *")
    assert WILDCARD.matches(None)
