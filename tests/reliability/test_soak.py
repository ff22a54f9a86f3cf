"""Hours of stream in minutes, with random kills, slice sizes and cut connections; the oracle gives the expected bag.

``XMLPUNCT_LONG=1 pytest -s tests/reliability/test_soak.py`` runs for ten minutes.
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
    """The oracle: the highest temperature of each hour."""
    maxima: dict[int, int] = {}
    for hour, temperature in (map(int, match) for text in texts for match in READING.findall(text)):
        maxima[hour] = max(maxima.get(hour, temperature), temperature)
    return Counter(maxima.items())


def results_in(out: Path) -> Counter[tuple[int, int]]:
    return Counter((int(hour), int(temperature)) for temperature, hour in RESULT.findall(out.read_text()))


class Trial:
    """One stream, one slice size, some kills; sometimes a feed that is cut inside an element."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir()
        self.chance, self.out = rng, folder / "out.xml"
        hours, readings, punctuations = rng.randint(2, 24), rng.randint(1, 12), rng.randint(0, 6)
        lines = generators.warehouse(2, hours, readings, punctuations, rng.randrange(10**6))
        self.hours, self.files = hours, generators.write(lines, str(folder))
        self.expected = hottest([path.read_text() for path in self.files])
        self.cut = rng.random() < 0.25
        if self.cut:
            data = self.files[0].read_bytes()
            self.files[0].write_bytes(data[: data.index(b"<hour>", rng.randrange(len(data) // 2)) + 3])
        self.slicing = rng.choice(["500", "4KiB", "64KiB", "4MiB"])
        self.kills = 0

    def live(self, sources: list[str], deadly: bool) -> int | None:
        """Run until killed (None), or to the end (the exit code)."""
        feeds = [word for i, s in enumerate(sources, 1) for word in ("-s", f"sensor{i}={s}")]
        options = ["--checkpoint", str(self.out.with_suffix(".checkpoint")), "-o", str(self.out)]
        options += ["--slice", self.slicing]
        run = launch("run", str(WAREHOUSE), "--engine", "local", *feeds, *options)
        until = time.monotonic() + (self.chance.uniform(0.2, 1.5) if deadly else MOST_SECONDS)
        while run.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        killed = run.poll() is None
        assert deadly or not killed, "it does not end"
        run.send_signal(signal.SIGKILL)
        _, errors = run.communicate()
        assert b"Traceback" not in errors, errors.decode()
        self.kills += killed
        return None if killed else run.returncode

    def run(self) -> None:
        """Run, kill and restart until the end; visible output never changes."""
        with ExitStack() as stack:
            sources = [
                stack.enter_context(sending_again(path)) if self.chance.random() < 0.4 else str(path)
                for path in self.files
            ]
            visible, exit_code, deaths = b"", None, self.chance.randint(0, 4)
            while exit_code is None:
                exit_code = self.live(sources, deaths > 0)
                deaths -= 1
                after = self.out.read_bytes() if self.out.exists() else b""
                assert after.startswith(visible)
                visible = after
        results = results_in(self.out)
        if self.cut:
            assert exit_code == 1
            assert results <= self.expected, "released results are final"
        else:
            assert exit_code == 0
            assert results == self.expected


def test_soak(tmp_path: Path) -> None:
    chance, until = random.Random(SECONDS), time.monotonic() + SECONDS
    trials = kills = hours = 0
    while time.monotonic() < until:
        trial = Trial(tmp_path / str(trials), chance)
        trial.run()
        trials, kills, hours = trials + 1, kills + trial.kills, hours + trial.hours
    print(f"{hours} hours of stream in {trials} runs, killed {kills} times")
    assert trials
