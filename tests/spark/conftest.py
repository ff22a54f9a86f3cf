"""One Spark session for all tests, because its start takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.support import Warehouse
from xmlpunct.engine.spark.spark_session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    with spark_session("local[2]") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")  # instead of 200, for the tests' own shuffles
        yield session


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(tmp_path_factory.mktemp("warehouse"))
