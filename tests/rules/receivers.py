"""Receivers of the shipped configuration of Alertmanager, with other services than webhooks turned on by its words."""

from __future__ import annotations

import re
from collections.abc import Collection

FILL_IN = re.compile(r"(?m)^ *(?:- )?(\w+): \S+ # FILL IN")
"""A line that a person fills in, with the option that it sets."""


def turned_on(shipped: str, service: str, receivers: Collection[str]) -> str:
    """The configuration in which receivers have another service in place of their webhook.

    Args:
        shipped: the text of the configuration.
        service: the service's section, such as ``slack_configs``.
        receivers: their names.
    """
    head, *blocks = re.split(r"(?m)^(?=- name: )", shipped)
    for number, block in enumerate(blocks):
        name = block.split()[2]
        if name in receivers:
            without = re.sub(r"(?m)^  webhook_configs:\n(?:  [- ] .*\n)+", "", block)
            section = rf"(?m)^  # {service}:\n(?:  # [- ] .*\n)+"
            blocks[number], count = re.subn(section, lambda found: found[0].replace("  # ", "  "), without)
            assert count == 1, f"{name} has no {service}"
    return head + "".join(blocks)


__all__ = ["FILL_IN", "turned_on"]
