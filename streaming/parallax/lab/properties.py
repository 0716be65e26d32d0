"""Makes the ``server.properties`` of a lab's brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parallax.lab.broker import Broker

BROKER_SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    # A broker that dies leaves the ISR after this; it counts on the controllers, which these brokers are too.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "100",
    # Records that say nothing, twice a second by default: a quarter of what brokers cost that do nothing.
    "metadata.max.idle.interval.ms": "10000",
    # What takes Kafka a day by default takes the lab some seconds.
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "500",
    "producer.id.expiration.ms": "5000",
    "producer.id.expiration.check.interval.ms": "1000",
}
"""Settings that differ from Kafka's defaults (its configuration reference, LogCleanerManager, ProducerStateManager)."""


def server_properties(broker: Broker, brokers: Collection[Broker], settings: Mapping[str, str]) -> str:
    """The text of a broker's ``server.properties``, for a KRaft cluster whose controllers are brokers as well.

    Args:
        broker: the broker.
        brokers: all brokers of the cluster.
        settings: further settings by name; they come last in the file, so they override the ones made here.
    """
    replication = str(min(3, len(brokers)))
    listeners, advertised = [f"PLAINTEXT://{broker.address}"], [f"PLAINTEXT://{broker.address}"]
    if broker.proxied is not None:
        listeners.append(f"PROXIED://127.0.0.1:{broker.proxied.port}")
        advertised.append(f"PROXIED://127.0.0.1:{broker.proxied.advertised_port}")
    controller = [f"CONTROLLER://127.0.0.1:{broker.controller_port}"] if broker.controller else []
    properties = {
        "process.roles": "broker,controller" if broker.controller else "broker",
        "node.id": str(broker.id),
        "controller.quorum.voters": ",".join(f"{b.id}@127.0.0.1:{b.controller_port}" for b in brokers if b.controller),
        "listeners": ",".join([*listeners, *controller]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(broker.folder / "data"),
        "default.replication.factor": replication,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        **settings,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())
