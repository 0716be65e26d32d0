"""The exceptions of the lab; the text of each is one line for a person."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do what the caller wanted.

    The text is one line that says what was wrong and what to do.
    """


class ScenarioFailed(LabError):  # noqa: N818 - says what happened, as ReplicaError's kinds do
    """A scenario was played, and the replicas did not come to differ as the scenario expects.

    The text says what each broker shows.
    """
