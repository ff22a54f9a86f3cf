"""Coverage-guided fuzzing of the reader, for as long as one likes; out of CI, which replays what it found.

    pip install atheris
    python tests/fuzz/fuzz_reader.py WORKING_DIRECTORY -max_len=600 -max_total_time=3600

Inputs that show something new gather in the directory; the checked-in corpus is where it starts from. What breaks
one of the rules (see `tests.fuzz.rules`) is left in a file ``crash-...``: made small (``-minimize_crash=1``), it
belongs into tests/fixtures/corpus.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

TOP = Path(__file__).parents[2]
CORPUS = TOP / "tests" / "fixtures" / "corpus"
SLOW_SECONDS = 60
PATIENCE = 16
"""For how many bytes the splitter waits before it looks at what it waits with: inputs are small."""


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
