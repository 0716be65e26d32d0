"""The JSON form of the evidence in an event of the findings table, checked once when events are read.

`parallax.findings.answers` and `parallax.findings.finding` write this form. A field that earlier versions did not write
has a default here. A field that is present must have the right type, so that no reader has to check again. Fields that
no code reads may have any form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from parallax.model import NOBODY, UNKNOWN
from parallax.sides import parsed

_LAST_MS = 253_402_300_799_999
"""The last moment that can be written as a date, milliseconds since 1970 UTC."""


def _offsets_in_names(sides: dict[str, list[int]]) -> dict[str, list[int]]:
    """Refuse a side whose name says that it shows something at an offset, and gives no offset."""
    parsed(sides)
    return sides


_BrokerId = Annotated[str, StringConstraints(pattern=r"^-?[0-9]{1,10}$")]
_Sides = Annotated[dict[str, list[int]], AfterValidator(_offsets_in_names)]


class _Part(BaseModel):
    """A part of the document: nothing is converted, and unknown names are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Record(_Part):
    offset: int
    outcome: str
    producer_id: int


class _Value(_Part):
    offset: int
    value_size: int


class _Marker(_Part):
    offset: int
    producer_id: int
    type: str


class _Aborted(_Part):
    producer_id: int
    first_offset: int


class _Open(_Part):
    producer_id: int
    start_offset: int


class _KeyShown(_Part):
    visible: _Value | None = None
    complete: bool = True


class _Replica(_Part):
    error: str | None = None
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    log_end_offset: int = UNKNOWN
    committed: list[_Record] = []
    uncommitted: list[_Record] = []
    asked: list[int] = []
    asked_uncommitted: list[int] = []
    markers: list[_Marker] = []
    aborted: list[_Aborted] = []
    open_transactions: list[_Open] | None = None
    open_error: str | None = None
    key: _KeyShown | None = None


class _Recorded(_Part):
    markers: dict[_BrokerId, str | None] | None = None
    outcomes: dict[_BrokerId, str | None] | None = None
    sides: _Sides | None = None


class _Led(_Part):
    leader: int = NOBODY
    leader_epoch: int = UNKNOWN
    shows: bool = False


class _Incident(_Part):
    ended: dict[str, int] = {}
    beside: list[int] = []
    led: _Led = _Led()


class _Proof(_Part):
    offset: int
    key: str | None
    leader: int = NOBODY
    replicas: dict[_BrokerId, _Replica] = {}


class _Differing(_Part):
    offset: int
    producer_id: int = UNKNOWN
    key: Annotated[list[int], Field(min_length=2, max_length=2)]
    sides: _Sides
    pivot: int


class _ProvenBy(_Part):
    what: Literal["tombstone", "commit", "abort", "end"]  # a `Proving`
    offset: int
    leader_epoch: int = UNKNOWN
    commit: int = UNKNOWN
    read_on: list[int] = []
    read_ms: Annotated[int, Field(ge=UNKNOWN, le=_LAST_MS)] = UNKNOWN
    shown_on: list[int] = []


class _Met(_Part):
    leaders: list[int]
    since_ms: Annotated[int, Field(ge=0, le=_LAST_MS)]
    until_ms: Annotated[int, Field(ge=UNKNOWN, le=_LAST_MS)]


class _Evidence(_Part):
    asked_at_ms: Annotated[int, Field(ge=0, le=_LAST_MS)] = 0
    leader: int = NOBODY
    leader_epoch: int = UNKNOWN
    assigned: list[int] = []
    replicas: dict[_BrokerId, _Replica] = {}
    sides: _Sides | None = None
    recorded: _Recorded | None = None
    incident: _Incident | str = _Incident()
    """Of an incident what it counts; of a finding that has become part of one that one's id."""
    proofs: list[_Proof] = []
    proven_by: _ProvenBy | None = None
    shown_by: list[int] = []
    record_offset: int = UNKNOWN
    met: _Met | None = None
    showed: list[int] = []
    since_epoch: int = UNKNOWN
    differing: list[_Differing] = []


def check_form(evidence: Mapping[str, Any]) -> None:
    """Check that an event's evidence has the form that its readers expect.

    Args:
        evidence: the evidence, parsed from JSON.

    Raises:
        ValueError: the evidence has another form.
    """
    try:
        _Evidence.model_validate(evidence)
    except ValidationError as error:
        raise ValueError("its evidence is of another form than that of an event") from error
