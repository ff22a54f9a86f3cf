"""Lateness against its definition, one tuple at a time."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tests.punctuations.test_promised import SCHEMA, TUPLES, punctuations
from xmlpunct import Punctuation, Slice, match
from xmlpunct.slice.lateness import _PIECE, Lateness, _pieces, late_reason

ELEMENTS = st.lists(TUPLES | punctuations(), max_size=30)


def schemes(t: tuple[object, ...], earlier: list[Punctuation]) -> list[str]:
    """The constrained attributes of each punctuation that matches a tuple, sorted."""
    return sorted(",".join(SCHEMA.names[i] for i in p.constrained) for p in earlier if match(t, p))


@given(ELEMENTS, st.sets(st.integers(0, 30)), st.integers(1, 3))
def test_a_tuple_is_late_after_a_punctuation_that_matches_it(
    elements: list[object], cuts: set[int], piece: int
) -> None:
    """For any division into slices, and any number of punctuations compared together."""
    earlier: list[Punctuation] = []
    expected, actual = [], []
    lateness = Lateness(SCHEMA)
    tuples: list[tuple[object, ...]] = []
    pending: list[Punctuation] = []
    before: list[int] = []
    with mock.patch("xmlpunct.slice.lateness._PIECE", piece):
        for i, element in enumerate([*elements, None]):
            if i in cuts or element is None:
                actual += lateness.judge(Slice(SCHEMA.frame(tuples), pending, before)).to_list()
                tuples, pending, before = [], [], []
            if isinstance(element, Punctuation):
                earlier.append(element)
                pending.append(element)
                before.append(len(tuples))
            elif isinstance(element, tuple):
                expected.append(next(iter(schemes(element, earlier)), None))
                tuples.append(element)
    assert actual == expected


def test_the_reason_shows_the_violated_scheme_with_the_tuples_values() -> None:
    row = {"a": 3, "d": None, "x": "one, two"}
    assert late_reason(SCHEMA, row, "a") == "late: <3, *, *> was closed before it"
    assert late_reason(SCHEMA, row, "a,x") == 'late: <3, *, "one, two"> was closed before it'
    assert late_reason(SCHEMA, row, "") == "late: <*, *, *> was closed before it"


def test_many_punctuations_at_one_position_do_not_enlarge_later_pieces() -> None:
    """Each punctuation is compared with all tuples of its piece, so a piece has few of the later punctuations."""
    ranges = [Punctuation.of(SCHEMA, a=f"[{i},{i + 1}]") for i in range(4 * _PIECE)]
    before = [0] * (2 * _PIECE) + [*range(1, 2 * _PIECE + 1)]
    tuples = SCHEMA.frame([(0, None, None)] * (2 * _PIECE))
    sizes = [len(punctuations) for _, punctuations in _pieces(Slice(tuples, ranges, before))]
    assert sizes == [2 * _PIECE, _PIECE, _PIECE]
