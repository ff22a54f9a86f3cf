"""Punctuations injected into a run release results, and a replay repeats them at the same position."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from xmlpunct.base.errors import PatternError, UsageError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.checkpoint.log import WriteAheadLog
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionQueue, parse_injection
from xmlpunct.engine.run.local.ledger import GROUP_SECONDS
from xmlpunct.engine.run.local.local_run import run
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan

COUNT = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (source = '{}', element = 't');
           SELECT hour, COUNT(*) AS n FROM a GROUP BY hour"""


def t(hour: int, x: int) -> str:
    return f"<t><hour>{hour}</hour><x>{x}</x></t>"


class Killed(BaseException):
    """Ends a run as a kill would: no handler catches it."""


class Talk:
    """Injects one punctuation after two tuples; ``dies``: kills the run once ``out`` has a result."""

    def __init__(self, query: Query, out: Path, *, dies: bool = False, says: bool = True) -> None:
        self.injections, self._query, self._out, self._dies, self._says = (
            InjectionQueue(),
            query,
            out,
            dies,
            says,
        )

    def __call__(self, stats: RunStats) -> None:
        if self._says and stats.inputs["a"].tuples > 1:
            self.injections.put(*parse_injection(self._query, "a", {"hour": "17"}))
            self._says = False
        if self._dies and stats.tuples_out:
            if "<result>" in self._out.read_text():
                raise Killed
            time.sleep(GROUP_SECONDS)  # the next slice commits the pending output


def feed(path: Path) -> Query:
    """A stream without punctuations; hour 17 is first, and occurs again at the end."""
    parts = [f"<s xmlns:p='{PUNCT_NAMESPACE}'>", t(17, 1), *(t(18, n) for n in range(40)), t(17, 2), "</s>"]
    path.write_text("".join(parts))
    return plan(COUNT.format(path))


def running(query: Query, folder: Path, rejects: bool, *, dies: bool = False, says: bool = True) -> RunStats:
    options = RunOptions(
        output=str(folder / "out.xml"),
        checkpoint=str(folder / "cp"),
        slice_bytes=64,
        rejects=str(folder / "rejects.jsonl") if rejects else None,
    )
    folder.mkdir(exist_ok=True)
    stats, talk = RunStats("local"), Talk(query, folder / "out.xml", dies=dies, says=says)
    run(query, options, stats, talk, injections=talk.injections)
    return stats


@pytest.mark.parametrize("rejects", [False, True])
def test_an_injected_punctuation_releases_results_and_is_replayed(tmp_path: Path, rejects: bool) -> None:
    query = feed(tmp_path / "a.xml")
    running(query, tmp_path / "whole", rejects)
    expected = (tmp_path / "whole" / "out.xml").read_text()
    results = [line for line in expected.splitlines() if line.startswith("<result>")]
    assert results == [
        "<result><hour>17</hour><n>1</n></result>",
        "<result><hour>18</hour><n>40</n></result>",
    ]
    assert expected.index("<punct:result><hour>17</hour>") < expected.index("<hour>18</hour>")
    with pytest.raises(Killed):
        running(query, tmp_path / "killed", rejects, dies=True)
    assert expected.startswith((tmp_path / "killed" / "out.xml").read_text())
    stats = running(query, tmp_path / "killed", rejects, says=False)
    assert (tmp_path / "killed" / "out.xml").read_text() == expected
    assert (stats.rejected, stats.late) == ((1, 0) if rejects else (0, 1)), (
        "a tuple that matches the injected punctuation is late"
    )


def test_an_injected_punctuation_is_durable_before_it_is_confirmed(tmp_path: Path) -> None:
    """After a kill when an injected punctuation becomes durable, the next run replays it."""
    query = feed(tmp_path / "a.xml")
    talk = Talk(query, tmp_path / "out.xml", says=False)
    durable = talk.injections.put(*parse_injection(query, "a", {"hour": "17"}))
    durable.add_done_callback(lambda _: (_ for _ in ()).throw(Killed()))
    options = RunOptions(output=str(tmp_path / "out.xml"), checkpoint=str(tmp_path / "cp"), slice_bytes=64)
    with pytest.raises(Killed):
        run(query, options, RunStats("local"), talk, injections=talk.injections)
    records = WriteAheadLog(tmp_path / "cp" / "log").read()
    assert any(b"17" in piece for record in records for name, piece in record.items() if name == "slices")
    run(query, options, RunStats("local"), talk, injections=InjectionQueue())
    assert "<punct:result><hour>17</hour>" in (tmp_path / "out.xml").read_text()


def test_a_cancelled_punctuation_is_not_taken() -> None:
    query = plan(COUNT.format("a.xml"))
    injections = InjectionQueue()
    first, second = (injections.put(*parse_injection(query, "a", {"hour": hour})) for hour in ("1", "2"))
    assert first.cancel()
    assert injections.take() == (0, ["2", "*"])
    assert (second.done(), injections.take()) == (False, None)
    injections.settle()
    assert second.done()


def test_invalid_punctuations_are_refused() -> None:
    query = plan(COUNT.format("a.xml"))
    with pytest.raises(UsageError, match="reads no stream b: it reads a"):
        parse_injection(query, "b", {"hour": "17"})
    with pytest.raises(UsageError, match="no column hur: it has hour, x"):
        parse_injection(query, "a", {"hur": "17"})
    with pytest.raises(PatternError):
        parse_injection(query, "a", {"hour": "[17"})
    with pytest.raises(UsageError, match="not a punctuation"):
        parse_injection(query, "a", t(17, 1))
