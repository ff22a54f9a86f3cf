"""Names of a package that are imported at first access."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def found_later(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that imports some of its modules at first access.

    ``homes`` maps each of these modules, relative to the package, to the names that it defines. The package repeats the
    imports under TYPE_CHECKING, for mypy and editors.
    """
    home_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names
