from __future__ import annotations

from uuid import UUID

import pytest
from kafka.protocol.metadata import MetadataResponse

from parallax.replica.requests import may_alter_configs_of, topics_of

TOPIC = MetadataResponse.MetadataResponseTopic
SOME = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("given", "known"),
    [
        pytest.param(SOME, "ABEiM0RVZneImaq7zN3u_w", id="as kafka-topics.sh prints it"),
        pytest.param(UUID(int=0), "", id="the zero id names no topic"),
        pytest.param(None, "", id="the version has none"),
    ],
)
@pytest.mark.parametrize("code", [0, 29])
def test_a_topics_id_is_known_only_where_the_broker_gives_one(given: UUID | None, known: str, code: int) -> None:
    response = MetadataResponse(topics=[TOPIC(name="t", topic_id=given, error_code=code, partitions=[])])
    assert topics_of(response)["t"].topic_id == known


def test_what_may_be_done_with_a_topic_is_known_only_where_the_broker_says_so() -> None:
    given = {"reads": {3, 8, 10}, "alters": {3, 8, 10, 11}, "unsaid": None}
    topics = [TOPIC(name=name, authorized_operations=may, partitions=[]) for name, may in given.items()]
    hidden = TOPIC(name="hidden", error_code=29, authorized_operations={11}, partitions=[])
    assert may_alter_configs_of(MetadataResponse(topics=[*topics, hidden])) == {"reads": False, "alters": True}
