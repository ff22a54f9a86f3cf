"""Names: a public name is defined by one module, and the name of a module is used once."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_project import MODULES, module_name

REPLACED_LATER = "one of its modules is to be replaced by a common mechanism"
SHARED_NAMES = {
    "covers": "the same relation, of patterns and of punctuations",
    "query": "the entry points of Python and of PySpark",
    "run": "the entry points of the two engines, and the driver of operators",
    "Part": REPLACED_LATER,
    "Piece": REPLACED_LATER,
    "Range": REPLACED_LATER,
    "Read": REPLACED_LATER,
    "Scan": REPLACED_LATER,
    "Uncut": REPLACED_LATER,
    "open_at": REPLACED_LATER,
    "release": REPLACED_LATER,
}
"""Public names that several modules define, each with the reason."""


def defined_names(tree: ast.Module) -> set[str]:
    """The public classes, functions and type aliases that a module defines."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            names |= {target.id} if not target.id.isupper() else set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names |= {node.target.id} if not node.target.id.isupper() else set()
    return {name for name in names if not name.startswith("_")}


def is_node_and_operator(modules: list[str]) -> bool:
    """True if the modules define a plan node and its operator."""
    folders = [module.removeprefix("xmlpunct.").rpartition(".")[0] for module in sorted(modules)]
    return len(folders) == 2 and folders[0] == "engine.plan" and folders[1].startswith("operators")


def test_a_public_name_is_defined_once() -> None:
    modules_of = defaultdict[str, list[str]](list)
    for path in MODULES:
        for name in defined_names(ast.parse(path.read_text())):
            modules_of[name].append(module_name(path))
    shared = {n: m for n, m in modules_of.items() if len(m) > 1 and not is_node_and_operator(m)}
    assert {name: modules for name, modules in shared.items() if name not in SHARED_NAMES} == {}
    assert set(SHARED_NAMES) <= set(shared)
    assert len(SHARED_NAMES) <= 20


def test_a_module_name_is_used_once() -> None:
    modules_of = defaultdict[str, list[str]](list)
    for path in MODULES:
        if path.stem not in ("__init__", "__main__"):
            modules_of[path.stem].append(module_name(path))
    assert [modules for modules in modules_of.values() if len(modules) > 1] == []
