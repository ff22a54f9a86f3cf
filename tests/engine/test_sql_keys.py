"""PRIMARY KEY, UNIQUE and PUNCTUATED BY in CREATE STREAM: each tuple closes its key."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.test_late_tuples import by_local, by_spark
from tests.plans.sharded import Sharded
from tests.strategies import slice_of
from xmlpunct import SqlError, query
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import Key, Merge, Punctuate
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.local.local_run import open_sources
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.schema import Schema

ROWS = [(1, 5), (2, 5), (3, 6), (2, 7), (4, 7), (1, 5), (5, 8), (5, 9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "\n".join(f"<t><id>{i}</id><v>{v}</v></t>" for i, v in ROWS)
    (tmp_path / "t.xml").write_text(f"<s>\n{rows}\n</s>\n")
    return tmp_path


def sql(folder: Path, columns: str, query: str, clause: str = "") -> str:
    return f"CREATE STREAM t ({columns}) WITH (source = '{folder / 't.xml'}') {clause}; {query}"


def test_a_tuple_closes_its_key(folder: Path) -> None:
    """A group is released in the slice of its tuple; at most one row is retained."""
    text = sql(folder, "id INT PRIMARY KEY, v INT", "SELECT id, COUNT(*) AS n FROM t WHERE v < 9 GROUP BY id")
    planned, early, stats = plan(text), [], RunStats("local")
    with closing(LocalRun(planned, open_sources(planned), 1, stats, PUNCT_NAMESPACE)) as running:
        while (result := running.advance()) is not None and not result.punctuations.has_end:
            early += result.tuples.rows()
    assert early[:3] == [(1, 1), (2, 1), (3, 1)]
    local.run(planned, RunOptions(output=str(folder / "out.xml"), slice_bytes=1), stats)
    assert max(o.state_rows_peak for o in stats.operators) <= 1


def test_every_declared_key_emits_punctuations() -> None:
    xml = b"<s><t><a>1</a><b>2</b><c>3</c></t></s>"
    text = "CREATE STREAM t (a INT UNIQUE, b INT, c DOUBLE, PRIMARY KEY (b, c)) WITH (source = 'x'); SELECT * FROM t"
    elements = [str(r) for r in query(text, t=xml)]
    assert elements == ["(1, 2, 3.0)", "<1, *, *>", "<*, 2, 3.0>"]


def test_keys_are_not_null() -> None:
    text = (
        "CREATE STREAM t (a INT, b INT, c INT UNIQUE, PRIMARY KEY (a)) WITH (source = 'x'); SELECT a FROM t"
    )
    (stream,) = plan(text).streams
    assert [a.nullable for a in stream.schema] == [False, True, False]


@pytest.mark.parametrize("columns", ["a INT PRIMARY KEY", "a INT, UNIQUE (a)"])
def test_a_key_outside_a_query_is_refused(columns: str) -> None:
    with pytest.raises(SqlError, match=r"a: a key is only checked in CREATE STREAM .* write NOT NULL here"):
        Schema.parse(columns)


@pytest.mark.parametrize("query", ["SELECT id, v FROM t", "SELECT v, COUNT(*) AS n FROM t GROUP BY v"])
def test_a_second_tuple_is_late_for_every_slicing(folder: Path, tmp_path: Path, query: str) -> None:
    """Both engines reject it with its line; a tuple late by one key still closes its other keys."""
    planned = plan(sql(folder, "id INT, v INT, PRIMARY KEY (id), UNIQUE (id, v)", query))
    outputs = []
    for size, shards in ((None, 0), (1, 0), (90, 1), (60, 3)):
        out = tmp_path / f"{size}-{shards}"
        out.mkdir()
        outputs.append(
            by_spark(planned, out, size, shards, False) if shards else by_local(planned, out, size, False)
        )
    rejects, tuples, _ = outputs[0]
    assert [r["reason"] for r in rejects] == [f"late: <{i}, *> was closed before it" for i in (2, 1, 5)]
    assert [r["line"] for r in rejects] == [5, 7, 9]
    assert tuples
    assert all(other == outputs[0] for other in outputs[1:])


def test_a_late_tuple_closes_its_key(folder: Path, tmp_path: Path) -> None:
    """A tuple that PUNCTUATE rejects still closes its key."""
    planned = plan(sql(folder, "id INT PRIMARY KEY, v INT", "SELECT id FROM t", "PUNCTUATE ORDER BY v"))
    rejects, tuples, _ = by_local(planned, tmp_path, 1, False)
    assert len(rejects) == 3
    assert sorted(t[0] for t in tuples) == [1, 2, 3, 4, 5]


def test_a_key_of_several_senders_is_checked_after_their_merge() -> None:
    """The key is above the merge of the senders; each shard has all tuples of its keys."""
    text = """CREATE STREAM t (id INT PRIMARY KEY, v INT) WITH (source = 'tcp-listen://127.0.0.1:0?connections=2')
              {}; SELECT id, COUNT(*) AS n FROM t GROUP BY id"""
    ordered = plan(text.format("PUNCTUATE ORDER BY v")).root
    (key,) = ordered.find(Key)
    assert isinstance(key.input, Merge)
    assert all(list(side.find(Punctuate)) for side in key.input.inputs)
    unguarded = plan(text.format(""))
    for planned in (unguarded, with_guards(unguarded)):
        names = [s.name for s in planned.streams]
        elements = []
        sharded = Sharded(planned.root, names, 3)
        for _ in sharded.open():
            pass
        schema = planned.streams[0].schema
        for stream, row in ((0, (1, 5)), (1, (2, 5)), (1, (1, 6)), (0, (2, 9)), (0, (3, 9))):
            slice_ = slice_of(schema, [row])
            with_position = replace(
                slice_, tuples=slice_.tuples.with_columns(**dict.fromkeys(("$source", "$line", "$byte")))
            )
            for output in sharded.push(
                stream, planned.streams[stream].taken(slice_ if planned is unguarded else with_position)
            ):
                elements += [*output.tuples.rows(), *map(str, output.punctuations)]
        if planned is unguarded:  # the group-by has received the punctuation of the key
            assert elements[:2] == [(1, 1), "<1, *>"]
        else:
            assert [e for e in elements if isinstance(e, tuple)] == [(1, 1), (2, 1), (3, 1)]
            assert sum(len(p.rejects) for p in sharded.pipelines) == 2


def test_a_constant_relation_may_have_a_key() -> None:
    text = """CREATE RELATION r (id INT PRIMARY KEY, v INT) WITH (source = 'x');
              CREATE STREAM s (id INT NOT NULL, ts INT NOT NULL) WITH (source = 'y', timestamp = 'ts');
              SELECT s.id, v FROM s [NOW] JOIN r ON s.id = r.id"""
    assert list(plan(text).root.find(Key))


@pytest.mark.parametrize(
    ("columns", "clause", "message"),
    [
        ("id INT, PRIMARY KEY (ids)", "", "no column ids"),
        ("id INT, UNIQUE (id, id)", "", "is listed twice"),
        ("id INT, UNIQUE ()", "", "needs a column"),
        ("id INT, v XML UNIQUE", "", "cannot be compared"),
        ("id INT, lines ARRAY(n INT UNIQUE)", "", "not to an array"),
        ("id INT", "PUNCTUATED (id)", r"PUNCTUATED BY \(a\)"),
        ("id INT", "PUNCTUATED BY id", "columns in parentheses"),
        ("id INT", "PUNCTUATED BY (v)", "no column v"),
        ("id INT", "PUNCTUATED BY (id) PUNCTUATED BY (id)", "written once"),
        ("id INT", "PUNCTUATED BY (id) MORE", "ends here"),
    ],
)
def test_refused(folder: Path, columns: str, clause: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(sql(folder, columns, "SELECT id FROM t", clause))


def test_changes_have_no_key() -> None:
    text = """CREATE RELATION r (id INT PRIMARY KEY, at INT NOT NULL, n INT)
              WITH (source = 'x', timestamp = 'at', change = 'n'); SELECT id FROM r"""
    with pytest.raises(SqlError, match="with changes can repeat a key"):
        plan(text)


@pytest.mark.parametrize("clause", ["PUNCTUATED BY (id), (v, id) {}", "{} PUNCTUATED BY (id), (v, id)"])
def test_schemes_stand_before_or_behind_the_order(folder: Path, clause: str) -> None:
    order = "PUNCTUATE ORDER BY v SLACK 2"
    (stream,) = plan(sql(folder, "id INT, v INT", "SELECT id FROM t", clause.format(order))).streams
    assert stream.promised == (("id",), ("v", "id"))
    assert stream.order is not None
    assert stream.order.slack == 2
