"""Hours of stream in minutes, with kills, slicings and cut connections at random; the bag is always the oracle's.

``XMLPUNCT_LONG=1 pytest -s tests/reliability/test_soak.py`` goes on for ten minutes.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.cli.harness import WAREHOUSE
from tests.reliability.support import LONG, MOST_SECONDS, launch, sending_again
from xmlpunct.firehose import generators

SECONDS = 600 if LONG else 8
READING = re.compile(r"<tempdata>.*<hour>(\d+)</hour>.*<currtmp>(-?\d+)</currtmp></tempdata>")
RESULT = re.compile(r"<result><maxtemp>(-?\d+)</maxtemp><hour>(\d+)</hour></result>")


def hottest(texts: list[str]) -> Counter[tuple[int, int]]:
    """The oracle: for each hour its highest temperature."""
    most: dict[int, int] = {}
    for hour, temperature in (map(int, found) for text in texts for found in READING.findall(text)):
        most[hour] = max(most.get(hour, temperature), temperature)
    return Counter(most.items())


def found_in(out: Path) -> Counter[tuple[int, int]]:
    return Counter((int(hour), int(most)) for most, hour in RESULT.findall(out.read_text()))


class Trial:
    """One stream, one slicing, some deaths; perhaps a feed that breaks off in the middle of an element."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        folder.mkdir()
        self.chance, self.out = chance, folder / "out.xml"
        hours, readings, punctuations = chance.randint(2, 24), chance.randint(1, 12), chance.randint(0, 6)
        lines = generators.warehouse(2, hours, readings, punctuations, chance.randrange(10**6))
        self.hours, self.files = hours, generators.write(lines, str(folder))
        self.expected = hottest([path.read_text() for path in self.files])
        self.cut = chance.random() < 0.25
        if self.cut:
            data = self.files[0].read_bytes()
            self.files[0].write_bytes(data[: data.index(b"<hour>", chance.randrange(len(data) // 2)) + 3])
        self.slicing = chance.choice(["500", "4KiB", "64KiB", "4MiB"])
        self.kills = 0

    def live(self, sources: list[str], deadly: bool) -> int | None:
        """Run until killed (None), or to the end (the exit code)."""
        feeds = [word for i, s in enumerate(sources, 1) for word in ("-s", f"sensor{i}={s}")]
        kept = ["--checkpoint", str(self.out.with_suffix(".checkpoint")), "-o", str(self.out)]
        kept += ["--slice", self.slicing]
        run = launch("run", str(WAREHOUSE), "--engine", "local", *feeds, *kept)
        until = time.monotonic() + (self.chance.uniform(0.2, 1.5) if deadly else MOST_SECONDS)
        while run.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        killed = run.poll() is None
        assert deadly or not killed, "it does not end"
        run.send_signal(signal.SIGKILL)
        _, said = run.communicate()
        assert b"Traceback" not in said, said.decode()
        self.kills += killed
        return None if killed else run.returncode

    def run(self) -> None:
        """Live, die, and live again; nothing that was visible ever changes."""
        with ExitStack() as stack:
            sources = [
                stack.enter_context(sending_again(path)) if self.chance.random() < 0.4 else str(path)
                for path in self.files
            ]
            seen, ended, deaths = b"", None, self.chance.randint(0, 4)
            while ended is None:
                ended = self.live(sources, deaths > 0)
                deaths -= 1
                now = self.out.read_bytes() if self.out.exists() else b""
                assert now.startswith(seen)
                seen = now
        found = found_in(self.out)
        if self.cut:
            assert ended == 1
            assert found <= self.expected, "what was released is right"
        else:
            assert ended == 0
            assert found == self.expected


def test_soak(tmp_path: Path) -> None:
    chance, until = random.Random(SECONDS), time.monotonic() + SECONDS
    trials = kills = hours = 0
    while time.monotonic() < until:
        trial = Trial(tmp_path / str(trials), chance)
        trial.run()
        trials, kills, hours = trials + 1, kills + trial.kills, hours + trial.hours
    print(f"{hours} hours of stream in {trials} runs, killed {kills} times")
    assert trials
