"""The forms of tuples for other libraries, which `Slice` and `QueryResults` share."""

from __future__ import annotations

from abc import abstractmethod
from importlib.util import find_spec
from typing import Any

import polars as pl

from xmlpunct.base.errors import UsageError


class TabularForms:
    """Tuples as a table of polars, pyarrow or pandas. A subclass defines `to_polars` and `columns`."""

    __slots__ = ()

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """The tuples as one data frame.

        Returns
        -------
        polars.DataFrame
        """

    def to_arrow(self) -> Any:
        """The tuples as a table of pyarrow.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> import xmlpunct
        >>> xmlpunct.query("SELECT * FROM b", b=b"<d><b><n>1</n></b><b><n>2</n></b></d>").to_arrow().to_pydict()
        {'n': [1, 2]}
        """
        return self.to_polars().to_arrow()

    def to_pandas(self) -> Any:
        """The tuples as a data frame of pandas, which must be installed.

        Returns
        -------
        pandas.DataFrame
            As of polars' ``to_pandas``: a column of INT with nulls has floats.

        Raises
        ------
        UsageError
            If pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise UsageError("pandas is not installed: pip install pandas")
        return self.to_polars().to_pandas()
