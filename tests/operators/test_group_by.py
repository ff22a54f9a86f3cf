"""group-by: a result is released exactly when its group is closed, with the punctuations that close groups."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.operators.harness import check_table, drive_twice, give, probes
from tests.operators.test_sort import BESIDE, conceivable
from tests.strategies import DAY, FLAG, LETTER, MONEY, REAL, SMALL, SPECIAL, Pool, Space, streams
from xmlpunct.operators import Aggregate, GroupBy
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types import INT, decimal

NUMERIC = ("COUNT", "SUM", "AVG", "MIN", "MAX")
Asked = tuple[str, str | None, bool]

WIDE = Pool("wide int", INT, (-(2**62), 2**62), (-(2**62), 0, 2**62, 2**63 - 1))
WIDE_MONEY = Pool(
    "wide decimal",
    decimal(38, 0),
    (Decimal(6 * 10**37),),
    tuple(Decimal(i * 10**37) for i in (-9, -6, 0, 4, 6)),
)

BESIDE[WIDE] = (-(2**63), -1, 1, 2**62 + 1)
BESIDE[WIDE_MONEY] = tuple(Decimal(i * 10**37 + 1) for i in (-9, -6, 0, 4, 6))

CASES = (
    (Space.of(k=SMALL, v=SMALL), ("k",)),
    (Space.of(k=LETTER, v=REAL), ("k",)),
    (Space.of(k=REAL, v=MONEY), ("k",)),
    (Space.of(k=SPECIAL, v=SPECIAL), ("k",)),
    (Space.of(v=SPECIAL), ()),
    (Space.of(j=FLAG, v=DAY, k=(SMALL, "[0,3]")), ("k", "j")),
    (Space.of(k=(SMALL, "NOT NULL"), v=(SMALL, "[0,3]")), ("k",)),
    (Space.of(k=FLAG, v=WIDE), ("k",)),
    (Space.of(k=FLAG, v=WIDE_MONEY), ("k",)),
    (Space.of(v=SMALL, w=LETTER), ()),
    (Space.of(v=WIDE, w=(FLAG, "NOT NULL")), ()),
    (Space.of(v=SMALL), ("v",)),
    (Space.of(k=SMALL, u=(FLAG, "NOT NULL"), v=(FLAG, "NOT NULL")), ("k",)),
)


def asked(space: Space) -> st.SearchStrategy[list[Asked]]:
    """Random aggregates over any columns, keys included."""
    choices: list[Asked] = [("COUNT", None, False)]
    for a in space.schema:
        functions = (
            NUMERIC
            if a.type.name in ("INT", "DOUBLE") or "DECIMAL" in a.type.name
            else ("COUNT", "MIN", "MAX")
        )
        choices += [(f, a.name, distinct) for f in functions for distinct in (False, True)]
    return st.lists(st.sampled_from(choices), min_size=1, max_size=4)


def make(schema: Schema, keys: tuple[str, ...], aggregates: list[Asked]) -> GroupBy:
    return GroupBy(schema, keys, [Aggregate(f, a, d, f"r{i}") for i, (f, a, d) in enumerate(aggregates)])


@pytest.mark.parametrize(("space", "keys"), CASES, ids=str)
@given(data=st.data())
def test_against_the_oracle(space: Space, keys: tuple[str, ...], data: st.DataObject) -> None:
    stream, aggregates = data.draw(streams(space, most=20)), data.draw(asked(space))
    key_pools = tuple(space.pools[space.schema.index(k)] for k in keys)
    key_space = Space(Schema.of(space.schema[k] for k in keys), key_pools)
    outcomes = drive_twice(
        data,
        lambda: make(space.schema, keys, aggregates),
        oracle.group_by(space.schema, keys, aggregates, conceivable(space)),
        [stream],
        probes(key_space, len(aggregates)),
        spare_rows=0 if keys else 1,
    )
    assert outcomes[0].rejected == outcomes[1].rejected


TEMP = Schema.parse("sid STRING, hour INT, temp INT")


def maximum(schema: Schema = TEMP) -> GroupBy:
    return GroupBy(schema, ("hour",), [Aggregate("MAX", "temp", False, "m")])


def test_releases_a_group_when_it_is_closed_not_before_not_after() -> None:
    operator = maximum()
    check_table(
        operator,
        """
        S1 4 70; S1 5 71; S2 5 69   ->
        S2 4 73                     ->
        P(*, 4, *)                  -> 4 73; P(4, *)
        S1 5 75                     ->
        P(*, [5,7], *)              -> 5 75; P([5,7], *)
        S1 8 60; P(*, 8, *)         -> 8 60; P(8, *)
        """,
    )
    assert operator.state.rows == 0


def test_a_half_closed_group_is_open() -> None:
    """MAX at hour 5 is not final when only one sensor has closed the hour."""
    check_table(
        maximum(),
        """
        S1 5 70                 ->
        P(S1, 5, *)             ->
        S2 5 80                 ->
        P(S2, 5, *)             ->
        P(*, 5, [0,100])        ->
        S3 5 101                ->
        P(*, 5, *)              -> 5 101; P(5, *)
        """,
    )


def test_punctuations_on_other_attributes_close_nothing() -> None:
    check_table(
        maximum(),
        """
        S1 5 70                 ->
        P(*, *, [60,80])        ->
        P(S1, *, *)             ->
        P((,), *, (,))          ->
        P(*, (,), *)            -> 5 70; P((,), *)
        """,
    )


def test_what_closes_a_not_null_attribute_is_as_good_as_a_star() -> None:
    schema = Schema.parse("sid STRING NOT NULL, hour INT, temp INT CHECK (temp BETWEEN 0 AND 99)")
    check_table(
        maximum(schema),
        """
        S1 5 70; S1 6 60        ->
        P((,), 5, [0,98])       ->
        P((,), 5, [0,99])       -> 5 70; P(5, *)
        P(["",), 6, [-1,100])   -> 6 60; P(6, *)
        """,
    )


def test_the_null_group_ends_with_the_stream() -> None:
    check_table(
        maximum(),
        """
        S1 null 70; S1 5 null   ->
        P(*, (,), *)            -> 5 null; P((,), *)
        S2 null 71              ->
        P(*, *, *)              -> null 71; P(*, *)
        """,
    )


NO_KEYS = [Aggregate("COUNT", None, False, "n"), Aggregate("SUM", "temp", False, "s"),
           Aggregate("MAX", "temp", True, "m"), Aggregate("AVG", "temp", True, "a")]  # fmt: skip


DOMAIN = Schema.parse("hour INT, sid STRING CHECK (sid IN ('S1', 'S2', 'S3'))")


def test_distinct_values_are_final_once_all_open_values_have_arrived() -> None:
    operator = GroupBy(DOMAIN, ("hour",), [Aggregate("COUNT", "sid", True, "n")])
    check_table(
        operator,
        """
        5 S1; 6 S1; 5 S2        ->
        5 S3                    -> 5 3; P(5, *)
        5 S1                    ->
        P(6, S2)                ->
        P(*, {S2,S3})           -> 6 1; P(6, *)
        7 S1                    -> 7 1; P(7, *)
        P([5,7], *)             -> P([5,7], *)
        8 S1; P(8, *)           -> 8 1; P(8, *)
        """,
    )
    assert operator.state.rows == 0


def test_without_keys_the_final_result_is_the_last() -> None:
    operator = GroupBy(
        DOMAIN, (), [Aggregate("COUNT", "sid", True, "n"), Aggregate("MAX", "hour", False, "m")]
    )
    check_table(
        operator,
        """
        5 S1; 6 S2              ->
        P((7,), *)              ->
        7 S1                    ->
        P(*, S3)                -> 2 7; P(*, *)
        7 S2                    ->
        P(*, *)                 ->
        """,
    )
    assert operator.state.rows == 0


def test_aggregates_of_keys_are_final_at_once() -> None:
    check_table(
        GroupBy(TEMP, ("hour",), [Aggregate("MAX", "hour", False, "m"), Aggregate("SUM", "hour", True, "s")]),
        """
        S1 5 70; S2 6 71        -> 5 5 5; 6 6 6; P(5, *, *); P(6, *, *)
        S2 5 71; S2 null 1      -> null null null
        P(*, 5, *)              ->
        P(*, [6,7], *)          -> P([6,7], *, *)
        """,
    )


def test_values_of_a_large_domain_are_not_counted() -> None:
    schema = Schema.parse("v INT CHECK (v BETWEEN 1 AND 2000)")
    operator = GroupBy(schema, (), [Aggregate("COUNT", "v", True, "n")])
    assert not give(operator, 0, [(i + 1,) for i in range(2000)]).tuples.height
    output = give(operator, 0, [Punctuation.of(schema, v="[1,1500]")])
    assert output.tuples.rows() == [(2000,)]
    assert output.punctuations == [Punctuation.everything(operator.schema)]


def test_without_keys_one_result_once() -> None:
    operator = GroupBy(TEMP, (), NO_KEYS)
    check_table(
        operator,
        """
        S1 5 70; S1 5 null; S1 6 70; S2 6 71  ->
        P(S1, *, *)                           ->
        P(*, *, *)                            -> 4 211 71 70.5; P(*, *, *, *)
        P(*, *, *)                            ->
        """,
    )
    assert operator.state.rows == 0


def test_without_keys_empty_input_gives_one_row() -> None:
    check_table(
        GroupBy(TEMP, (), NO_KEYS),
        """
                        ->
        P(S1, *, *)     ->
        P(*, *, *)      -> 0 null null null; P(*, *, *, *)
        """,
    )


def test_with_keys_empty_input_gives_none() -> None:
    check_table(maximum(), "P(*, *, *) -> P(*, *)")


def single(
    type_: str, function: str, values: list[object], distinct: bool = False
) -> tuple[list[object], int]:
    """An aggregate's results over one group, and the number of rejects."""
    schema = Schema.parse(f"v {type_}")
    operator = GroupBy(schema, (), [Aggregate(function, "v", distinct, "r")])
    slices = [*([(v,)] for v in values), [Punctuation.everything(schema)]]  # partial results are merged
    results = [row[0] for elements in slices for row in give(operator, 0, elements).tuples.rows()]
    return results, len(operator.rejects)


def dec(*texts: str) -> list[object]:
    return [Decimal(t) for t in texts]


TOP = 2**63 - 1
NINES = Decimal("9" * 38)

RESULTS: list[tuple[str, str, list[object], object]] = [
    ("INT", "SUM", [TOP, TOP, -TOP], TOP),
    ("INT", "AVG", [TOP, TOP], float(TOP)),
    ("INT", "AVG", [1, 2], 1.5),
    ("INT", "AVG", [-1, None, -2], -1.5),
    ("INT", "COUNT", [1, None, 1], 2),
    ("INT", "SUM", [None, None], None),
    ("DECIMAL(5,2)", "SUM", dec("999.99", "999.99"), Decimal("1999.98")),
    ("DECIMAL(5,2)", "AVG", dec("0.01", "0.02", "0.02"), Decimal("0.016667")),
    ("DECIMAL(5,2)", "AVG", dec("-0.01", "-0.02", "-0.02"), Decimal("-0.016667")),
    ("DECIMAL(5,0)", "AVG", dec(*["1"] * 1, *["0"] * 31), Decimal("0.0313")),  # 0.03125
    ("DECIMAL(5,0)", "AVG", dec(*["-1"] * 1, *["0"] * 31), Decimal("-0.0313")),
    ("DECIMAL(38,0)", "SUM", [NINES, NINES, NINES.copy_negate()], NINES),
    ("DECIMAL(38,34)", "AVG", dec("0." + "0" * 33 + "1"), Decimal("0." + "0" * 33 + "10000")),
    ("DOUBLE", "MAX", [1.0, math.nan, math.inf], "NaN"),
    ("DOUBLE", "MIN", [math.nan, math.inf], math.inf),
    ("DOUBLE", "MIN", [math.nan, None], "NaN"),
    ("DOUBLE", "SUM", [math.inf, -math.inf], "NaN"),
    ("DOUBLE", "SUM", [0.5, None, 0.25], 0.75),
    ("DOUBLE", "MIN", [0.0, -1.5, None], -1.5),
    ("STRING", "MAX", ["", None, "é", "z"], "é"),
    ("STRING", "MIN", ["b", "", None], ""),
    ("BOOLEAN", "MAX", [False, True, None], True),
    ("BOOLEAN", "MIN", [False, True, None], False),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "function", "values", "expected"), RESULTS)
def test_results(type_: str, function: str, values: list[object], expected: object) -> None:
    (result,), rejected = single(type_, function, values)
    assert rejected == 0
    if expected == "NaN":
        assert isinstance(result, float)
        assert math.isnan(result)
    else:
        assert (result, str(result)) == (expected, str(expected))


OVERFLOWS = [
    ("INT", "SUM", [TOP, 1]),
    ("INT", "SUM", [-TOP, -2]),
    ("DECIMAL(38,0)", "SUM", [NINES, Decimal(1)]),
    ("DECIMAL(38,0)", "AVG", [NINES]),
    ("DECIMAL(38,34)", "AVG", [Decimal(1)]),
]


@pytest.mark.parametrize(("type_", "function", "values"), OVERFLOWS)
def test_a_result_that_does_not_fit_is_rejected(type_: str, function: str, values: list[object]) -> None:
    assert single(type_, function, values) == ([], 1)


DISTINCT: list[tuple[str, str, list[object], object]] = [
    ("INT", "COUNT", [1, 1, 2, None, None], 2),
    ("INT", "SUM", [3, 3, 4], 7),
    ("INT", "AVG", [1, 1, 2], 1.5),
    ("DOUBLE", "COUNT", [math.nan, -math.nan, 0.0, -0.0, None], 2),
    ("STRING", "COUNT", ["", "", "a", None], 2),
    ("DECIMAL(5,2)", "SUM", dec("0.10", "0.1", "0.2"), Decimal("0.30")),
    ("INT", "SUM", [None], None),
    ("INT", "COUNT", [None], 0),
]


@pytest.mark.parametrize(("type_", "function", "values", "expected"), DISTINCT)
def test_distinct(type_: str, function: str, values: list[object], expected: object) -> None:
    assert single(type_, function, values, distinct=True) == ([expected], 0)


def test_nan_groups_with_nan_and_minus_zero_with_zero() -> None:
    schema = Schema.parse("x DOUBLE")
    operator = GroupBy(schema, ("x",), [Aggregate("COUNT", None, False, "n")])
    give(operator, 0, [(math.nan,), (0.0,), (None,)])
    give(operator, 0, [(-math.nan,), (-0.0,), (None,)])
    output = give(operator, 0, [Punctuation.everything(schema)])
    assert sorted(n for _, n in output.tuples.rows()) == [2, 2, 2]


def test_result_types() -> None:
    schema = Schema.parse("i INT NOT NULL, d DECIMAL(5,2), x DOUBLE, s STRING")
    calls = [
        ("COUNT", "s"),
        ("SUM", "i"),
        ("AVG", "i"),
        ("SUM", "d"),
        ("AVG", "d"),
        ("MAX", "d"),
        ("MIN", "s"),
        ("AVG", "x"),
    ]
    operator = GroupBy(schema, ("s",), [Aggregate(f, a, False, f"{f}_{a}") for f, a in calls])
    assert [str(a.type) for a in operator.schema] == [
        "STRING", "INT", "INT", "DOUBLE", "DECIMAL(38,2)", "DECIMAL(38,6)", "DECIMAL(5,2)", "STRING",
        "DOUBLE",
    ]  # fmt: skip
    assert [a.nullable for a in operator.schema] == [True, False, False, False, True, True, True, True, True]


def test_aggregates_that_make_no_sense() -> None:
    for function, argument in (("SUM", "sid"), ("AVG", "sid"), ("NOTHING", "temp"), ("SUM", None)):
        with pytest.raises(ValueError, match=r"."):
            GroupBy(TEMP, (), [Aggregate(function, argument, False, "r")])


def test_a_closed_group_is_purged() -> None:
    """A closed hour is purged; a run over many hours retains at most one."""
    operator = GroupBy(
        TEMP, ("hour",), [Aggregate("COUNT", "sid", True, "n"), Aggregate("SUM", "temp", False, "s")]
    )
    for hour in range(60):
        rows = [(f"S{i % 3}", hour, i) for i in range(6)]
        output = give(operator, 0, [*rows, Punctuation.of(TEMP, hour=hour)])
        assert output.tuples.rows() == [(hour, 3, 15)]
        assert [str(p) for p in output.punctuations] == [f"<{hour}, *, *>"]
        assert operator.state.rows == 0


def test_several_punctuations_close_a_group_together() -> None:
    """Senders that are each in order close their own hours, one after the other."""
    schema = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2', 'S3')), hour INT, temp INT")
    operator = GroupBy(schema, ("hour",), [Aggregate("MAX", "temp", False, "m")])
    check_table(
        operator,
        """
        S1 5 70; S2 5 71; S1 6 72    ->
        P(S1, 5, *); P(S2, (,5], *)  ->
        P({S3,S4}, *, *)             -> 5 71; P(5, *)
        P(S2, 6, *)                  ->
        P(S1, [4,9], *)              -> 6 72; P([4,5], *); P(6, *)
        P(*, *, *)                   -> P(*, *)
        """,
    )


def test_complements_close_a_not_null_attribute() -> None:
    schema = Schema.parse("k INT, v INT NOT NULL, w INT")
    operator = GroupBy(schema, ("k",), [Aggregate("COUNT", None, False, "n")])
    check_table(
        operator,
        """
        1 5 null; 1 30 null  ->
        P(1, (,20], *)       ->
        P(1, (20,), *)       -> 1 2; P(1, *)
        P(2, *, (,20])       ->
        P(2, *, (20,))       ->
        """,
    )
    assert operator.state.held == 0


def test_items_that_close_one_by_one_take_one_interval() -> None:
    schema = Schema.parse("hour INT, item INT NOT NULL")
    operator = GroupBy(schema, ("hour",), [Aggregate("COUNT", None, False, "n")])
    for item in range(200):
        give(operator, 0, [Punctuation.of(schema, item=item)])
        assert operator.state.held == 1


def test_a_sender_that_is_far_ahead_takes_one_punctuation() -> None:
    """Only the last of its ranges is retained."""
    reports = Schema.parse("sid STRING CHECK (sid IN ('S1', 'S2')), hour INT")
    operator = GroupBy(reports, ["hour"], [Aggregate("COUNT", None, False, "n")])
    for hour in range(100):
        check_table(operator, f"P(S1, (,{hour}]) ->")
    assert operator.state.held == 1
    check_table(operator, "S2 7; P(S2, (,50]) -> 7 1; P((,50], *)")
