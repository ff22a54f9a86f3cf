"""The project: layout, dependencies, public surface, and contents of the wheel."""

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
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import xmlpunct
from xmlpunct import operators
from xmlpunct.base import errors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xmlpunct"
PARTS = ("engine", "firehose", "operators")
MODULES = sorted(PACKAGE.rglob("*.py"))
FLOORS = (
    "base",
    "types",
    "schema",
    "punctuations",
    "slice",
    "expressions",
    "connectors",
    "firehose operators",
    "engine",
    "python spark",
    "__init__ __main__ cli",
)
"""The folders, from the ground up. A module imports from its own floor and from the floors below.

Of the two folders that share a floor, neither imports from the other.
"""
STRANGERS = {"operators": "firehose", "firehose": "operators"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(name: str) -> int:
    """The number of the floor on which a module of the package lives."""
    folder = name.removeprefix("xmlpunct").removeprefix(".") or "__init__"
    homes = {home: number for number, floor in enumerate(FLOORS) for home in floor.split()}
    while folder not in homes and "." in folder:
        folder = folder.rpartition(".")[0]
    assert folder in homes, f"{name} lives nowhere"
    return homes[folder]


def imports(path: Path) -> set[str]:
    """The modules of the package that a module imports, at its top or inside functions."""
    modules = set()
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
        modules |= {n for n in names if n.split(".")[0] == "xmlpunct"}
    return modules


NAMES = {module_name(path) for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_nobody_imports_from_a_higher_floor(path: Path) -> None:
    module = module_name(path)
    stranger = STRANGERS.get(module.split(".")[1] if "." in module else "")
    for imported in imports(path):
        assert floor_of(imported) <= floor_of(module), f"{module} imports {imported}, which is above it"
        assert stranger is None or not imported.startswith(f"xmlpunct.{stranger}"), (
            f"{module} knows {imported}"
        )


def test_there_is_no_import_circle() -> None:
    left = {module_name(path): imports(path) for path in MODULES}
    while free := [name for name, imported in left.items() if not imported & (left.keys() - {name})]:
        for name in free:
            del left[name]
    assert not left, f"import circle, or importers of one: {sorted(left)}"


@pytest.mark.parametrize(
    "folder", [PACKAGE, ROOT / "tests", ROOT / "benchmarks"], ids=lambda folder: folder.name
)
def test_no_module_is_long(folder: Path) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in folder.rglob("*.py")
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > 450} == {}


@pytest.mark.parametrize("path", sorted((PACKAGE / "operators").rglob("*.py")), ids=module_name)
def test_an_operator_is_a_screen_and_a_half_or_says_what_makes_it_longer(path: Path) -> None:
    text = path.read_text()
    if '\n    name = "' in text:
        reasons = (
            "it long",
            "the file long",
            "A class of its own",
            "a class of its own",
            "It has two operators",
        )
        docstring = ast.get_docstring(ast.parse(text)) or ""
        is_explained = any(reason in docstring for reason in reasons)
        assert is_explained or len(text.splitlines()) <= 100, "its first lines say which case makes it long"
        assert ">>> " in text


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
    named = {n for n in dir(xmlpunct) if not n.startswith("_")}
    assert {n for n in named if not inspect.ismodule(getattr(xmlpunct, n))} == set(xmlpunct.__all__)
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
        value = getattr(xmlpunct, name)
        if inspect.isclass(value):
            assert (vars(value).get("__doc__") or f"{name}(").startswith(f"{name}(") is False, name
        elif callable(value):
            assert value.__doc__, name


@pytest.mark.parametrize("package", [xmlpunct, operators], ids=lambda package: package.__name__)
def test_lazy_imports_equal_the_imports_for_mypy(package: ModuleType) -> None:
    """A package's lazily imported names equal its imports under TYPE_CHECKING."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    typed_imports = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    (call,) = (n for part in block.orelse for n in ast.walk(part) if isinstance(n, ast.Call))
    homes = ast.literal_eval(call.args[1])
    lazy_imports = {n: f"{package.__name__}.{home}" for home, names in homes.items() for n in names.split()}
    assert lazy_imports == typed_imports
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = package.Nothing


def setuptools_is_new_enough() -> bool:
    """True if the build backend is installed and supports SPDX licences."""
    if importlib.util.find_spec("setuptools") is None:
        return False
    from importlib.metadata import version

    return int(version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that a build reads."""
    if not setuptools_is_new_enough():
        pytest.skip("building needs setuptools>=77 in this environment")
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "setup.py", "pyspark_xmlpunct.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(PACKAGE, copy / "xmlpunct", ignore=ignored)
    for folder in ("tests", "samples", "man"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for part in PARTS:
        os.symlink(f"xmlpunct/{part}", copy / part)
    return copy


def built(kind: str, checkout: Path, out: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Build the wheel or the sdist offline."""
    build = f"from setuptools.build_meta import build_{kind}; build_{kind}({str(out)!r})"
    return subprocess.run(
        [sys.executable, "-c", build],
        cwd=checkout,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def without_compiler(folder: Path) -> dict[str, str]:
    """The settings of an environment whose compiler always fails."""
    false = shutil.which("false") or "false"
    return {"CC": false, "CXX": false, "PATH": str(folder)}


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    ran = built("sdist", checkout, out)
    assert ran.returncode == 0, ran.stderr
    return next(out.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist, which must therefore be complete."""
    if not shutil.which("cc"):
        pytest.skip("the extensions need a C compiler")
    out = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    ran = built("wheel", next(out.glob("xmlpunct-*")), out, XMLPUNCT_REQUIRE_EXTENSION="1")
    assert ran.returncode == 0, ran.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_is_for_all_pythons_and_has_the_extensions(wheel: Path) -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("a Python without the GIL has no limited API")
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    compiled = {n for n in names if n.endswith(".so")}
    assert compiled == {"xmlpunct/firehose/native/_native.abi3.so", "xmlpunct/operators/_hash_index.abi3.so"}
    assert not [n for n in names if n.endswith((".c", ".h"))]


def test_the_sdist_holds_the_sources_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    sources = {str(p.relative_to(ROOT)) for pattern in ("*.py", "*.c", "*.h") for p in PACKAGE.rglob(pattern)}
    assert sources <= names
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [n for n in names if n.startswith(("tests/", "samples/", "docs/")) or n.endswith(".so")]


def test_the_wheel_is_installed_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    """The package installed from the wheel uses its compiled XML reader."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not in this environment")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        "--target",
        "x",
        wheel,
    ]
    settings = {**os.environ, **without_compiler(tmp_path)}
    subprocess.run(install, cwd=tmp_path, env=settings, check=True, capture_output=True)
    ask = "import xmlpunct; from xmlpunct.firehose import native; print(xmlpunct.__file__, native.COMPILED)"
    settings["PYTHONPATH"] = str(tmp_path / "x")
    ran = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, env=settings, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == [str(tmp_path / "x" / "xmlpunct" / "__init__.py"), "True"]


def test_the_extension_can_be_made_obligatory(checkout: Path, tmp_path: Path) -> None:
    """Without a compiler, the wheel lacks the extension; if the variable is set, the build fails."""
    ran = built("wheel", checkout, tmp_path, **without_compiler(tmp_path), XMLPUNCT_REQUIRE_EXTENSION="1")
    assert ran.returncode != 0
    assert "/false'" in ran.stderr
    assert not list(tmp_path.glob("*.whl"))
    ran = built("wheel", checkout, tmp_path, **without_compiler(tmp_path), XMLPUNCT_REQUIRE_EXTENSION="0")
    assert ran.returncode == 0, ran.stderr
    (wheel_file,) = tmp_path.glob("*.whl")
    assert not [n for n in zipfile.ZipFile(wheel_file).namelist() if n.endswith(".so")]


def test_other_systems_are_refused(checkout: Path) -> None:
    pretend = "import sys; sys.platform = 'win32'; exec(open('setup.py').read())"
    ran = subprocess.run(
        [sys.executable, "-c", pretend], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == "xmlpunct runs on Linux and macOS, not on win32. On Windows, install it in WSL.\n"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {
        "xmlpunct",
        "pyspark_xmlpunct.py",
        f"xmlpunct-{xmlpunct.__version__}.data",
    }
    assert [n.partition(".data/")[2] for n in names if ".data/" in n] == ["data/share/man/man1/xmlpunct.1"]
    assert "xmlpunct/py.typed" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    modules = {str(p.relative_to(ROOT)) for p in MODULES}
    assert {n for n in names if n.endswith(".py")} == modules | {"pyspark_xmlpunct.py"}
    for part in PARTS:
        assert f"xmlpunct/{part}/__init__.py" in names


def test_the_wheel_names_its_command_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = {n.split("/")[1]: archive.read(n).decode() for n in archive.namelist() if ".dist-info/" in n}
    assert "xmlpunct = xmlpunct.cli:main" in text["entry_points.txt"]
    assert "License-Expression: Apache-2.0" in text["METADATA"]
    assert text["top_level.txt"].split() == ["pyspark_xmlpunct", "xmlpunct"]
