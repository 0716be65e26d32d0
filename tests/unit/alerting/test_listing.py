"""How a finding is named in one line."""

from __future__ import annotations

import pytest

from parallax.alerting.listing import FindingState, headline
from parallax.model import FindingKind


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("state", FindingState)
def test_the_headline_names_broker_and_partition(kind: FindingKind, state: FindingState) -> None:
    said = headline(state, kind, "2", "orders-0")
    assert "roker 2" in said
    assert "orders-0" in said


def test_a_freeze_holds_back_consumers_where_they_meet_it_and_else_says_how_it_stays_so() -> None:
    said = {state: headline(state, FindingKind.READ_COMMITTED_FROZEN, "2", "orders-0") for state in FindingState}
    for state in (FindingState.EXPOSED, FindingState.SPREAD):
        assert "read_committed stands still;" in said[state]
        assert "keep broker" not in said[state]
    assert said[FindingState.CONFIRMED].endswith(
        ": read_committed would stand still if it led. Who reads from the leader is not misled: keep broker 2 from "
        "leading"
    )


@pytest.mark.parametrize("state", FindingState)
def test_where_nobody_is_accused_it_names_the_kind_and_no_broker(state: FindingState) -> None:
    said = headline(state, FindingKind.VISIBILITY_MISMATCH, "", "orders-0")
    assert said.startswith("Replicas of orders-0 differ")
    assert "(visibility_mismatch)" in said
    assert "nothing proves" in said
    assert "roker" not in said


def test_of_replicas_that_agree_by_now_nothing_is_said_to_stand() -> None:
    said = headline(FindingState.UNSETTLED, FindingKind.DELETED_RECORD_RESURRECTED, "2", "orders-0")
    assert said == (
        "Replicas of orders-0 differed (deleted_record_resurrected, broker 2), and agree by now; "
        "nothing proves that they agree on what is right"
    )


@pytest.mark.parametrize(
    ("kind", "broker", "meet"),
    [
        (FindingKind.DELETED_RECORD_RESURRECTED, "2", "consumers meet it now"),
        (FindingKind.VISIBILITY_MISMATCH, "", "consumers may meet it now"),
        (FindingKind.OUTCOME_CONTRADICTS_MARKER, "2", "consumers may meet it now"),
    ],
)
def test_that_consumers_meet_it_is_said_only_where_it_is_known(kind: FindingKind, broker: str, meet: str) -> None:
    assert headline(FindingState.EXPOSED, kind, broker, "orders-0").endswith(f"; {meet}")
    assert "consumers" not in headline(FindingState.CONFIRMED, kind, broker, "orders-0")
