"""Conditions as delta-rs takes them: which rows an SQL query asks for, and which files of a table may have such rows.

A table's log has the lowest and the highest value of some columns of each file. So a file that cannot have a wanted row
is left out before it is opened. A file without these values is kept.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from parallax.model import TopicPartition

_EPOCH = datetime.fromtimestamp(0, UTC)


def of_partition(place: TopicPartition) -> str:
    """The condition on rows of a view, or of the table of progress, that they are of one partition.

    Args:
        place: the partition.
    """
    topic = place.topic.replace("'", "''")
    return f"""topic = '{topic}' AND "partition" = {int(place.partition)}"""


def literal(at: datetime) -> str:
    """A moment, as a value to compare a column of timestamps with.

    Args:
        at: the moment, with a time zone.
    """
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


__all__ = ["literal", "of_partition"]
