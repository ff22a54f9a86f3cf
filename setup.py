"""What is compiled. All else that a build needs to know is in `pyproject.toml`."""

import os
import sys
import sysconfig

from setuptools import Extension, setup

PYTHON = (3, 11)
"""The oldest Python that the wheel runs on; with the limited API, so do all later ones."""

if sys.platform not in ("linux", "darwin"):
    sys.exit(f"xmlpunct runs on Linux and macOS, not on {sys.platform}. On Windows, install it in WSL.")

HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
"""A Python without the GIL has no limited API: what is compiled there is for that version alone."""
MACROS = [("Py_LIMITED_API", f"0x{PYTHON[0]:02x}{PYTHON[1]:02x}0000")] if HAS_LIMITED_API else []


def extension(name: str, sources: list[str], included: list[str]) -> Extension:
    """An extension in C. Without a compiler it is left out, unless XMLPUNCT_REQUIRE_EXTENSION=1 says otherwise."""
    return Extension(
        name,
        sources=sources,
        depends=included,
        define_macros=MACROS,
        py_limited_api=HAS_LIMITED_API,
        extra_compile_args=["-O3"],
        optional=os.environ.get("XMLPUNCT_REQUIRE_EXTENSION", "0") in ("", "0"),
    )


def firehose(*names: str) -> list[str]:
    return [f"xmlpunct/firehose/native/{name}" for name in names]


setup(
    ext_modules=[
        extension(
            "xmlpunct.firehose.native._native",
            firehose("native.c"),
            firehose("native.h", "scan.c", "tags.c", "rows.c", "around.c", "walk.c", "tokens.c", "values.c"),
        ),
        extension("xmlpunct.operators._hash_index", ["xmlpunct/operators/hash_index.c"], []),
    ],
    options={"bdist_wheel": {"py_limited_api": f"cp{PYTHON[0]}{PYTHON[1]}"}} if HAS_LIMITED_API else {},
)
