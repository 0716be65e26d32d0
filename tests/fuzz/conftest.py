from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.kafka import Kafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    jvm = Kafka(tmp_path_factory.mktemp("kafka-records") / "jvm.log")
    yield jvm
    jvm.close()
