"""A part of ``parallax check``: whether Parallax may ask how far consumer groups have read."""

from __future__ import annotations

from collections.abc import Iterator

from parallax.check_line import Line, Result
from parallax.errors import one_line
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.replica.groups import GROUP_RIGHT

_ABOUT = "consumer groups"


def consumer_groups(client: ReplicaClient) -> Iterator[Line]:
    """Yield one line: whether the permission to describe consumer groups is granted.

    The job does not need it. ``parallax findings readers`` and reports use it.
    """
    try:
        may = client.may_describe_groups()
    except ReplicaError as error:
        yield Line(_ABOUT, Result.UNKNOWN, f"whether they may be described could not be asked ({one_line(error)}).")
        return
    if may:
        yield Line(_ABOUT, Result.FINE, "`parallax findings readers` and reports can say how far they have come.")
    else:
        problem = "is not granted: `parallax findings readers` and reports name only groups that it is granted on"
        yield Line(_ABOUT, Result.NOTE, f"{GROUP_RIGHT} {problem}. The job needs it for nothing.")


__all__ = ["consumer_groups"]
