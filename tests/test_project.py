"""The project as a whole: layout, dependencies, public surface, and what the wheel holds."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import xmlpunct
from xmlpunct import errors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xmlpunct"
PARTS = ("engine", "firehose", "operators")
MODULES = sorted(PACKAGE.rglob("*.py"))
FLOORS = (
    "secrets",
    "errors arrow escapes names overlooked unrolled",
    "paths",
    "doubles types forks",
    "frames codec",
    "punctuations.pattern punctuations.cuts punctuations.text punctuations.intervals punctuations.numbered",
    "schema provenance changes",
    "arrays",
    "punctuations",
    "slice",
    "punctuations.lateness",
    "expressions",
    "firehose operators",
    "engine",
    "library results connectors spark",
    "__init__ __main__ cli",
)
"""The house, from the ground up: modules and packages, the more exact name before the less exact one.

Whoever lives on a floor imports from it and from those below. Of those who share one, operators and firehose know
nothing of each other.
"""
STRANGERS = {"operators": "firehose", "firehose": "operators"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(name: str) -> int:
    """The number of the floor on which a module of the package lives."""
    own = name.removeprefix("xmlpunct").removeprefix(".") or "__init__"
    homes = {home: number for number, floor in enumerate(FLOORS) for home in floor.split()}
    while own not in homes and "." in own:
        own = own.rpartition(".")[0]
    assert own in homes, f"{name} lives nowhere"
    return homes[own]


def imports(path: Path) -> set[str]:
    """The modules of the package that a module imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            assert node.module is not None
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in NAMES else node.module for name in names]
        else:
            continue
        assert not {n.split(".")[0] for n in names} & set(PARTS), f"{path.name} imports through a link"
        found |= {n for n in names if n.split(".")[0] == "xmlpunct"}
    return found


NAMES = {module_name(path) for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_nobody_imports_from_a_higher_floor(path: Path) -> None:
    mine = module_name(path)
    stranger = STRANGERS.get(mine.split(".")[1] if "." in mine else "")
    for other in imports(path):
        assert floor_of(other) <= floor_of(mine), f"{mine} imports {other}, which is above it"
        assert stranger is None or not other.startswith(f"xmlpunct.{stranger}"), f"{mine} knows {other}"


def test_there_is_no_import_circle() -> None:
    left = {module_name(path): imports(path) for path in MODULES}
    while free := [name for name, others in left.items() if not others & (left.keys() - {name})]:
        for name in free:
            del left[name]
    assert not left, f"these import each other, or what does: {sorted(left)}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_no_module_is_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 450


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_docstrings_run(path: Path) -> None:
    if ">>>" not in path.read_text():
        return
    try:
        module = importlib.import_module(module_name(path))
    except ModuleNotFoundError as error:  # an extra that is not installed here
        pytest.skip(str(error))
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_are_reachable_at_the_top_through_relative_links(part: str) -> None:
    link = ROOT / part
    assert link.is_symlink()
    assert os.readlink(link) == f"xmlpunct/{part}"
    assert (link / "__init__.py").is_file()


def test_the_public_api_is_complete_sorted_and_documented() -> None:
    assert xmlpunct.__all__ == sorted(xmlpunct.__all__)
    assert len(set(xmlpunct.__all__)) == len(xmlpunct.__all__)
    named = {n for n, v in vars(xmlpunct).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert named - {"annotations"} <= set(xmlpunct.__all__)
    promised = {
        "Schema",
        "Punctuation",
        "PunctuationSet",
        "Slice",
        "match",
        "combine",
        "covers",
        "parse",
        "slices",
        "query",
    }
    raised = {n for n, e in vars(errors).items() if inspect.isclass(e) and issubclass(e, Exception)}
    assert promised | raised <= set(xmlpunct.__all__)
    for name in xmlpunct.__all__:
        thing = getattr(xmlpunct, name)
        if inspect.isclass(thing):
            assert (vars(thing).get("__doc__") or f"{name}(").startswith(f"{name}(") is False, name
        elif callable(thing):
            assert thing.__doc__, name


def setuptools_is_new_enough() -> bool:
    """Whether the build backend is here: it must know SPDX licences."""
    if importlib.util.find_spec("setuptools") is None:
        return False
    from importlib.metadata import version

    return int(version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline from a copy of what a checkout holds."""
    if not setuptools_is_new_enough():
        pytest.skip("building needs setuptools>=77 in this environment")
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, copy / "xmlpunct", ignore=ignored)
    for folder in ("tests", "samples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for part in PARTS:
        os.symlink(f"xmlpunct/{part}", copy / part)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"xmlpunct"}
    assert "xmlpunct/py.typed" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    modules = {str(p.relative_to(ROOT)) for p in MODULES}
    assert {n for n in names if n.endswith(".py")} == modules
    for part in PARTS:
        assert f"xmlpunct/{part}/__init__.py" in names


def test_the_wheel_names_its_command_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = {n.split("/")[1]: archive.read(n).decode() for n in archive.namelist() if ".dist-info/" in n}
    assert "xmlpunct = xmlpunct.cli:main" in text["entry_points.txt"]
    assert "License-Expression: Apache-2.0" in text["METADATA"]
    assert text["top_level.txt"].split() == ["xmlpunct"]
