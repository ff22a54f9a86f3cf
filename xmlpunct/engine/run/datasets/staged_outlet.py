"""Outlets whose rows are staged by tasks on several machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from xmlpunct.connectors.outlet import Outlet
from xmlpunct.engine.run.datasets.chunks import KeyedChunk


class StagedOutlet(Outlet):
    """An outlet that makes its files from staged rows. All machines share its directory."""

    group_bytes = 0
    """Size of the last written group."""

    @property
    @abstractmethod
    def staging(self) -> Path:
        """The folder in which tasks stage rows."""

    @abstractmethod
    def stage(self, chunks: Sequence[KeyedChunk]) -> None:
        """Add staged rows to the group that is written next."""
