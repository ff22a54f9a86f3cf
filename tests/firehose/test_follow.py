"""Sources with ``follow:``, which read a file while it grows."""

from __future__ import annotations

import bz2
import gzip
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.firehose.harness import spec
from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.firehose import SliceReader


def followed(path: Path, action: Callable[[], object]) -> tuple[list[object], SourceError | None]:
    """The values and the error of a followed file; ``action`` runs after the first read."""
    values: list[object] = []
    thread: threading.Thread | None = None
    with closing(SliceReader(open_source(f"follow:{path}"), [spec("a INT")])) as reader:
        while (parsed := reader.read(1 << 16)) is not None:
            values += [a for (a,) in parsed.slices[0].tuples.rows()]
            if thread is None:
                thread = threading.Thread(target=lambda: (time.sleep(0.01), action()))
                thread.start()
        assert thread is not None
        thread.join()
        return values, reader.error


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def test_it_grows_and_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<r><t><a>1</a></t><t>")

    def finish() -> None:
        append(path, "<a>2</a></t></r>")
        time.sleep(0.02)  # the root is closed, but more documents may follow
        append(path, "<r><t><a>3</a></t></r>")
        path.unlink()

    assert followed(path, finish) == ([1, 2, 3], None)


def test_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<r><t><a>1</a></t></r>")
    (tmp_path / "b.xml").write_text("<r><t><a>2</a></t></r>")
    assert followed(path, lambda: (tmp_path / "b.xml").rename(path)) == ([1], None)


def test_it_goes_away_inside_a_document(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<r><t><a>1</a></t>")
    values, error = followed(path, path.unlink)
    assert values == [1]
    assert "cut short" in str(error)


def test_it_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<r><t><a>1</a></t></r>")
    values, error = followed(path, lambda: path.write_text("<r>"))
    assert values == [1]
    assert "shorter" in str(error)


def test_sources_that_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        open_source(f"follow:{tmp_path}")
    with pytest.raises(SourceError, match="No such file"):
        open_source(f"follow:{tmp_path}/none")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_and_growing(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Compressed streams that are appended to a file are read, too."""
    path = tmp_path / "a.xml.gz"
    path.write_bytes(pack(b"<r><t><a>1</a></t>"))

    def finish() -> None:
        with open(path, "ab") as file:
            file.write(pack(b"<t><a>2</a></t></r>"))
        path.unlink()

    assert followed(path, finish) == ([1, 2], None)
