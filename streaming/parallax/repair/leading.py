"""Decides which replicas of a partition may lead, by findings, coverage and the guard's clock. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from parallax.compare.observations import READ_UNCOMMITTED
from parallax.compare.suspect import Coverage
from parallax.counts import agreed, counted
from parallax.findings.finding import Finding
from parallax.findings.hanging_life import Hanging
from parallax.findings.leading import Fitness, May, leads_wrongly, may_lead
from parallax.guard.absences import Absences
from parallax.guard.words import in_words, late_in_short
from parallax.kinds import KINDS, Extent
from parallax.model import UNKNOWN, TopicPartition, UnknownReason

_LASTING = (
    UnknownReason.BEFORE_FIRST_READING,
    UnknownReason.RETENTION_GAP,
    UnknownReason.DEFERRED,
    UnknownReason.SKIPPED,
    UnknownReason.UNAUTHORIZED,
)
"""Why offsets have no verdict until somebody does something. Other reasons end by reading, or never."""


ALONE = "topics.brokers lets no other replica be read, so it is compared with none"
"""Why nobody can tell of a replica that agrees with all that are watched."""


def uncompared(coverage: Coverage | None) -> list[str]:
    """Reasons, as phrases, why it is unknown whether a partition's replicas agree, e.g. offsets without verdict.

    Empty if there is none. Offsets that become known as readers go on, or that nobody can ever compare, are no reason.

    Args:
        coverage: the partition's coverage, without unknown offsets that an audit has compared since; None if the
            partition was not compared yet.
    """
    if coverage is None:
        return ["it was not compared yet: ask again once it was"]
    lasting = [*_LASTING, *([UnknownReason.LOG_START_DIFFERS] if coverage.begins_apart else [])]
    found = {reason: max(coverage.unknown_for(reason)) for reason in lasting}
    left = [
        f"{counted(n, 'offset')} without verdict ({reason.replace('_', ' ')}{_until(reason, coverage)})"
        for reason, n in found.items()
        if n
    ]
    return left + ([f"it could not be compared ({coverage.error})"] if coverage.error else [])


def _lost(coverage: Coverage | None) -> Iterator[str]:
    """That all replicas lack offsets which nobody read before they were lost, as a phrase."""
    if coverage is not None and (count := max(coverage.unknown_for(UnknownReason.LOST_UNREAD))):
        yield f"no replica holds {counted(count, 'offset')} that nothing may have removed, so no election helps"


def _until(reason: UnknownReason, coverage: Coverage) -> str:
    """What ends it that offsets have no verdict, as the rest of a phrase."""
    if any(span.reason is reason for span in coverage.unread):
        return ", until an audit by the job"
    if reason is UnknownReason.BEFORE_FIRST_READING:
        return ", until every replica is read"
    return ", until the right is granted" if reason is UnknownReason.UNAUTHORIZED else ""


def _waiting_in_words(suspects: int) -> str:
    """A phrase that says that suspects of a partition have no verdict yet: ``2 suspects are being checked``."""
    return f"{counted(suspects, 'suspect')} {agreed(suspects, 'is', 'are')} being checked: ask again in a minute"


_BEYOND = "nothing beyond is compared in read_committed"


def frozen_in_words(where: str = "the partition") -> str:
    """A phrase on a replica that is frozen.

    Args:
        where: the partition, or the partitions.
    """
    return f"a replica of {where} stands still: {_BEYOND}"


def is_frozen(finding: Finding) -> bool:
    """Whether a finding says that a replica is frozen: consumers in read_committed get nothing from there on."""
    return KINDS[finding.kind].extent is Extent.STOPPED


def hanging_in_words(hanging: Collection[Hanging], named: str = "") -> str:
    """A phrase on transactions that hang, or are open for too long.

    Args:
        hanging: the transactions, at least one.
        named: the partitions, if the phrase shall name them; else it is about one.
    """
    one, many = ("hangs", "hang") if all(one.hangs for one in hanging) else _TOO_LONG
    what = f"transactions {many}" if named and len(hanging) > 1 else f"a transaction {one}"
    return f"{what} in {named}: {_BEYOND}" if named else f"{what}: {_BEYOND}"


_TOO_LONG = ("is open for too long", "are open for too long")
"""What a phrase says of one transaction, and of several, that a coordinator may still end."""


def _compared_to(coverage: Coverage, *, is_stopped: bool) -> int:
    """Below which offset all is compared, and nothing waits for a verdict that comes by itself.

    Args:
        coverage: the partition's coverage.
        is_stopped: whether something else says already that read_committed stands still, so that records wait for it.
    """
    if is_stopped:
        return max(0, coverage.compared_up_to[READ_UNCOMMITTED])
    return max(0, min(*coverage.compared_up_to, *(at for at in coverage.waits_from if at != UNKNOWN)))


def by_clock(place: TopicPartition, absences: Absences, now: float, audit: str = "") -> dict[int, list[str]]:
    """For each broker that is absent or late, phrases that say so: its replica may lack tombstones or end markers.

    Other brokers are left out.

    Args:
        place: the partition.
        absences: all absent and late replicas, of any partitions.
        now: seconds since 1970 UTC.
        audit: which audit of the partition ends what is said of late replicas, as a clause; empty if others say it.
    """
    found: dict[int, list[str]] = {}
    for absent in absences.absent:
        if absent.place == place:
            found.setdefault(absent.broker, []).append(in_words(absent, now))
    for late in absences.late:
        if late.place == place:
            found.setdefault(late.broker, []).append("; ".join(filter(None, (late_in_short(late), audit))))
    return found


@dataclass(frozen=True, slots=True)
class Doubts:
    """Why it is unknown whether the replicas of one partition are right, by all but the partition's findings.

    Both questions ask this: whether a replica may lead, and whether it may be copied over another one.

    Attributes:
        whole: phrases that count for every replica.
        single: by broker, phrases that count for its replica only (`by_clock`); other brokers are missing.
        frozen: ids of the findings that say that a replica is frozen. In read_committed nothing beyond is compared.
        compared_to: below this offset all is compared, and nothing waits for a verdict that comes by itself; -1 if
            nothing was compared yet, which ``whole`` says.
        shared: phrases about what all replicas lack alike. They count for who may lead; a copy loses nothing by it.
        unconfirmed: as for `parallax.findings.leading.may_lead`.
    """

    whole: tuple[str, ...] = ()
    single: Mapping[int, Collection[str]] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    compared_to: int = UNKNOWN
    shared: tuple[str, ...] = ()
    unconfirmed: Mapping[str, Collection[int]] = field(default_factory=dict)

    @classmethod
    def made(
        cls,
        coverage: Coverage | None,
        pending: int,
        single: Mapping[int, Collection[str]],
        more: Collection[str] = (),
        findings: Collection[Finding] = (),
        hanging: Collection[Hanging] = (),
        unconfirmed: Mapping[str, Collection[int]] | None = None,
    ) -> Doubts:
        """Make them from what is known of the partition.

        Args:
            coverage: as for `uncompared`.
            pending: how many suspects of the partition have no verdict yet.
            single: as the attribute.
            more: further phrases that count for every replica, e.g. that no job watches.
            findings: the findings about the partition that are not over.
            hanging: the transactions that hang in the partition, or are open for too long.
            unconfirmed: as the attribute; None for no finding.
        """
        waiting = [_waiting_in_words(pending)] if pending else []
        stopped = [hanging_in_words(hanging)] if hanging else []
        frozen = frozenset(one.finding_id for one in findings if is_frozen(one))
        compared_to = UNKNOWN if coverage is None else _compared_to(coverage, is_stopped=bool(frozen or hanging))
        whole = *more, *uncompared(coverage), *waiting, *stopped
        return cls(whole, single, frozen, compared_to, tuple(_lost(coverage)), unconfirmed or {})

    def of(self, broker: int, mended: Collection[str] = ()) -> list[str]:
        """The phrases that count for the replica of one broker; empty if nothing speaks against it.

        Args:
            broker: the broker.
            mended: ids of findings that a repair is to end, so that what they stop is no reason against it.
        """
        frozen = [frozen_in_words()] if self.frozen - {*mended} else []
        return [*self.single.get(broker, ()), *self.whole, *frozen]

    def unread(self, below: int) -> str:
        """That not all is read and compared up to an offset yet, a phrase; empty if it is.

        Args:
            below: the offset; -1 if none has to be reached.
        """
        is_short = UNKNOWN < self.compared_to < below
        return f"offsets from {self.compared_to} on are not compared yet" if is_short else ""

    def fitness(self, brokers: Iterable[int], findings: Collection[Finding]) -> dict[int, Fitness]:
        """For each broker, whether its replica may lead (`parallax.findings.leading.may_lead`).

        Args:
            brokers: the brokers that hold the partition.
            findings: the findings about the partition that are not over.
        """
        doubts = {broker: [*self.of(broker), *self.shared] for broker in brokers}
        return may_lead(doubts, findings, doubts, self.unconfirmed)


@dataclass(frozen=True, slots=True)
class Led:
    """Which broker leads a partition, and for each of its replicas whether it may lead.

    Attributes:
        leader: the broker that leads; -1 while none does.
        replicas: the brokers that hold the partition, the preferred leader first.
        isr: the brokers that are in sync.
        fitness: by broker, whether its replica may lead.
        elr: the brokers that may be elected if no replica is in sync (eligible leader replicas, KIP-966); empty if
            brokers lack that feature.
        no_other: sentences that say why no plan can give the lead to a right replica, and what to do. Empty if a plan
            can.
    """

    place: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    fitness: Mapping[int, Fitness]
    elr: tuple[int, ...] = ()
    no_other: tuple[str, ...] = ()

    @property
    def preferred(self) -> int | None:
        """The broker that the next election of preferred leaders would make the leader.

        None if that election changes nothing: the preferred leader leads already, or is not in sync.
        """
        first = self.replicas[0] if self.replicas else self.leader
        return first if first != self.leader and first in self.isr else None

    @property
    def warnings(self) -> list[str]:
        """Sentences for people if a replica leads that must not, or will after the next preferred election."""
        found = []
        if self.leader in self.fitness and self.fitness[self.leader].may is May.UNSAFE:
            found.append(leads_wrongly(self.leader))
        if self.preferred is not None and self.fitness[self.preferred].may is May.UNSAFE:
            found.append(
                f"The next election of preferred leaders makes broker {self.preferred} the leader, and it must not be "
                "(auto.leader.rebalance.enable, on by default, holds one within minutes)."
            )
        return found


__all__ = ["ALONE", "Doubts", "Led", "by_clock", "frozen_in_words", "hanging_in_words", "is_frozen", "uncompared"]
