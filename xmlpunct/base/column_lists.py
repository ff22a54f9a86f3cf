"""Who reads column lists: SQL, which lives above the schemas that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

read: Callable[[str], Any]
"""The schema that a column list says (`xmlpunct.schema.Schema.parse`). The package sets it when it is imported."""
