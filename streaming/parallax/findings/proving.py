"""The record or end marker that proves an accused wrong: where it lies, and who has shown it.

What other replicas show or lack proves nothing by itself. A finding's reason, its explanation and its evidence
therefore name this one (`parallax.findings.decide.proof`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parallax.counts import brokers_text
from parallax.evidence.atoms import Place
from parallax.model import UNKNOWN
from parallax.moments import time_text

PROVEN_BY = "proven_by"
"""Key in an event's evidence: a `ProvingRecord`; absent where no single record or end marker proves the finding."""


class Proving(StrEnum):
    """What the record is."""

    TOMBSTONE = "tombstone"
    COMMIT = "commit"
    ABORT = "abort"
    END = "end"
    """An end marker of which it is not known whether it is a COMMIT or an ABORT."""


_NAMES: Mapping[Proving, str] = {
    Proving.TOMBSTONE: "tombstone",
    Proving.COMMIT: "COMMIT",
    Proving.ABORT: "ABORT",
    Proving.END: "end marker",
}
_BINDS: Mapping[Proving, str] = {
    Proving.TOMBSTONE: "No replica may show an older value of the key.",
    Proving.COMMIT: "Every replica must show that transaction as committed.",
    Proving.ABORT: "Every replica must show that transaction as aborted.",
    Proving.END: "No replica may hold that transaction open.",
}


@dataclass(frozen=True, slots=True)
class ProvingRecord:
    """A record or an end marker that binds all replicas.

    Attributes:
        what: what it is.
        offset: its offset.
        leader_epoch: the leader epoch in which it was written; -1 where it is not known.
        commit: of a tombstone in a transaction: the offset of the COMMIT directly behind it, without which it would
            prove nothing; else -1.
        read_on: the brokers whose replicas showed it when the views were read, in order; empty where not known.
        read_ms: when all of these had shown it, milliseconds since 1970 UTC; -1 where not known.
        shown_on: the brokers whose replicas showed it in the answers that prove the finding, in order.
    """

    what: Proving
    offset: int
    leader_epoch: int = UNKNOWN
    commit: int = UNKNOWN
    read_on: tuple[int, ...] = ()
    read_ms: int = UNKNOWN
    shown_on: tuple[int, ...] = ()

    @property
    def place(self) -> Place:
        """Its place: its offset with its leader epoch."""
        return Place(self.offset, self.leader_epoch)

    @property
    def clause(self) -> str:
        """A clause that names it: ``deleted by the tombstone at offset 1, epoch 0, that brokers 1 and 3 had shown``."""
        name = f"the {_NAMES[self.what]} at offset {self.offset}"
        if self.leader_epoch >= 0:
            name += f", epoch {self.leader_epoch}"
        if self.commit >= 0:
            name += f", committed at offset {self.commit}"
        verb = "deleted" if self.what is Proving.TOMBSTONE else "ended"
        return f"{verb} by {name}, that {self._witnesses}"

    @property
    def sentences(self) -> str:
        """The same for a person: what deleted or ended it, and what every replica must therefore show."""
        return f"{self.clause[:1].upper()}{self.clause[1:]}. {_BINDS[self.what]}"

    @property
    def _witnesses(self) -> str:
        if self.read_on:
            until = f" by {time_text(self.read_ms)}" if self.read_ms > 0 else ""
            return f"{brokers_text(self.read_on)} had shown{until}"
        if self.shown_on:
            return f"{brokers_text(self.shown_on)} showed when asked"
        return "was read"

    def as_json(self) -> dict[str, Any]:
        """Return it as values for JSON, which `parse` reads; what is not known is left out."""
        numbers = ("leader_epoch", "commit", "read_ms")
        found: dict[str, Any] = {"what": str(self.what), "offset": self.offset}
        found |= {name: number for name in numbers if (number := getattr(self, name)) >= 0}
        return found | {name: list(on) for name in ("read_on", "shown_on") if (on := getattr(self, name))}

    @classmethod
    def parse(cls, part: Mapping[str, Any]) -> ProvingRecord:
        """Return what ``part`` says, a value of JSON that `as_json` made (`parallax.findings.evidence` checks it)."""
        epoch, commit, read_ms = (part.get(name, UNKNOWN) for name in ("leader_epoch", "commit", "read_ms"))
        read_on, shown_on = (tuple(part.get(name, ())) for name in ("read_on", "shown_on"))
        return cls(Proving(part["what"]), part["offset"], epoch, commit, read_on, read_ms, shown_on)


__all__ = ["PROVEN_BY", "Proving", "ProvingRecord"]
