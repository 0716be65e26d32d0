"""The lab's errors, each of them one line for a person."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot do what was asked.

    The text is one line that says what was wrong and what to do.
    """


class ScenarioFailed(LabError):  # noqa: N818 - says what happened, as ReplicaError's kinds do
    """A scenario did not reach its state on the brokers.

    The text says what was seen on which broker.
    """
