"""On small documents of many vocabularies, inference proposes the element that a person would.

In the fixture, a line ``= element: vocabulary`` begins a document. A line that begins with a number is repeated,
with the number of the copy in place of ``#``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xmlpunct.connectors.source import Source
from xmlpunct.firehose.infer.document import infer, take_sample

FIXTURE = Path(__file__).parents[1] / "fixtures" / "vocabularies.txt"
DOCUMENTS = re.findall(r"^= (\S+): (.+)\n((?:[^=].*\n)+)", FIXTURE.read_text(), re.MULTILINE)


def copies(line: str) -> str:
    """The copies of a line."""
    number, space, template = line.partition(" ")
    if not (space and number.isdigit()):
        return line
    return "".join(template.replace("#", str(i)) for i in range(1, int(number) + 1))


def test_there_are_many_vocabularies() -> None:
    assert len(DOCUMENTS) == FIXTURE.read_text().count("\n= ") + 1 >= 30


@pytest.mark.parametrize(
    ("element", "vocabulary", "lines"), DOCUMENTS, ids=[name for _, name, _ in DOCUMENTS]
)
def test_inference_proposes_the_element_that_a_person_would(
    element: str, vocabulary: str, lines: str
) -> None:
    document = "".join(map(copies, lines.splitlines()))
    sample, _ = take_sample(Source.of(document.encode(), vocabulary))
    assert infer(sample).element.rpartition("}")[2] == element
