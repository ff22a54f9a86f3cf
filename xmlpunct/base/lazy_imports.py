"""Modules that are imported late: at the first access to one of their names, or when a library is needed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from xmlpunct.base.errors import UsageError


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
        with loading():
            value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names


@contextmanager
def loading() -> Iterator[None]:
    """Disable garbage collection during imports, which create many objects and no garbage: an eighth of the start.

    >>> with loading(): gc.isenabled()
    False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_extra(module: str, requirement: str, extra: str) -> ModuleType:
    """A module that an extra of this package installs. Raises `UsageError` if it is missing.

    >>> import_extra("no_such_module", "kafka:// needs confluent-kafka", "kafka")
    Traceback (most recent call last):
    xmlpunct.base.errors.UsageError: kafka:// needs confluent-kafka: pip install 'xmlpunct[kafka]'
    """
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(f"{requirement}: pip install 'xmlpunct[{extra}]'") from None
