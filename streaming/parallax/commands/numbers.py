"""The options and arguments that are numbers, times or topic names. Each kind has its bounds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from parallax.model import MAX_BYTES, MAX_SECONDS, topic_name
from parallax.moments import moment

MOST = 2**31 - 1
"""The largest broker id, partition number and step number: 32 bits, as in Kafka's protocol."""
LARGEST_OFFSET = 2**63 - 1


def _within(low: float, high: float) -> Any:
    """Bounds as a callback: as Typer's own, they would stand in every help."""

    def check(value: Any) -> Any:
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and not low <= one <= high:  # nan is within no bounds
                raise typer.BadParameter(f"{one} is not within {low} and {high}")
        return value

    return check


NUMBER: Any = {"callback": _within(0, MOST)}
STEP: Any = {"callback": _within(1, MOST)}
OFFSET: Any = {"callback": _within(0, LARGEST_OFFSET)}
BYTES: Any = {"callback": _within(0, MAX_BYTES)}
SECONDS: Any = {"callback": _within(0, MAX_SECONDS)}
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
"""The check of options and arguments that are topics' names, as keyword arguments of Typer's."""


def _moment(text: str) -> datetime:
    try:
        return moment(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time; write it as 2026-01-02 or 2026-01-02T12:03:05Z") from None


TIME: Any = {"parser": _moment, "metavar": "TIME"}
"""Options that are times in UTC, as keyword arguments of Typer's."""

BrokerIds = Annotated[list[int] | None, typer.Option("--broker", help="Id of a broker; may be repeated.", **NUMBER)]


__all__ = ["BYTES", "LARGEST_OFFSET", "MOST", "NUMBER", "OFFSET", "SECONDS", "STEP", "TIME", "TOPIC", "BrokerIds"]
