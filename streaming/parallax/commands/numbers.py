"""Numbers and names of topics as a person gives them, each with its bounds."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from parallax.model import MAX_BYTES, MAX_SECONDS, topic_name

MOST = 2**31 - 1
"""Of a broker's id, a partition's number and a step, as Kafka's protocol writes them in 32 bits."""
LARGEST_OFFSET = 2**63 - 1

NUMBER: Any = {"min": 0, "max": MOST}
OFFSET: Any = {"min": 0, "max": LARGEST_OFFSET}
BYTES: Any = {"min": 0, "max": MAX_BYTES, "metavar": "BYTES"}


def _is_a_number(value: float) -> float:
    if math.isnan(value):  # lies within all bounds
        raise typer.BadParameter("nan is no number of seconds; write one, such as 600")
    return value


SECONDS: Any = {"min": 0, "max": MAX_SECONDS, "callback": _is_a_number}
"""Bounds of options and arguments, as keyword arguments of Typer's."""


def _names_of_topics(value: Any) -> Any:
    for name in value if isinstance(value, list | tuple) else [value]:
        if name is not None:
            try:
                topic_name(name)
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None
    return value


TOPIC: Any = {"callback": _names_of_topics}
"""Of options and arguments that are a topic's name, or several."""

BrokerIds = Annotated[list[int] | None, typer.Option("--broker", help="Id of a broker; may be repeated.", **NUMBER)]


__all__ = ["BYTES", "LARGEST_OFFSET", "MOST", "NUMBER", "OFFSET", "SECONDS", "TOPIC", "BrokerIds"]
