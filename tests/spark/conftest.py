"""One Spark session for all tests: starting one takes longer than most of what is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.support import Warehouse
from xmlpunct.engine.spark.spark_session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    with spark_session("local[2]") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")  # not 200, for what tests do with it themselves
        yield session


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(tmp_path_factory.mktemp("warehouse"))
