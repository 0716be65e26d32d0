"""What replicas showed when a finding was judged, in parts that a later look can compare one by one. Pure.

A finding proves one replica wrong and another one right by what both showed. One of the two may have been copied since.
So both must still show it before a repair changes anything (`parallax.repair.seen.contradicted`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parallax.findings.answers import ABORTED, RecordShown
from parallax.findings.cleared import holds_open
from parallax.findings.shown import Shown
from parallax.kinds import KEY_KINDS, KINDS, OPEN_KINDS, Family
from parallax.model import UNKNOWN

NOTHING = "no record"
"""A replica shows its consumers nothing at an offset: there is no record, or it is aborted."""
UNDECIDED = "a record of an open transaction"
NO_VALUE = "no value"
OPEN, ENDED = "the transaction open", "the transaction ended"
BEGINS_ABOVE, BEGINS_BELOW = "a log that begins above it", "a log that reaches down to it"
MARKERS = {"commit": "a COMMIT marker", "abort": "an ABORT marker"}


class About(StrEnum):
    """What an atom is about."""

    SEEN = "seen"
    """What a read_committed consumer meets at an offset."""
    HELD = "held"
    """What the log holds at an offset, aborted or not."""
    KEY = "key"
    """Which of a key's records at some offsets gives its value."""
    TRANSACTION = "transaction"
    """Whether a transaction is open."""
    LOG_START = "log start"
    """Whether the log reaches down to an offset."""


@dataclass(frozen=True, slots=True)
class Atom:
    """What one replica showed of one thing when a finding was judged.

    Attributes:
        broker: the broker whose replica it is.
        about: what kind of thing it is.
        offsets: the offsets that it is about, in rising order. A transaction has two: its first one, and one below
            which it begins on every replica.
        shows: what the replica showed, in words; of a record, with its fingerprint in brackets.
        producer_id: the producer of a transaction; else -1.
    """

    broker: int
    about: About
    offsets: tuple[int, ...]
    shows: str
    producer_id: int = UNKNOWN

    @property
    def slot(self) -> tuple[About, tuple[int, ...]]:
        """What it is about: atoms of two replicas are compared only if this is equal."""
        return self.about, self.offsets

    @property
    def read(self) -> tuple[int, ...]:
        """The offsets that a look has to read to compare the atom; empty if it needs none."""
        return self.offsets if self.about in (About.SEEN, About.HELD, About.KEY) else ()

    @property
    def may_go(self) -> bool:
        """Whether a cleaner may remove what the atom shows. The replica stays as right or wrong as it was."""
        return self.shows in MARKERS.values()


@dataclass(frozen=True, slots=True)
class Proof:
    """What one finding's wrong replicas and the source of a repair showed when the finding was judged.

    An incident has one for each member of which that is on record.

    Attributes:
        finding: the finding's id.
        wrong: the brokers that the finding, or a person, calls wrong.
        atoms: what they and the source showed.
    """

    finding: str
    wrong: tuple[int, ...]
    atoms: tuple[Atom, ...]

    def of(self, broker: int) -> dict[tuple[About, tuple[int, ...]], Atom]:
        """What the replica on ``broker`` showed, by `Atom.slot`."""
        return {atom.slot: atom for atom in self.atoms if atom.broker == broker}

    def among(self, brokers: Collection[int]) -> frozenset[Atom]:
        """What some of the replicas showed.

        Args:
            brokers: the brokers that have them.
        """
        return frozenset(atom for atom in self.atoms if atom.broker in brokers)

    def apart(self, source: int, wrong: int) -> list[tuple[Atom, Atom]]:
        """By what the source and a wrong replica differed: pairs of atoms, that of the source first."""
        ours, theirs = self.of(source), self.of(wrong)
        return [(one, theirs[slot]) for slot, one in ours.items() if slot in theirs and theirs[slot].shows != one.shows]


def record_text(fingerprint: str) -> str:
    """What an atom says of a record at an offset that is shown.

    Args:
        fingerprint: the record's content, as `RecordShown.fingerprint`.
    """
    return f"a record [{fingerprint}]"


def value_text(offset: int, fingerprint: str) -> str:
    """What an atom says of a key's value.

    Args:
        offset: the offset of the record that has it.
        fingerprint: that record's content, as `RecordShown.fingerprint`.
    """
    return f"the value at offset {offset} [{fingerprint}]"


def atoms_of(shown: Shown) -> tuple[Atom, ...]:
    """What each replica showed when a finding was judged, as far as the finding's evidence says it.

    Args:
        shown: the evidence of the finding's last event.
    """
    read = {broker: shown.replicas[broker] for broker in sorted(shown.answered)}
    return tuple(atom for broker, answer in read.items() for atom in _of_one(shown, broker, answer) if atom.shows)


def _of_one(shown: Shown, broker: int, answer: Mapping[str, Any]) -> Iterator[Atom]:
    finding = shown.finding
    match KINDS[finding.kind].family:
        case Family.HEAD:
            start = answer.get("log_start_offset", UNKNOWN)
            begins = BEGINS_ABOVE if start >= finding.offset else BEGINS_BELOW
            yield Atom(broker, About.LOG_START, (finding.offset - 1,), begins if start != UNKNOWN else "")
        case Family.CONTENT:
            yield Atom(broker, About.HELD, (finding.offset,), _held(answer, finding.offset))
        case _:
            key = answer.get("key")
            if key is not None and (key.get("visible") or key.get("complete")):
                yield Atom(broker, About.KEY, _of_key(shown), _value(key.get("visible")))
            if key is None or finding.kind not in KEY_KINDS:
                yield from _of_a_transaction(shown, broker, answer)


def _of_a_transaction(shown: Shown, broker: int, answer: Mapping[str, Any]) -> Iterator[Atom]:
    """What a replica showed of a transaction's records and end marker; of a single record without one, the same."""
    finding = shown.finding
    start, marker = finding.transaction_start_offset, finding.marker_offset
    if finding.kind in OPEN_KINDS:
        says = "" if answer.get("open_transactions") is None else OPEN if holds_open(shown, broker) else ENDED
        yield Atom(broker, About.TRANSACTION, (start, max(start + 1, marker)), says, finding.producer_id)
    else:
        for offset in sorted({finding.offset, start} - {UNKNOWN, marker}):
            yield Atom(broker, About.SEEN, (offset,), _seen(answer, offset))
    text = _held(answer, marker)
    if marker != UNKNOWN:
        yield Atom(broker, About.SEEN, (marker,), text if text in {NOTHING, *MARKERS.values()} else "")


def _of_key(shown: Shown) -> tuple[int, ...]:
    """At which offsets the replicas held what gives the key its value, or what the finding is about."""
    keys = (answer.get("key") for answer in shown.replicas.values())
    visible = (key.get("visible") for key in keys if key)
    return tuple(sorted({shown.finding.offset, *(one["offset"] for one in visible if one)} - {UNKNOWN}))


def _value(visible: Mapping[str, Any] | None) -> str:
    if not visible or visible.get("value_size", UNKNOWN) < 0:
        return NO_VALUE
    return value_text(visible["offset"], _fingerprint(visible))


def _seen(answer: Mapping[str, Any], offset: int) -> str:
    """What consumers met at an offset that the replica was asked for; empty if that is not known."""
    if (record := _at(answer.get("committed", ()), offset)) is not None:
        return NOTHING if record["outcome"] == ABORTED else record_text(_fingerprint(record))
    if offset in answer.get("asked", ()):
        return NOTHING
    return UNDECIDED if _at(answer.get("uncommitted", ()), offset) is not None else ""


def _held(answer: Mapping[str, Any], offset: int) -> str:
    """What the log held at an offset that the replica was asked for; empty if that is not known."""
    if (marker := _at(answer.get("markers", ()), offset)) is not None:
        return MARKERS[marker["type"]]
    if (record := _at(answer.get("uncommitted", ()), offset)) is not None:
        return record_text(_fingerprint(record))
    return NOTHING if offset in answer.get("asked_uncommitted", ()) else ""


def _at(some: Iterable[Mapping[str, Any]], offset: int) -> Mapping[str, Any] | None:
    return next((one for one in some if one["offset"] == offset), None)


def _fingerprint(record: Mapping[str, Any]) -> str:
    names = ("offset", "outcome", "timestamp", "producer_id", "producer_epoch", "key_hash", "content_hash")
    return RecordShown(**{name: record[name] for name in names if name in record}).fingerprint


__all__ = [
    "BEGINS_ABOVE",
    "BEGINS_BELOW",
    "ENDED",
    "MARKERS",
    "NOTHING",
    "NO_VALUE",
    "OPEN",
    "UNDECIDED",
    "About",
    "Atom",
    "Proof",
    "atoms_of",
    "record_text",
    "value_text",
]
