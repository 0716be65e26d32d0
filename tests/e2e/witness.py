"""What brokers themselves say was asked of them: their request logs, and what their authorizer refused.

``kafka.request.logger`` writes each request with its kind and who sent it (RequestConvertToJson), and
``kafka.authorizer.logger`` each operation that it denies (StandardAuthorizerData). Neither knows of Parallax.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.cluster import Cluster
from tests.e2e.secured import addresses, brokers_that_ask

READING = frozenset({
    "API_VERSIONS",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_PRODUCERS",
    "FETCH",
    "LIST_OFFSETS",
    "LIST_TRANSACTIONS",
    "METADATA",
})  # fmt: skip
"""The kinds of requests that a job with ``guard.mode: off`` may send; none of them changes anything."""
LOGGED = ("-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug",)
"""Has brokers of the lab write down each request; what is denied they write down anyway."""
USER = "watcher"
_PASSWORD = "only-reads"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_ASKS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'{_LOGIN} user_{USER}="{_PASSWORD}";',
}
_BY_USER = f'"principal":"User:{USER}","listener"'
_COMPLETED = "Completed request:"


def witnessed(version: str = DEFAULT_KAFKA_VERSION) -> Cluster:
    """Three brokers with an authorizer that write down each request; whoever comes by ``bootstrap_servers`` may all."""
    return brokers_that_ask("SASL_PLAINTEXT", _ASKS, version, LOGGED)


def options(cluster: Cluster) -> dict[str, str]:
    """Options of the user who has the rights that docs/operate/security.md asks for, and no other."""
    return {
        "bootstrap.servers": addresses(cluster),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": _PASSWORD,
    }


def grant_reading(cluster: Cluster, *prefixes: str) -> None:
    """Give the user the rights of docs/operate/security.md, on topics whose names begin so, and on no other."""
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    of_topics = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    wanted = [
        *((ResourceType.TOPIC, name, ResourcePatternType.PREFIXED, one) for name in prefixes for one in of_topics),
        (ResourceType.TOPIC, "__transaction_state", literal, AclOperation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, "*", literal, AclOperation.DESCRIBE),
        # librdkafka's name of the cluster
        (ResourceType.BROKER, "kafka-cluster", literal, AclOperation.DESCRIBE_CONFIGS),
    ]
    acls = [AclBinding(kind, name, how, f"User:{USER}", "*", one, allow) for kind, name, how, one in wanted]
    for future in cluster.admin.create_acls(acls, request_timeout=30).values():
        future.result(30)


def requests(cluster: Cluster, by: str = _BY_USER) -> Iterator[dict[str, Any]]:
    """What the brokers have written down of one sender's requests, each as Kafka's JSON of it."""
    for broker in cluster.brokers.values():
        with broker.log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _, is_one, text = line.partition(_COMPLETED)
                if is_one and by in text:
                    yield json.loads(text)


def kinds(cluster: Cluster, by: str = _BY_USER) -> set[str]:
    """The kinds of requests of one sender that any broker has answered."""
    found = set()
    for broker in cluster.brokers.values():
        with broker.log.open(encoding="utf-8", errors="replace") as lines:
            said = (line for line in lines if _COMPLETED in line and by in line)
            found |= {name for line in said for name in re.findall(r'"requestApiKeyName":"(\w+)"', line)}
    return found


def denied(cluster: Cluster) -> list[str]:
    """What the authorizer of any broker has refused to the user."""
    found = []
    for broker in cluster.brokers.values():
        text = broker.log.read_text(encoding="utf-8", errors="replace")
        found += re.findall(rf"Principal = User:{USER} is Denied operation = .*", text)
    return found
