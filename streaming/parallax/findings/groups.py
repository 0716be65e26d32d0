"""Holds the groups of suspects and of proven members, and says what they tell of a claim.

Those who judge a claim ask only this. `parallax.findings.incidents` fills and empties the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallax.findings.claim import Claim
from parallax.findings.finding import Finding
from parallax.findings.held import NOT_PROBED
from parallax.findings.incident import tally_of
from parallax.findings.members import OPEN, WAITING, Array, MemberGroup, Members, State, divergence
from parallax.findings.proven import Proven
from parallax.findings.waiting import Waiting
from parallax.kinds import KINDS, TOMBSTONE_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, Rule, TopicPartition


def is_held(claim: Claim) -> bool:
    """Whether a claim is probed together with others of its group, if many of them are raised.

    It is if its kind is one that incidents count. A claim on an outcome must also name its transaction, by producer id
    and first offset.
    """
    is_named = min(claim.producer_id, claim.transaction_start_offset) >= 0
    return bool(KINDS[claim.kind].many) and (is_named or claim.rule is not Rule.OUTCOME)


def group_of_claim(claim: Claim) -> MemberGroup:
    """Return the group of a claim, made of its partition, accused, kind and rule."""
    return MemberGroup(claim.place, claim.broker, claim.kind, claim.rule)


def divergences(group: MemberGroup, singles: Mapping[str, Finding]) -> dict[tuple[int, ...], Finding]:
    """Return what single findings of a group are about, each with one of them."""
    return {divergence(group, finding): finding for finding in singles.values()}


def tells_of_more(proven: Proven) -> bool:
    """Whether more members were over when they were found than the last event reports."""
    return proven.tally.shown > (0 if proven.event is None else tally_of(proven.event).shown)


def _are_of_one(one: MemberGroup, other: MemberGroup) -> bool:
    return one.is_of_transactions and other.is_of_transactions


class Groups:
    """All groups of one job.

    Attributes:
        cluster_id: Kafka's id of the cluster. It is part of every finding's id.
        waiting: suspects that wait for a verdict.
        proven: members that were proven.
        singles: by id, the last events of open findings about one divergence each, which an incident may come to count.
    """

    def __init__(self) -> None:
        self.cluster_id = ""
        self.waiting: dict[MemberGroup, Waiting] = {}
        self.proven: dict[MemberGroup, Proven] = {}
        self.singles: dict[MemberGroup, dict[str, Finding]] = {}

    def waiting_of(self, group: MemberGroup) -> Waiting:
        """The suspects of a group; a new group has none yet."""
        return self.waiting.setdefault(group, Waiting(group, Members(group.place)))

    def proven_of(self, group: MemberGroup) -> Proven:
        """The proven members of a group; a new group has none yet."""
        return self.proven.setdefault(group, Proven(group, Members(group.place)))

    def number(self, proven: Proven) -> int:
        """Return how many keys, records without a key, or transactions are wrong, each counted once."""
        singles = divergences(proven.group, self.singles.get(proven.group, {})).values()
        return proven.tally.count + sum(not proven.members.counts(proven.group, one) for one in singles)

    def undecided(self, group: MemberGroup) -> int:
        """How many suspects of a group have no verdict yet."""
        waiting = self.waiting.get(group)
        return 0 if waiting is None else int(waiting.members.are(*WAITING).sum())

    def is_settled(self, place: TopicPartition) -> bool:
        """Whether every suspect of the partition has been asked about."""
        return not any(w.busy or len(w.behind(WAITING)) for g, w in self.waiting.items() if g.place == place)

    def is_at_rest(self, proven: Proven) -> bool:
        """Whether all proven members of a group, and all suspects of its partition, have been asked about."""
        return not proven.busy and not proven.is_unread() and self.is_settled(proven.group.place)

    def counted(self, claim: Claim, finding_id: str, *states: State) -> list[tuple[Proven, Array]]:
        """Return where the transaction of a claim is among the proven ones in some states.

        Args:
            claim: on the transaction.
            finding_id: the id that a finding about it has, or would have.
            states: those that count.
        """
        found = []
        for group, proven in self.proven.items():
            if group.place != claim.place or not group.is_of_transactions:
                continue
            at = proven.members.of_transaction(claim.producer_id, claim.transaction_start_offset, *states)
            at = at[[proven.members.claim(row).finding_id(self.cluster_id) == finding_id for row in at.tolist()]]
            if len(at):
                found.append((proven, at))
        return found

    def free(self, place: TopicPartition, over: Sequence[Claim] | None = None) -> None:
        """Let a partition's explained suspects be probed again.

        A suspect is *explained* while a finding or another suspect is its cause. When that cause is over, the suspect
        may still be true by itself.

        Args:
            place: the partition.
            over: claims that are not true any more. Only suspects that one of these claims may have explained are
                probed again. None frees all explained suspects of the partition.
        """
        for group, waiting in self.waiting.items():
            if group.place == place:
                waiting.free(over)

    def tidy(self) -> None:
        """Drop the groups of which nothing is left to ask, to report or to write."""
        self.waiting = {g: w for g, w in self.waiting.items() if len(w.members) or w.busy or w.gone}
        self.proven = {
            g: p
            for g, p in self.proven.items()
            if len(p.members) or p.busy or p.writing or p.event is not None or p.gone
        }
        self.singles = {g: singles for g, singles in self.singles.items() if singles}

    def beside(self, group: MemberGroup) -> frozenset[int]:
        """Return the brokers that showed the same as the accused for some member of a group.

        The accused itself is left out.
        """
        known = (self.proven[one] for one in self._alike(group) if one in self.proven)
        return frozenset[int]().union(*(proven.beside for proven in known)) - {group.broker}

    def _alike(self, group: MemberGroup) -> list[MemberGroup]:
        """Return the groups that may count a group's suspects: a transaction may be found to be of another kind."""
        alike = [one for one in self.proven if one.place == group.place and _are_of_one(one, group)]
        return [group, *(one for one in alike if one.accuses_as(group))]

    def waits(self, suspect_id: str) -> str | None:
        """Return why the suspect with the id ``suspect_id`` has no verdict yet, or is proven and not reported.

        None if it is neither, or is in no group.
        """
        for waiting in self.waiting.values():
            if (at := waiting.members.find(suspect_id)) >= 0:
                state = waiting.members.rows["state"][at]
                if state == State.EXPLAINED:
                    return None
                return NOT_PROBED if state == State.NEW else waiting.reason
        for proven in self.proven.values():
            if (at := proven.members.find(suspect_id)) < 0:
                continue
            state = proven.members.rows["state"][at]
            if not proven.stands:
                is_told = state not in OPEN and (state != State.SHOWN or not tells_of_more(proven))
                return None if is_told else "it is proven and not reported yet"
        return None

    def holds(self, claim: Claim) -> bool:
        """Whether a group takes care of a suspect, so that the suspect needs no probe of its own.

        True while the suspect waits for a page, or is proven and wrong. True as well if it was explained, or was over
        when it was found, unless it was raised again since.
        """
        for waiting in self.waiting.values():
            if (at := waiting.members.find(claim.suspect_id)) >= 0:
                row = waiting.members.rows[at]
                return bool(row["state"] != State.EXPLAINED or claim.raised_at_ms <= row["raised_at_ms"])
        for proven in self.proven.values():
            if (at := proven.members.find(claim.suspect_id)) >= 0:
                state, raised = proven.members.rows["state"][at], proven.members.rows["raised_at_ms"][at]
                if state in OPEN or (state == State.SHOWN and claim.raised_at_ms <= raised):
                    return True
        return False

    def counting(self, claim: Claim) -> Finding | None:
        """Return the last event of the incident that counts a claim's transaction; None without one.

        An incident that is over counts nothing.
        """
        if claim.kind not in TRANSACTION_KINDS:
            return None
        found = self.counted(claim, claim.finding_id(self.cluster_id), *OPEN)
        return next((proven.event for proven, _ in found if proven.stands), None)

    def not_seen_again(self) -> dict[str, str]:
        """Return which incidents have members that this process has not proven again: by incident id, a text.

        The text says how many members are proven again and what came of the others, e.g. "5 of the 20 keys that it
        counts are wrong, 3 could not be decided". It is empty as long as a round of probes is asking about the members.
        An incident is left out if all its members are proven again, or if it is over.
        """
        standing = [(one.event, one) for one in self.proven.values() if one.event is not None and one.event.stands]
        found = {event.finding_id: proven.not_seen_again(self.number(proven)) for event, proven in standing}
        return {name: why for name, why in found.items() if why is not None}

    def explains(self, claim: Claim) -> bool:
        """Whether a member of an open incident is the cause of a claim.

        It is a wrongly ended transaction, or it accuses a replica about the same key. Then the claim is no divergence
        by itself.
        """
        is_about_key = claim.key is not None and bool(self.wrong_about(claim.place, claim.key))
        return is_about_key or bool(self.causes_of(claim)) or self.counting(claim) is not None

    def causes_of(self, claim: Claim) -> list[tuple[Finding, Claim]]:
        """Return the transactions that may explain a claim on a key's value and are members of open incidents.

        Each is a pair: the last event of the incident, and the member's claim on the transaction.
        """
        return [
            (proven.event, one)
            for proven in self.proven.values()
            if proven.event is not None and proven.stands
            for one in proven.may_explain(claim, *OPEN)
        ]

    def awaited_by(self, claim: Claim) -> list[Claim]:
        """Return the members that may explain a claim on a key's value, and that have no verdict or no report yet.

        The claim has to wait for them. They are wrongly ended transactions. If the claim accuses nobody, suspects that
        accuse a replica about the claim's key are included.
        """
        found = [one for waiting in self.waiting.values() for one in waiting.accusing(claim)]
        found += [one for waiting in self.waiting.values() for one in waiting.may_explain(claim, *WAITING)]
        unsaid = (proven for proven in self.proven.values() if not proven.stands)
        return found + [one for proven in unsaid for one in proven.may_explain(claim, *OPEN)]

    def has_cause_of(self, claim: Claim) -> bool:
        """Whether some member of an incident is, or was, the cause of a claim on a key's value.

        It is a wrongly ended transaction, even if it is not wrong any more. An open incident that accuses a replica
        about the same key counts as well.
        """
        states = (*OPEN, State.OVER)
        is_explained = any(proven.may_explain(claim, *states) for proven in self.proven.values())
        return is_explained or (claim.key is not None and bool(self.wrong_about(claim.place, claim.key)))

    def wrong_about(self, place: TopicPartition, key: tuple[int, int]) -> list[tuple[Finding, int]]:
        """Return the open incidents that accuse a replica of showing a key wrongly: (last event, offset) for each.

        The offset is -1 if one replica is accused. If every replica shows a deleted value of the key, it is the offset
        of the deletion.

        Args:
            place: the partition.
            key: the two halves of the key's hash.
        """
        found = []
        for group, proven in self.proven.items():
            is_about_keys = group.broker != NOBODY and not group.is_of_transactions
            if group.place != place or not is_about_keys or proven.event is None or not proven.stands:
                continue
            on_all = proven.members.offsets_of(key, State.SPREAD) if group.kind in TOMBSTONE_KINDS else []
            if proven.members.offsets_of(key, State.WRONG):
                found.append((proven.event, UNKNOWN))
            elif on_all:
                found.append((proven.event, max(on_all)))
        return found

    def deleted_at(self, place: TopicPartition, key: tuple[int, int]) -> list[int]:
        """Return the offsets of a key's tombstones that some replica has missed, according to open incidents.

        Args:
            place: the partition.
            key: the two halves of the key's hash.
        """
        there = (proven for group, proven in self.proven.items() if group.place == place and proven.stands)
        return [
            offset
            for proven in there
            if proven.group.kind in TOMBSTONE_KINDS
            for offset in proven.members.offsets_of(key, State.WRONG)
        ]

    def pending(self) -> dict[TopicPartition, int]:
        """Return by partition how many suspects in groups have no verdict yet."""
        found: dict[TopicPartition, int] = {}
        for group in self.waiting:
            if number := self.undecided(group):
                found[group.place] = found.get(group.place, 0) + number
        return found

    def reasons(self) -> dict[TopicPartition, str]:
        """Return by partition why a probe has left suspects in groups without a verdict (one reason)."""
        waiting = ((group, one.reason) for group, one in self.waiting.items() if one.reason != NOT_PROBED)
        return {group.place: reason for group, reason in waiting if self.undecided(group)}


__all__ = ["Groups", "divergences", "group_of_claim", "is_held", "tells_of_more"]
