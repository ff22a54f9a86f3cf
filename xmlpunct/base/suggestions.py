"""Suggestions for misspelled names in messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar of ``names``, if one is similar enough.

    >>> did_you_mean("titel", ["year", "title"]), did_you_mean("x", ["year", "title"])
    ('; did you mean title?', '')
    """
    most = 1 if len(name) < 5 else 2
    lower = name.lower()
    if len(name) < 3:  # only an exchange: any two short names are similar
        names = [other for other in names if sorted(other.lower()) == sorted(lower)]
    distances = [(spelling_distance(lower, other.lower(), most), other) for other in dict.fromkeys(names)]
    distance, nearest = min(distances, default=(most + 1, ""), key=lambda pair: pair[0])
    return f"; did you mean {nearest}?" if distance <= most and nearest != name else ""


def spelling_distance(a: str, b: str, most: int) -> int:
    """The number of inserted, deleted, replaced and exchanged letters; ``most`` + 1 if there are more.

    >>> spelling_distance("form", "from", 2), spelling_distance("selec", "select", 2), spelling_distance("a", "four", 2)
    (1, 1, 3)
    """
    if abs(len(a) - len(b)) > most:
        return most + 1
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                cost = min(cost, before_last[j - 1] + 1)
            row.append(cost)
        before_last, last = last, row
    return min(last[-1], most + 1)
