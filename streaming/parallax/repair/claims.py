"""Which replicas of a partition are wrong by its findings, and which are right, so that they may be copied. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parallax.counts import brokers_text
from parallax.findings.cleared import cleared
from parallax.findings.finding import Finding, has_spread, is_proof_past, is_shared, is_unsettled
from parallax.findings.grounds import Grounds, grounds_of, one_of
from parallax.findings.incident import answered_in, shown_of, tally_of
from parallax.findings.shown import Shown
from parallax.kinds import KINDS, Extent
from parallax.model import NOBODY, UNKNOWN
from parallax.remedies import Act
from parallax.repair.atoms import Atom, Proof, atoms_of
from parallax.shell import ANYWHERE


@dataclass(frozen=True, slots=True)
class WrongIndex:
    """An index of aborted transactions that is wrong, while the log that it belongs to is right.

    Attributes:
        broker: the broker whose index it is.
        marker_offset: the offset of the ABORT marker that it does not list; -1 if there are many, or it lists too much.
        record_offset: the offset of a record that the broker shows wrongly because of it.
    """

    broker: int
    marker_offset: int
    record_offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What one finding says for a repair: which replicas are wrong, and which are right and may be copied.

    It is made from a finding that is open. The claim that a probe asks brokers about is another class,
    `parallax.findings.claim.Claim`.

    Attributes:
        finding: the id of the finding.
        wrong: ids of the brokers whose replicas now show the record or outcome that the finding proves wrong.
        sources: ids of the brokers whose replicas the finding proves right. Brokers that may be wrong by another
            finding are left out, since a copy of their replica could spread its fault.
        offsets: the offsets that the finding is about.
        transaction: producer id and first offset of the transaction that the finding is about; both are -1 if there is
            none.
        missing: why no right replica can be copied over the wrong ones, a phrase with what to do; empty if one can.
        index: what is wrong if only an index of aborted transactions is, so that a person can have it rebuilt on the
            broker's disk; None otherwise.
        by_word: empty if there are ``sources``. Else, for each broker that a person may call right: the brokers that
            are wrong in that case.
        shown: what each replica showed when the finding was judged, as far as that is known; of an incident, of each
            member of which that is on record.
        proven: ids of the brokers whose replicas the finding proves right, those in ``sources`` and others.
        is_of_all: whether all replicas share it, so that the finding says of nobody that others are better.
    """

    finding: str
    wrong: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    offsets: tuple[int, ...] = ()
    transaction: tuple[int, int] = (UNKNOWN, UNKNOWN)
    missing: str = ""
    index: WrongIndex | None = None
    by_word: Mapping[int, frozenset[int]] = field(default_factory=dict)
    shown: tuple[tuple[Atom, ...], ...] = ()
    proven: frozenset[int] = frozenset()
    is_of_all: bool = False

    def wrong_if(self, right: int | None) -> frozenset[int]:
        """Ids of the brokers whose replicas are wrong if a person calls the replica of one broker right.

        If nobody is called right, or ``by_word`` lacks the broker, it is the brokers that the finding proves wrong.

        Args:
            right: the broker whose replica a person calls right; None if nobody does.
        """
        return self.wrong if right is None else self.by_word.get(right, self.wrong)

    def proofs(self, source: int, right: int | None) -> tuple[Proof, ...]:
        """What the wrong replicas and the source showed when the finding was judged, for each part of ``shown``.

        Args:
            source: the broker whose replica is to be copied, or is to lead.
            right: the broker whose replica a person calls right; None if nobody does.
        """
        wrong = self.wrong_if(right)
        kept = [tuple(atom for atom in part if atom.broker in wrong | {source}) for part in self.shown or ((),)]
        return tuple(Proof(self.finding, tuple(sorted(wrong)), atoms) for atoms in kept)

    def is_ended_by(self, ended: Mapping[tuple[int, int], frozenset[int]]) -> bool:
        """Whether end markers mend the finding: each wrong replica holds its transaction open until then.

        Args:
            ended: by transaction that a plan ends, as producer id and first offset: the brokers that hold it open.
        """
        return self.transaction in ended and self.wrong <= ended[self.transaction]

    def contradicts(self, right: int | None) -> bool:
        """Whether the finding proves that the replica which a person calls right is wrong, or that others are right.

        Args:
            right: the broker whose replica a person calls right; None if nobody does.
        """
        able = self.sources or self.proven
        return right is not None and (self.is_against(right) or bool(able and right not in able))

    def is_against(self, source: int) -> bool:
        """Whether the finding proves that a replica is wrong, and not all others as well.

        Args:
            source: the broker whose replica is to be copied, or is to lead.
        """
        return source in self.wrong and not self.is_of_all

    def lacks(self, right: int | None) -> str:
        """Why no right replica can be copied over the wrong ones, and what to do; empty if one can.

        It also says so if the finding does not allow what the person says.

        Args:
            right: the broker whose replica a person calls right; None if nobody does.
        """
        if right is None or right in self.sources or right in self.by_word:
            return self.missing if right is None or right not in self.by_word else ""
        if self.sources:
            named = brokers_text(self.sources)
            return f"--right {right} contradicts it: it proves that {named} may be copied, and not broker {right}"
        if self.by_word:
            why = "shows what this finding calls wrong" if right in self.wrong else "is not known to hold it"
            return f"--right {right} is refused: broker {right} {why}. Give {one_of(self.by_word)}"
        return self.missing or f"--right {right}: nothing shows what that broker holds of it"


def claims(findings: Collection[Finding]) -> tuple[Claim, ...]:
    """One `Claim` for each finding of a partition, in the order of the findings' ids.

    Args:
        findings: the partition's findings that are not over.
    """
    return tuple(_claim(one, findings) for one in sorted(findings, key=lambda one: one.finding_id))


def _claim(finding: Finding, findings: Collection[Finding]) -> Claim:
    known = grounds_of(finding, findings, ANYWHERE)
    places = (finding.offset, finding.transaction_start_offset, finding.marker_offset, finding.record_offset)
    below = 1 if KINDS[finding.kind].extent is Extent.BELOW else 0  # there the accused shows what is right
    shown = shown_of(finding)
    wrong = known.shown.showing.union(*(one.showing for one in shown)) if finding.broker != NOBODY else frozenset()
    right, apart = _sources(known, wrong, findings)
    atoms = tuple(atoms_of(one) for one in shown)
    read = (offset for part in atoms for atom in part for offset in atom.read)
    return Claim(
        finding.finding_id,
        wrong,
        right,
        tuple(sorted({*(place - below for place in places if place != UNKNOWN), *read})),
        (finding.producer_id, finding.transaction_start_offset),
        _missing(finding, known.right, right, (*known.beside, *apart)),
        WrongIndex(finding.broker, known.unlisted, finding.record_offset) if _is_rebuilt(known) else None,
        {} if right else dict.fromkeys(known.right, wrong) or _by_word(finding, shown, wrong),
        atoms,
        frozenset(known.right),
        is_shared(finding),
    )


def _is_of_all(finding: Finding) -> bool:
    """Whether no log holds what is right: every follower cuts its log where that of an elected leader ends."""
    return has_spread(finding) or KINDS[finding.kind].extent is Extent.FROM


def _is_rebuilt(known: Grounds) -> bool:
    return known.is_of_the_index and not is_proof_past(known.finding)


def _by_word(finding: Finding, shown: Sequence[Shown], wrong: frozenset[int]) -> dict[int, frozenset[int]]:
    """By replica that a person may say is right, who is wrong then: by all of an incident's members that are known."""
    if _is_of_all(finding) or is_unsettled(finding) or not shown:
        return {}
    able = [_by_word_of_one(one, wrong) for one in shown]
    shared = wrong.union(tally_of(finding).beside if finding.is_incident else ())
    others = frozenset(able[0]).intersection(*able) - shared
    return {right: frozenset().union(*(one[right] for one in able)) for right in sorted(others)}


def _by_word_of_one(shown: Shown, wrong: frozenset[int]) -> dict[int, frozenset[int]]:
    if shown.finding.broker != NOBODY:
        return dict.fromkeys(shown.answered - shown.alike - shown.was_accused, wrong)
    sides = [side & shown.answered for side in shown.sides.values()]
    return {
        right: frozenset().union(*(other for other in sides if right not in other)) for side in sides for right in side
    }


def _sources(
    known: Grounds, wrong: frozenset[int], findings: Collection[Finding]
) -> tuple[frozenset[int], list[Finding]]:
    """Who may be copied over all that are wrong, and the other findings that leave fewer than `Grounds.sources`.

    Of the same accused another finding may prove that only some of them are wrong. Of one that is shared by all a
    replica that did not answer may be right. A copy over either, or from it, may lose what is right.
    """
    right, apart = frozenset(known.sources), []
    for one in findings:
        if one.finding_id == known.finding.finding_id:
            continue
        able = right
        if is_shared(one):
            answered = answered_in(one)
            able = right & answered if wrong <= answered else frozenset()
        elif one.broker == known.finding.broker and not wrong <= Shown.of(one).showing:
            able = right.intersection(cleared(Shown.of(one)))
        apart += [one] if able != right else []
        right = able
    return right, apart


def _missing(finding: Finding, right: Sequence[int], sources: Collection[int], beside: Sequence[Finding]) -> str:
    if _is_of_all(finding):
        return f"all replicas share it: no copy can help. {Act.WRITE_AGAIN.begin()}"
    if is_unsettled(finding):
        known = "it is acknowledged" if is_shared(finding) else f"{_COMPARE}, and acknowledge it"
        return f"nothing proves which replica is right, nor that one is wrong now, so no copy helps: {known}"
    if finding.broker == NOBODY:
        return f"nothing proves which replica is right. {_FIND_OUT}"
    if not right:
        return f"no replica is proven right. {_FIND_OUT}"
    if not sources:
        named = ", ".join(one.finding_id for one in beside)
        return (
            f"those that are right in it may be wrong in {named}: settle that first, or plan again with --right BROKER"
        )
    return ""


_COMPARE = "compare with the system that wrote it (`parallax findings explain`)"
_FIND_OUT = f"{_COMPARE.capitalize()}, and plan again with --right BROKER"


@dataclass(frozen=True, slots=True)
class Together:
    """The claims of several findings joined: which replicas have to be copied again, and which may be the source.

    Attributes:
        findings: the ids of the findings.
        wrong: ids of the brokers whose replicas are wrong by at least one of the findings.
        sources: ids of the brokers whose replicas are right by all of the findings.
        offsets: the offsets that the findings are about.
        claims: the claims.
        right: the broker whose replica a person calls right; None if nobody does.
    """

    findings: tuple[str, ...]
    wrong: frozenset[int]
    sources: frozenset[int]
    offsets: tuple[int, ...]
    claims: tuple[Claim, ...] = ()
    right: int | None = None

    def proof(self, source: int) -> tuple[Proof, ...]:
        """What the wrong replicas and the source showed when the findings were judged, by finding.

        Args:
            source: the broker whose replica is to be copied, or is to lead.
        """
        return tuple(proof for one in self.claims for proof in one.proofs(source, self.right))


def together(some: Iterable[Claim], right: int | None = None) -> Together | None:
    """Join those claims that a copy can mend (`Claim.lacks` is empty); None if no claim is left.

    Args:
        some: claims of findings.
        right: the broker whose replica a person calls right; None if nobody says so. Nothing is joined if a claim
            contradicts it, since a copy would delete what that finding proves right.
    """
    some = tuple(some)
    if any(one.contradicts(right) for one in some):
        return None
    made = [one for one in some if not one.lacks(right)]
    if not made:
        return None
    wrong = frozenset().union(*(one.wrong_if(right) for one in made))
    able = [frozenset({right}) if right is not None else one.sources for one in made]
    offsets = sorted({offset for one in made for offset in one.offsets})
    sources = frozenset.intersection(*able) - wrong
    return Together(tuple(one.finding for one in made), wrong, sources, tuple(offsets), tuple(made), right)


__all__ = ["Claim", "Together", "WrongIndex", "claims", "together"]
