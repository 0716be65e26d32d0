"""A part of ``parallax check``: whether Strimzi runs the cluster, and so undoes what the guard does.

Strimzi's Topic Operator sets back the settings of topics that the guard changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from parallax.check_line import Line, Result
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

_POD = re.compile(r"(?:^|[./])[a-z0-9-]+\.([a-z0-9-]+)-kafka-brokers\.([a-z0-9-]+)\.svc\b")
"""A broker's name within Kubernetes: its pod, and the headless service that Strimzi makes for each cluster."""
_LISTENERS = "advertised.listeners"
"""Brokers reach each other by the names in this setting, whatever the clients' listener advertises."""


def reverted(client: ReplicaClient, mode: str) -> Iterator[Line]:
    """Yield a note that Strimzi will undo the guard's changes, if Strimzi runs the brokers; otherwise nothing.

    Args:
        client: asks the brokers.
        mode: ``guard.mode``, which is not ``off``.
    """
    addresses = client.brokers()
    shown = [host for host, _ in addresses.values()]
    for broker in sorted(addresses):
        try:
            given = client.broker_configs(broker, [_LISTENERS])
        except ReplicaError:
            continue
        if not isinstance(given, ReplicaError):
            shown.append(given.get(_LISTENERS, ""))
        break  # all of them are named alike
    found = next((named for text in shown if (named := _POD.search(text))), None)
    if found is None:
        return
    problem = (
        "its Topic Operator sets back each setting that a KafkaTopic does not name, and with it what the guard holds"
    )
    hint = 'annotate the KafkaTopics that it may hold with strimzi.io/managed: "false", or set guard.mode to off.'
    what = f"Strimzi runs this cluster, {found[1]} in namespace {found[2]}: {problem}"
    yield Line("guard", Result.NOTE, f"guard.mode is {mode}. {what}; {hint}")


__all__ = ["reverted"]
