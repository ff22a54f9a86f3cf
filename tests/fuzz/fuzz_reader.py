"""Coverage-guided fuzzing of the reader, without a time limit. CI does not run it, but replays its corpus.

    pip install atheris
    python tests/fuzz/fuzz_reader.py WORKING_DIRECTORY -max_len=600 -max_total_time=3600

It starts from the checked-in corpus, and stores inputs with new coverage in the directory. An input that breaks
one of the rules (see `tests.fuzz.rules`) is stored in a file ``crash-...``. Minimize it (``-minimize_crash=1``), and
add it to tests/fixtures/corpus.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

TOP = Path(__file__).parents[2]
CORPUS = TOP / "tests" / "fixtures" / "corpus"
SLOW_SECONDS = 60
PATIENCE = 16
"""The bytes that the splitter waits for before it scans again; small, because inputs are small."""


def main() -> None:
    import atheris

    sys.path.insert(0, str(TOP))
    with atheris.instrument_imports(include=["xmlpunct.firehose"]):
        check = import_module("tests.fuzz.rules").check_one_way
    import_module("xmlpunct.firehose.splitter")._LONG = PATIENCE
    atheris.Setup([*sys.argv, str(CORPUS), f"-timeout={SLOW_SECONDS}"], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
