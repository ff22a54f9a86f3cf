"""Table 1 of the paper, with its names in snake case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xmlpunct.punctuations.punctuation import Punctuation, Tuple, combine, match


def nomatch(t: Tuple, p: Punctuation) -> bool:
    """Not `match`."""
    return not match(t, p)


def set_match(t: Tuple, ps: Iterable[Punctuation]) -> bool:
    """Whether ``t`` matches any of ``ps``."""
    return any(match(t, p) for p in ps)


def set_nomatch(t: Tuple, ps: Iterable[Punctuation]) -> bool:
    """Whether ``t`` matches none of ``ps``."""
    return not set_match(t, ps)


def set_match_ts(ts: Iterable[Tuple], ps: Sequence[Punctuation]) -> list[Tuple]:
    """The tuples of ``ts`` that match any of ``ps``."""
    return [t for t in ts if set_match(t, ps)]


def set_nomatch_ts(ts: Iterable[Tuple], ps: Sequence[Punctuation]) -> list[Tuple]:
    """The tuples of ``ts`` that match none of ``ps``."""
    return [t for t in ts if set_nomatch(t, ps)]


def set_nomatch_ps(ts: Sequence[Tuple], ps: Iterable[Punctuation]) -> list[Punctuation]:
    """The punctuations of ``ps`` that no tuple of ``ts`` matches."""
    return [p for p in ps if not any(match(t, p) for t in ts)]


def set_combine(ps1: Iterable[Punctuation], ps2: Sequence[Punctuation]) -> list[Punctuation]:
    """All combinations of one of ``ps1`` and one of ``ps2`` that are not psi."""
    return [c for p in ps1 for q in ps2 if (c := combine(p, q)) is not None]
