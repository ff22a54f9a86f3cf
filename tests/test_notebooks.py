"""The notebooks of docs/notebooks run, and their outputs are the stored ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.site import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def outputs(notebook: Any) -> list[str]:
    """The text below each cell of code. The kernel may send what one cell prints in several pieces."""
    return [
        "".join(o["text"] if "text" in o else o["data"]["text/plain"] for o in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # of Jupyter
def test_a_notebook_prints_its_stored_outputs(path: Any) -> None:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: --group docs")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: --group docs")
    import nbformat

    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    executed = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(executed, kernel_name="python3", timeout=120, resources=resources).execute()
    assert outputs(executed) == outputs(stored)
    assert sum(map(bool, outputs(stored))) > 5


def test_there_are_two_notebooks() -> None:
    index = (ROOT / "docs" / "notebooks" / "README.md").read_text()
    assert [path.name for path in NOTEBOOKS if f"({path.name})" in index] == [
        "documents.ipynb",
        "streams.ipynb",
    ]
