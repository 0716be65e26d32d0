"""Tables that show one record as each broker has it, with a column for each broker.

The answers of the brokers are those in a finding's evidence, or new ones that a user has asked for.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal

from parallax.findings.finding import Finding, evidence_of
from parallax.findings.internal_keys import key_as_text
from parallax.model import IsolationLevel
from parallax.moments import time_text
from parallax.output import bytes_as_text, printable

if TYPE_CHECKING:  # the wire is not loaded for a report
    from parallax.replica.at_offset import AtOffset, Record

MOST_OFFSETS = 6
"""How many offsets of one finding are shown at most; a text says how many more there are."""
_MOST_SHOWN = 2000
"""How many characters of a key or value are shown at most."""

Payload = Literal["hash", "key", "full"]
"""The setting ``read.payload``: what of a record may be shown."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One property of a record as one broker has it, e.g. the timestamp on broker 2.

    Attributes:
        text: the value as text; empty if it is not known.
        version: empty if all brokers have the same value. Otherwise a letter: brokers with the same letter have the
            same value.
    """

    text: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One property of a record, e.g. its timestamp.

    Attributes:
        name: the property's name, the heading of the row.
        cells: what each broker has, in the order of `Versions.brokers`.
    """

    name: str
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        """Whether brokers have different values. A value that is not known does not count."""
        return any(cell.version for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Versions:
    """The table of one record: what each broker has at an offset, or as the newest record of a key.

    Attributes:
        title: which record it is.
        brokers: a heading for each broker's column.
        rows: the properties that at least one broker has.
        note: what a reader must know, e.g. that no broker holds the record any more; may be empty.
    """

    title: str
    brokers: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def differing(self) -> tuple[str, ...]:
        """The names of the properties in which the brokers differ, in the order of the rows."""
        return tuple(row.name for row in self.rows if row.differs)


def of_evidence(finding: Finding) -> tuple[list[Versions], int]:
    """Tables of the records that a finding is about, as brokers answered at its last probe. No broker is asked.

    Args:
        finding: the finding's last event.

    Returns:
        A tuple of two:

        - a table of the newest record of the finding's key, if it has one, then one for each offset of the evidence;
        - how many further offsets of the evidence have no table, because there would be too many.
    """
    evidence = evidence_of(finding)
    proofs = evidence.get("proofs") or []
    if finding.is_incident and proofs:
        shown = [one for proof in proofs[:MOST_OFFSETS] for one in _of_answers(finding, proof, evidence)[0][:1]]
        return shown, max(0, len(proofs) - MOST_OFFSETS)
    return _of_answers(finding, evidence, evidence)


def _of_answers(
    finding: Finding, answers: Mapping[str, Any], evidence: Mapping[str, Any]
) -> tuple[list[Versions], int]:
    replicas: Mapping[str, Mapping[str, Any]] = answers.get("replicas") or {}
    if not replicas:
        return [], 0
    brokers = _headings(replicas, evidence.get("leader"), finding.broker)
    made = []
    if any(answer.get("key") for answer in replicas.values()):
        rows = _rows([_of_key(answer) for answer in replicas.values()])
        made.append(Versions(f"Newest record of the key{_named(finding, answers)}", brokers, rows))
    offsets = sorted({o for answer in replicas.values() for o in _offsets_in(answer)} | _own(finding))
    recorded = evidence.get("recorded") or {}
    for offset in offsets[:MOST_OFFSETS]:
        columns = [_at(answer, offset) for answer in replicas.values()]
        if offset == finding.offset and not finding.is_incident:
            columns = [c | _recorded(recorded, b) for c, b in zip(columns, replicas, strict=True)]
        made.append(Versions(f"Offset {offset:,}", brokers, _rows(columns), _gone(replicas, offset)))
    return made, max(0, len(offsets) - MOST_OFFSETS)


def _own(finding: Finding) -> set[int]:
    places = finding.record_offset, finding.offset, finding.marker_offset
    return set() if finding.is_incident else {o for o in places if o >= 0}


def offsets_of(finding: Finding) -> list[int]:
    """The offsets of a finding's records, sorted, to ask brokers about them again: the lowest `MOST_OFFSETS`."""
    evidence = evidence_of(finding)
    proofs = [proof["offset"] for proof in evidence.get("proofs") or [] if finding.is_incident]
    shown = [
        answer["key"]["visible"]["offset"]
        for answer in (evidence.get("replicas") or {}).values()
        if (answer.get("key") or {}).get("visible")
    ]
    known = _own(finding) | {o for o in (*shown, *proofs) if o >= 0}
    return sorted(known)[:MOST_OFFSETS]


def as_asked(
    offset: int, answers: Mapping[int, AtOffset], leader: int, accused: int, payload: Payload = "hash"
) -> Versions:
    """The table of the record at one offset, as brokers have just answered.

    Args:
        offset: the offset that was asked about.
        answers: by broker, what its replica has there.
        leader: id of the leader; -1 if there is none.
        accused: the broker that the finding accuses; -1 if it accuses none.
        payload: whether keys and values may be shown. If not, hashes are shown, made with a secret key for this answer
            only. They show which brokers have the same content, and nothing else.
    """
    secret = secrets.token_bytes(16)
    columns = [_of_asked(one, payload, secret) for one in answers.values()]
    brokers = _headings({str(b): {} for b in answers}, leader, accused)
    known = [one for one in answers.values() if one.held.name not in _NO_ANSWER]
    is_gone = known and all(one.record is None for one in known)
    note = "No broker that answered holds a record there any more." if is_gone else ""
    return Versions(f"Offset {offset:,}", brokers, _rows(columns), note)


def _headings(replicas: Mapping[str, Any], leader: object, accused: int) -> tuple[str, ...]:
    def roles(broker: str) -> str:
        said = [name for name, is_so in (("leader", str(leader)), ("accused", str(accused))) if is_so == broker]
        return f" ({', '.join(said)})" if said else ""

    return tuple(f"Broker {broker}{roles(broker)}" for broker in replicas)


def _named(finding: Finding, answers: Mapping[str, Any]) -> str:
    said = key_as_text(finding.key) if not finding.is_incident else answers.get("key")
    return f" {said}" if said else ""


def _rows(columns: Sequence[Mapping[str, str]]) -> tuple[Row, ...]:
    names = list(dict.fromkeys(name for column in columns for name in column))
    return tuple(_row(name, [column.get(name, "") for column in columns]) for name in names)


def _row(name: str, texts: Sequence[str]) -> Row:
    """Brokers that say nothing of it neither differ nor agree."""
    known = list(dict.fromkeys(text for text in texts if text))
    if len(known) < 2 or name in _OF_ITS_OWN:
        return Row(name, tuple(Cell(text) for text in texts))
    letters = {text: ascii_uppercase[i % len(ascii_uppercase)] for i, text in enumerate(known)}
    return Row(name, tuple(Cell(text, letters.get(text, "")) for text in texts))


_OF_ITS_OWN = frozenset({"answer", "log"})
"""Rows about a broker, and not about a record."""


def _of_record(record: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a record in evidence; those that it does not say are empty."""
    size = record.get("value_size")
    named = {
        "leader epoch": _number(record.get("leader_epoch")),
        "producer id": _number(record.get("producer_id")),
        "producer epoch": _number(record.get("producer_epoch")),
        "timestamp": time_text(record["timestamp"]) if _number(record.get("timestamp")) else "",
        "key hash": str(record.get("key_hash") or ""),
        "value": "null: a tombstone" if size == -1 else f"{text} bytes" if (text := _number(size)) else "",
        "value and headers, hash": str(record.get("content_hash") or ""),
    }
    return {name: text for name, text in named.items() if text}


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) and value >= 0 else ""


def _of_key(answer: Mapping[str, Any]) -> dict[str, str]:
    """The newest record of the key that one broker shows to read_committed consumers."""
    if (silent := _silent(answer)) is not None:
        return silent
    key = answer.get("key")
    if not key:
        return {"answer": str(answer.get("key_error") or "was not asked for the key")}
    visible = key.get("visible")
    if visible is None:
        return {"offset": "no record" if key.get("complete") else "not known"}
    return {"offset": f"{visible['offset']:,}"} | _of_record(visible) | {"read_committed": _decided(visible)}


def _silent(answer: Mapping[str, Any]) -> dict[str, str] | None:
    return None if answer.get("error") is None else {"answer": f"no answer: {answer['error']}"}


def _at(answer: Mapping[str, Any], offset: int) -> dict[str, str]:
    """What one broker holds at an offset, by the evidence."""
    if (silent := _silent(answer)) is not None:
        return silent
    marker = _first(answer.get("markers"), offset)
    if marker is not None:
        said = {"leader epoch": _number(marker.get("leader_epoch")), "producer id": _number(marker.get("producer_id"))}
        return {"what is there": f"{str(marker['type']).upper()} marker"} | {n: t for n, t in said.items() if t}
    decided, there = _first(answer.get("committed"), offset), _first(answer.get("uncommitted"), offset)
    newest = (answer.get("key") or {}).get("visible") or {}
    decided = decided or (newest if newest.get("offset") == offset else None)
    record = there or decided
    if record is None:
        return {"what is there": _nothing(answer, offset)}
    outcome = _decided(decided) or _undecided(answer, offset)
    return {"what is there": "a record"} | _of_record(record) | ({"read_committed": outcome} if outcome else {})


def _decided(record: Mapping[str, Any] | None) -> str:
    """What a read_committed consumer makes of a record."""
    outcome = str((record or {}).get("outcome", ""))
    return {"none": "shown: not transactional", "committed": "shown: committed", "aborted": "left out: aborted"}.get(
        outcome, outcome
    )


def _undecided(answer: Mapping[str, Any], offset: int) -> str:
    stable = answer.get("last_stable_offset", -1)
    return "held back: above the last stable offset" if 0 <= stable <= offset else ""


def _nothing(answer: Mapping[str, Any], offset: int) -> str:
    start, end = answer.get("log_start_offset", -1), answer.get("log_end_offset", -1)
    if 0 <= offset < start:
        return "no longer held: below the log start"
    if 0 <= end <= offset:
        return "never reached: the log ends below it"
    asked = [*(answer.get("asked") or ()), *(answer.get("asked_uncommitted") or ())]
    return "nothing" if not asked or offset in asked else ""


def _first(records: Any, offset: int) -> Mapping[str, Any] | None:
    return next((one for one in records or () if one.get("offset") == offset), None)


def _offsets_in(answer: Mapping[str, Any]) -> set[int]:
    listed = (*(answer.get("committed") or ()), *(answer.get("uncommitted") or ()), *(answer.get("markers") or ()))
    visible = (answer.get("key") or {}).get("visible")
    return {one["offset"] for one in (*listed, *([visible] if visible else ())) if one.get("offset", -1) >= 0}


_RECORDED = {"outcomes": "outcome when suspected", "markers": "end marker when suspected"}


def _recorded(recorded: Mapping[str, Any], broker: str) -> dict[str, str]:
    """What had been read of a broker, which stays known when nobody can read the record any more."""
    found = {name: (recorded.get(part) or {}).get(broker) for part, name in _RECORDED.items()}
    records = recorded.get("records")
    fingerprint = records.get(broker) if isinstance(records, dict) else None
    if isinstance(fingerprint, str) and fingerprint.count(":") == 4:  # RecordShown.fingerprint
        producer, epoch, _, content, timestamp = fingerprint.split(":")
        found["producer id, epoch when suspected"] = f"{producer}, {epoch}" if producer != "-1" else "none"
        found["value and headers when suspected, hash"] = content
        found["timestamp when suspected"] = time_text(int(timestamp)) if timestamp.isdigit() else ""
    return {name: str(text) for name, text in found.items() if text}


def _gone(replicas: Mapping[str, Mapping[str, Any]], offset: int) -> str:
    answered = [answer for answer in replicas.values() if answer.get("error") is None]
    if not answered:
        return "No broker answered when Parallax asked last."
    if any(offset in _offsets_in(answer) for answer in answered):
        return ""
    if all(offset < answer.get("log_start_offset", -1) for answer in answered):
        return "It cannot be read any more: every log begins above it."
    return "No broker that answered held a record there when Parallax asked last."


_NO_ANSWER = ("SILENT", "UNREADABLE")
"""Names of members of `parallax.replica.at_offset.Held` that say nothing of the record."""


def _of_asked(one: AtOffset, payload: Payload, secret: bytes) -> dict[str, str]:
    made = {"what is there": str(one.held)}
    if one.held.name in _NO_ANSWER:
        made = {"answer": f"{one.held}{f' ({one.error})' if one.error else ''}"}
    if (record := one.record) is not None:
        made |= {
            "leader epoch": _number(record.leader_epoch),
            "producer id": _number(record.producer_id),
            "producer epoch": _number(record.producer_epoch),
            "timestamp": time_text(record.timestamp_ms) if record.timestamp_ms >= 0 else "none",
        }
    if record is not None and one.held.name == "RECORD":
        made |= {name: said(record, payload, secret) for name, said in _CONTENTS.items()}
    if one.held.name == "RECORD":
        made |= {level.name.lower(): str(one.served[level]) for level in IsolationLevel}
    if one.marks is not None:
        made["log"] = f"{one.marks.log_start_offset:,} to {one.marks.log_end_offset:,}"
    return {name: text for name, text in made.items() if text}


def _key(record: Record, payload: Payload, secret: bytes) -> str:
    return _bytes(record.key, record.key_size, secret, is_shown=payload != "hash")


def _value(record: Record, payload: Payload, secret: bytes) -> str:
    if record.value_size < 0:
        return "null: a tombstone"
    return _bytes(record.value, record.value_size, secret, is_shown=payload == "full")


def _headers(record: Record, payload: Payload, secret: bytes) -> str:
    if not record.headers:
        return "none" if record.headers is not None else "not read"
    if payload == "full":
        return ", ".join(f"{_name(n)}={_bytes(v, -1 if v is None else len(v), secret)}" for n, v in record.headers)
    return f"{len(record.headers)}, hash {_hash(repr(record.headers).encode(), secret)}"


_CONTENTS: Mapping[str, Callable[[Record, Payload, bytes], str]] = {"key": _key, "value": _value, "headers": _headers}


def _name(name: str) -> str:
    return _bytes(name.encode(), len(name), b"")


def _bytes(raw: bytes | None, size: int, secret: bytes, *, is_shown: bool = True) -> str:
    if raw is None:
        return "null" if size < 0 else f"not read: {size:,} bytes"
    if not is_shown:
        return f"{size:,} bytes, hash {_hash(raw, secret)}"
    said = printable(bytes_as_text(raw)) or "empty"
    if len(said) <= _MOST_SHOWN:
        return said
    return f"{said[:_MOST_SHOWN]}... ({size:,} bytes, hash {_hash(raw, secret)})"


def _hash(raw: bytes, secret: bytes) -> str:
    return hashlib.blake2b(raw, key=secret, digest_size=8).hexdigest()
