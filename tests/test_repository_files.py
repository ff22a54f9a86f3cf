"""Files for visitors of the repository: the Dockerfile, the security policy, the forms for issues."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.site import ROOT
from tests.test_project import setuptools_is_new_enough
from xmlpunct.cli import COMMANDS
from xmlpunct.cli.run import run_command


@dataclass
class Image:
    """A stage of a Dockerfile, as a folder. Its commands run in a fresh environment without a network.

    The dependencies are those of the test's own environment.
    """

    root: Path
    folder: str = "/"
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", self.root / "venv"], check=True)
        (library,) = self.root.glob("venv/lib/python*/site-packages")
        for old in library.glob("*setuptools*"):  # Python 3.11 brings one that is too old
            shutil.rmtree(old)
        (library / "dependencies.pth").write_text(
            "\n".join(p for p in sys.path if p.endswith("site-packages"))
        )

    def path(self, path: str) -> Path:
        return self.root / str(Path(self.folder, path)).lstrip("/")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        pip = {
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_IGNORE_INSTALLED": "1",
        }
        path = f"{self.root / 'venv' / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-euc", command],
            cwd=self.path("."),
            env={**os.environ, **pip, **self.variables, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )


def ignored(path: str) -> bool:
    """True if .dockerignore excludes a path at the top of the repository."""
    return f"!{path}" not in (ROOT / ".dockerignore").read_text().splitlines()


def build(text: str, folder: Path) -> tuple[Image, list[str]]:
    """The image that a Dockerfile builds, and its entry point. Raises KeyError for an unknown instruction."""
    images: dict[str, Image] = {}
    image, entry = None, []
    for line in text.splitlines():
        instruction, _, rest = line.partition(" ")
        words = shlex.split(rest)
        if not line or line.startswith("#"):
            continue
        if instruction == "FROM":
            name = words[2] if len(words) > 2 else "last"
            image = images[name] = Image(folder / name)
            continue
        assert image is not None
        match instruction:
            case "ARG":
                name, _, value = rest.partition("=")
                image.variables[name] = value
            case "WORKDIR":
                image.folder = rest
                image.path(".").mkdir(parents=True, exist_ok=True)
            case "COPY" if words[0].startswith("--from="):
                source = images[words[0].removeprefix("--from=")].path(words[1])
                shutil.copytree(source, image.path(words[2]))
            case "COPY":
                *sources, target = words
                for source in sources:
                    assert not ignored(source), f"{source} is in .dockerignore"
                    skipped = shutil.ignore_patterns("__pycache__", "*.so")
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, image.path(target), ignore=skipped)
                    else:
                        shutil.copy(ROOT / source, image.path(target))
            case "RUN":
                ran = image.run(rest)
                assert ran.returncode == 0, ran.stderr
            case "ENTRYPOINT":
                entry = json.loads(rest)
            case "USER":
                assert rest == "nobody"
            case _:
                raise KeyError(instruction)
    assert image is not None
    return image, entry


@pytest.mark.skipif(not setuptools_is_new_enough(), reason="building needs setuptools>=77")
@pytest.mark.skipif(shutil.which("cc") is None, reason="the extensions need a C compiler")
def test_the_steps_of_the_dockerfile(tmp_path: Path) -> None:
    """Each step runs, and the image answers a query over a mounted folder with the compiled reader."""
    image, entry = build((ROOT / "Dockerfile").read_text(), tmp_path)
    image.path("samples").symlink_to(ROOT / "samples")
    query = """ "SELECT COUNT(*) AS n FROM 'samples/orders.xml'" --format csv --engine local"""
    ran = image.run(shlex.join(entry) + query)
    assert ran.stdout == "n\n4\n", ran.stderr
    compiled = "from xmlpunct.firehose import native; print(native.COMPILED, native.__file__)"
    ran = image.run(f"python -c '{compiled}'")
    assert ran.stdout.startswith(f"True {image.root}")
    assert not image.path("/install/wheels").exists()


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_for_issues(path: Path) -> None:
    """A form has what GitHub demands, different ids, and names options and commands that exist."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: --group docs")
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= form.keys() <= {"name", "description", "labels", "body"}
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 1
    for item in form["body"]:
        assert item["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert "value" in item["attributes"] or item["attributes"]["label"]
    options = {option for param in run_command.params for option in param.opts} | {"--version"}
    assert set(re.findall(r"--[a-z]+", path.read_text())) <= options
    assert set(re.findall(r"`xmlpunct (\w+)", path.read_text())) <= COMMANDS.keys()


def test_there_are_forms() -> None:
    assert [path.stem for path in FORMS] == ["ability", "error", "slow"]
