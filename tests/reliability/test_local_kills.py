"""Runs of the local engine, in processes that are killed at random moments and started again.

The long form kills 100 times, and 30 times while a socket is read::

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
    """A query over two generated streams, run by processes that are killed when enough has come out."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.kills = folder, random.Random(seed), 0
        folder.mkdir()
        lines = generators.warehouse(sensors=2, hours=12, readings=3, punctuations=4, seed=seed)
        self.files = [str(path) for path in generators.write(lines, str(folder))]
        self.expected = folder / "expected.xml"
        ends_well(self.start(self.files, self.expected))

    def start(self, sources: list[str], out: Path) -> subprocess.Popen[bytes]:
        """Start, or go on."""
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

    def live(self, sources: list[str], out: Path, most: int) -> None:
        """Run to the end, through at most so many deaths. What was visible once never changes."""
        seen, total = b"", self.expected.stat().st_size
        for _ in range(most):
            target = len(seen) + self.chance.randrange(1, total // 3)
            run = self.start(sources, out)
            until = time.monotonic() + MOST_SECONDS
            while (not out.exists() or out.stat().st_size < target) and run.poll() is None:
                assert time.monotonic() < until
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
            _, said = run.communicate()
            assert run.returncode in (0, -signal.SIGKILL), said.decode()
            self.kills += run.returncode != 0
            assert out.read_bytes()[: len(seen)] == seen
            seen = out.read_bytes()
            if run.returncode == 0:
                break
        ends_well(self.start(sources, out))
        assert out.read_bytes()[: len(seen)] == seen


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
    """Slices follow the bytes as they come, so only the bag can be compared, and that nothing visible changes."""
    kills = seed = 0
    while kills < (30 if LONG else 2):
        lives = Lives(tmp_path / str(seed), seed)
        out = lives.folder / "out.xml"
        with sending_again(Path(lives.files[0])) as name:
            lives.live([name, lives.files[1]], out, 8 if LONG else 2)
        assert bag(out) == bag(lives.expected)
        assert list(parse_whole(out))
        kills, seed = kills + lives.kills, seed + 1
    print(f"{kills} kills of {seed} runs")


def test_killed_while_compressed_files_are_read(tmp_path: Path) -> None:
    """One input is a file, the other a pattern for several; both are spooled."""
    kills = seed = 0
    while kills < (30 if LONG else 2):
        lives = Lives(tmp_path / str(seed), seed)
        out = lives.folder / "out.xml"
        one, several = (Path(name).read_bytes() for name in lives.files)
        (lives.folder / "one").write_bytes(gzip.compress(one))
        for n in range(20):
            (lives.folder / f"{n:02d}.xml.gz").write_bytes(gzip.compress(b"<s/>" if n != 9 else several))
        lives.live([str(lives.folder / "one"), str(lives.folder / "*.gz")], out, 8 if LONG else 2)
        assert bag(out) == bag(lives.expected)
        assert list(parse_whole(out))
        kills, seed = kills + lives.kills, seed + 1
    print(f"{kills} kills of {seed} runs")


def parse_whole(out: Path) -> Iterator[Any]:
    """What an output holds; that it is grammatical, too."""
    schema = Schema.parse("hour INT, min INT, currtmp INT")
    said = PunctuationSet(schema)
    for found in parse(out, schema, element="result"):
        if isinstance(found, Punctuation):
            said.add(found)
        else:
            assert not said.mask(schema.frame([found])).any()
        yield found
