"""Forked processes: parsing works; queries that would hang are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

BEGIN = """
import os, signal, sys, threading
import xmlpunct
from xmlpunct import UsageError, forks
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import SliceReader, StreamSpec

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
COLUMNS = "a INT, b STRING, x DOUBLE, m DECIMAL(5,2), d DATE, t TIMESTAMP, y BOOLEAN"
SCHEMA = xmlpunct.Schema.parse(COLUMNS + ", h INT CHECK (h BETWEEN 0 AND 23)")
SQL = "CREATE STREAM t (a INT, b STRING, t TIMESTAMP); SELECT a, COUNT(*) AS n FROM t GROUP BY a"

def document(count):
    row = ("<t><a>{0}</a><b>b {0}</b><x>{0}.5</x><m>{1}.25</m><d>2024-02-{2:02}</d>"
           "<t>2024-01-01T00:00:00.{0:06}Z</t><y>{3}</y><h>{2}</h></t><p:t><b>c{0}</b></p:t>")
    rows = (row.format(i, i % 50, i % 32, i % 3) for i in range(count))
    return f"<r xmlns:p='{NS}'>{''.join(rows)}</r>".encode()

def read(count):
    rejects = []
    elements = xmlpunct.parse(document(count), SCHEMA, element="t", on_reject=rejects.append)
    return [*map(str, elements)], [*map(str, rejects)]

def query():
    return [*xmlpunct.query(SQL, t=document(3))]

def child(work):
    '''Run a function in a fork; assert that it succeeds.'''
    process = os.fork()
    if not process:
        signal.alarm(20)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0

def refused(work, reason):
    try:
        work()
    except UsageError as error:
        assert reason in str(error), error
    else:
        raise AssertionError("it was not refused")
"""

IMPORTED = """
def work():
    assert len(read(300)[0]) > 400 and query() == [(0, 1), (1, 1), (2, 1)]
child(work)
work()
child(lambda: None)
"""

USED = """
forks._SHORT = forks._LONG = 0.3
expected = [read(count) for count in (3, 300)]
def work():
    assert [read(count) for count in (3, 300)] == expected
    refused(query, "forked after it was used")
child(work)
def again():
    child(work)
child(again)
assert query() and [read(count) for count in (3, 300)] == expected
"""

OTHERS = """
import os, polars, signal, sys
import xmlpunct
assert "xmlpunct.python.query_api" not in sys.modules
xmlpunct.base.forks._LONG = 0.3
polars.DataFrame({"a": [1]}).lazy().select(polars.col("a") + 1).collect()
process = os.fork()
if not process:
    signal.alarm(20)
    try:
        xmlpunct.query("CREATE STREAM t (a INT); SELECT a FROM t", t=b"<r/>")
    except xmlpunct.UsageError as error:
        os._exit(7 if "forked after it was used" in str(error) else 1)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
"""

HALF_READ = """
forks._SHORT = 0.3
with open(sys.argv[1], "wb") as file:
    file.write(document(300))
elements = xmlpunct.parse(sys.argv[1], SCHEMA, element="t", on_reject=id)
parts = xmlpunct.slices(sys.argv[1], SCHEMA, element="t", size=5000, on_reject=id)
rows = [*next(parts).tuples.rows()]
def work():
    refused(lambda: [*parts], "opened by another process")
    assert len([*elements]) > 400
child(work)
for part in parts:
    rows += part.tuples.rows()
assert rows == [element for element in elements if isinstance(element, tuple)]
"""

LEFT = """
end, sender = os.pipe()
os.write(sender, b"<r><t><a>1</a></t>")
bell, locked, done = threading.Condition(), threading.Event(), threading.Event()
schema = xmlpunct.Schema.parse("a INT")
reader = SliceReader(Source.of(os.fdopen(end, "rb", buffering=0)), [StreamSpec("t", schema, "t")], bell=bell)
with bell:
    bell.wait_for(reader.is_ready)
def hold():
    with bell:
        locked.set()
        done.wait()
holder = threading.Thread(target=hold, daemon=True)
holder.start()
locked.wait()
child(reader.close)
done.set()
holder.join()
os.close(sender)
rows = []
while (parsed := reader.read(100)) is not None:
    rows += parsed.slices[0].tuples.rows()
print(rows)
"""


def run(program: str, *arguments: str, begin: str = BEGIN) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", begin + program, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (process.returncode, process.stderr) == (0, ""), process.stderr
    return process.stdout


def test_all_works_in_a_fork_of_a_process_that_has_only_imported_the_package() -> None:
    run(IMPORTED)


def test_parsing_works_in_a_fork_of_a_process_that_has_read() -> None:
    """Queries are refused, because polars would hang in the fork."""
    run(USED)


def test_polars_used_outside_the_package_is_noticed() -> None:
    """The package registers for forks at import, before its other modules are loaded."""
    run(OTHERS, begin="")


def test_a_fork_does_not_read_on_a_file_of_its_parent(tmp_path: os.PathLike[str]) -> None:
    """Otherwise parent and fork would read alternate bytes of one file."""
    run(HALF_READ, os.path.join(tmp_path, "document.xml"))


def test_a_fork_can_close_a_reader_of_its_parent() -> None:
    """A reader can be closed in a fork, even if a thread of the parent holds its lock."""
    assert run(LEFT) == "[(1,)]\n"
