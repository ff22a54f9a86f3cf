"""Runs of the local engine in processes that are killed at random moments and restarted.

The long form kills 100 times, and 30 times while it reads a socket::

    XMLPUNCT_LONG=1 pytest -s tests/reliability/test_local_kills.py
"""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch, sending_again
from xmlpunct import parse
from xmlpunct.firehose import generators
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema

SCAN = """CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'unset', element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'unset', element = 'tempdata');
SELECT hour, min, currtmp FROM sensor1 UNION SELECT hour, min, currtmp FROM sensor2"""


class Lives:
    """A query over two generated streams, run by processes that are killed at a random output size."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.kills = folder, random.Random(seed), 0
        folder.mkdir()
        lines = generators.warehouse(sensors=2, hours=12, readings=3, punctuations=4, seed=seed)
        self.files = [str(path) for path in generators.write(lines, str(folder))]
        self.expected = folder / "expected.xml"
        ends_well(self.start(self.files, self.expected))

    def start(self, sources: list[str], out: Path) -> subprocess.Popen[bytes]:
        """Start the run, or continue it from its checkpoint."""
        feeds = [word for i, s in enumerate(sources, 1) for word in ("-s", f"sensor{i}={s}")]
        options = [
            "--engine",
            "local",
            "--slice",
            "8KiB",
            "--checkpoint",
            f"{out}.checkpoint",
            "-o",
            str(out),
        ]
        return launch("run", "-q", SCAN, *feeds, *options)

    def live(self, sources: list[str], out: Path, most_kills: int) -> None:
        """Run to the end, with at most ``most_kills`` kills. Visible output never changes."""
        visible, total = b"", self.expected.stat().st_size
        for _ in range(most_kills):
            target = len(visible) + self.chance.randrange(1, total // 3)
            run = self.start(sources, out)
            until = time.monotonic() + MOST_SECONDS
            while (not out.exists() or out.stat().st_size < target) and run.poll() is None:
                assert time.monotonic() < until
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
            _, errors = run.communicate()
            assert run.returncode in (0, -signal.SIGKILL), errors.decode()
            self.kills += run.returncode != 0
            assert out.read_bytes()[: len(visible)] == visible
            visible = out.read_bytes()
            if run.returncode == 0:
                break
        ends_well(self.start(sources, out))
        assert out.read_bytes()[: len(visible)] == visible


def test_killed_at_random(tmp_path: Path) -> None:
    kills = seed = 0
    while kills < (100 if LONG else 3):
        lives = Lives(tmp_path / str(seed), seed)
        out = lives.folder / "out.xml"
        lives.live(lives.files, out, 8 if LONG else 3)
        assert out.read_bytes() == lives.expected.read_bytes()
        kills, seed = kills + lives.kills, seed + 1
    print(f"{kills} kills of {seed} runs")


def test_killed_while_a_socket_is_read(tmp_path: Path) -> None:
    """Slices depend on the arrival of bytes, so only the bag of results is compared."""
    kills = seed = 0
    while kills < (30 if LONG else 2):
        lives = Lives(tmp_path / str(seed), seed)
        out = lives.folder / "out.xml"
        with sending_again(Path(lives.files[0])) as name:
            lives.live([name, lives.files[1]], out, 8 if LONG else 2)
        assert bag(out) == bag(lives.expected)
        assert list(parse_grammatical(out))
        kills, seed = kills + lives.kills, seed + 1
    print(f"{kills} kills of {seed} runs")


def test_killed_while_compressed_files_are_read(tmp_path: Path) -> None:
    """One input is a file, the other a pattern for many files; both are spooled."""
    kills = seed = 0
    while kills < (30 if LONG else 2):
        lives = Lives(tmp_path / str(seed), seed)
        out = lives.folder / "out.xml"
        first, second = (Path(name).read_bytes() for name in lives.files)
        (lives.folder / "one").write_bytes(gzip.compress(first))
        for n in range(20):
            (lives.folder / f"{n:02d}.xml.gz").write_bytes(gzip.compress(b"<s/>" if n != 9 else second))
        lives.live([str(lives.folder / "one"), str(lives.folder / "*.gz")], out, 8 if LONG else 2)
        assert bag(out) == bag(lives.expected)
        assert list(parse_grammatical(out))
        kills, seed = kills + lives.kills, seed + 1
    print(f"{kills} kills of {seed} runs")


def parse_grammatical(out: Path) -> Iterator[Any]:
    """The elements of an output, which must be grammatical."""
    schema = Schema.parse("hour INT, min INT, currtmp INT")
    punctuations = PunctuationSet(schema)
    for element in parse(out, schema, element="result"):
        if isinstance(element, Punctuation):
            punctuations.add(element)
        else:
            assert not punctuations.mask(schema.frame([element])).any()
        yield element
