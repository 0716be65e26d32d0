"""The tasks of a process: claims that each get a probe of their own, at a given time.

A task is about a suspect, or about a finding that is checked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from parallax.findings.claim import Claim
from parallax.findings.groups import group_of_claim, is_held
from parallax.findings.members import NO_COUNTS, Counts, MemberGroup
from parallax.model import TopicPartition


@dataclass(slots=True)
class Task:
    """One claim that waits for its own probe: that of a suspect, or of a finding that is checked again.

    Attributes:
        claim: the claim that the probe asks about.
        number: unique among the tasks of the process; 0 for a member of a group, which is probed together with others.
        due: when to probe, in seconds of the monotonic clock.
        finding_id: id of the finding that is checked again; None for a suspect; empty for a member of an incident,
            which has no finding of its own.
        attempts: how many probes of the claim have decided nothing.
        counts: how many of its probes came to the same result, e.g. how many in a row found that the topic is gone.
            They are counted where one probe alone does not decide.
        reason: why the last probe left the claim undecided, in one line for people; empty before that.
        busy: whether a probe of the claim is running, or the event that follows from the probe is being written.
        asked_ms: when the running or last probe was sent, milliseconds since 1970 UTC.
    """

    claim: Claim
    number: int = 0
    due: float = 0.0
    finding_id: str | None = None
    attempts: int = 0
    counts: Counts = NO_COUNTS
    reason: str = ""
    busy: bool = False
    asked_ms: int = 0

    @property
    def name(self) -> str:
        """The task's name: its suspect id, or ``finding:`` and its finding id.

        A newer task replaces one of the same name.
        """
        return self.claim.suspect_id if self.finding_id is None else f"finding:{self.finding_id}"

    @property
    def is_counted(self) -> bool:
        """Whether the claim is a member of an incident, so that it has no finding of its own."""
        return self.finding_id == ""


class Tasks:
    """All tasks of a process, found by number or name. Tasks about suspects are also found by partition."""

    def __init__(self) -> None:
        self._by_number: dict[int, Task] = {}
        self._by_name: dict[str, int] = {}
        self._suspects: dict[TopicPartition, dict[int, Task]] = {}
        self.alone: Counter[MemberGroup] = Counter()
        """How many suspects of each group are probed one by one and may be put together into a group."""
        self._last = 0

    def put(self, claim: Claim, due: float, finding_id: str | None = None) -> None:
        """Add a task, in place of the one that has the same `Task.name`.

        Args:
            claim: the claim that the probe asks about.
            due: when to probe, in seconds of the monotonic clock.
            finding_id: id of the finding that is checked again; None for a suspect.
        """
        self._last += 1
        task = Task(claim, self._last, due, finding_id)
        self.drop(task.name)
        self._by_number[task.number] = task
        self._by_name[task.name] = task.number
        if finding_id is None:
            self._suspects.setdefault(claim.place, {})[task.number] = task
            if is_held(claim):
                self.alone[group_of_claim(claim)] += 1

    def drop(self, name: str) -> None:
        """Remove the task that has the name ``name`` (`Task.name`), if there is one."""
        number = self._by_name.pop(name, None)
        if number is None:
            return
        claim = self._by_number.pop(number).claim
        place = claim.place
        suspects = self._suspects.get(place, {})
        if suspects.pop(number, None) is not None and is_held(claim):
            group = group_of_claim(claim)
            self.alone[group] -= 1
            if not self.alone[group]:
                del self.alone[group]
        if not suspects:
            self._suspects.pop(place, None)

    def numbered(self, number: int) -> Task | None:
        """Return the task that has the number ``number`` (`Task.number`).

        None if it was removed, or if a newer task of the same name has replaced it.
        """
        return self._by_number.get(number)

    def named(self, name: str) -> Task | None:
        """Return the task that has the name ``name`` (`Task.name`), e.g. a suspect id; None if there is none."""
        number = self._by_name.get(name)
        return None if number is None else self._by_number[number]

    def suspects_of(self, place: TopicPartition) -> Iterable[Task]:
        """Return the tasks about suspects of one partition."""
        return self._suspects.get(place, {}).values()

    def suspects(self) -> Iterator[Task]:
        """Iterate over the tasks about suspects."""
        for tasks in self._suspects.values():
            yield from tasks.values()

    def idle(self) -> Iterator[Task]:
        """Iterate over the tasks that may be probed now.

        A task is left out while its probe is running, or while the event of its last probe is being written.
        """
        return (task for task in self._by_number.values() if not task.busy)
