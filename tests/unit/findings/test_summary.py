"""What a finding says to the person on call: each broker with what it showed itself, and no other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from parallax.alerting.listing import FindingState, headline
from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution, decide
from parallax.findings.decide.case import UNSETTLED
from parallax.findings.ended import Repairs, resolved
from parallax.findings.explain import explain
from parallax.findings.exposure import Led
from parallax.findings.finding import claim_of, effect_in, evidence_of, made, shown_offset
from parallax.findings.in_brief import ended_in_words
from parallax.findings.members import MemberGroup
from parallax.findings.summary import incident, sides_in_words, spread, summary, unsettled, variant_of_many
from parallax.kinds import KINDS, TRANSACTION_KINDS, Variant, effect_of
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule, TopicPartition
from parallax.sides import parsed
from tests.builders.answers import OPEN, PRODUCER, answers, holding, record, replica, shows, silent
from tests.builders.claims import claim, of_key, of_offset
from tests.builders.findings import AT, evidence, finding


def said(c: Claim, *given: ReplicaAnswer, leader: int = 1) -> str:
    asked: Answers = answers(*given, leader=leader, cleanup_policy="compact")
    return summary(c, decide(c, asked), asked)


def about_key(kind: FindingKind, **fields: object) -> Claim:
    return of_key(kind, **({"offset": 50} | fields))


def test_a_replica_that_still_shows_the_deleted_value_is_not_among_those_that_show_none() -> None:
    old = record(30, producer_id=-1)
    text = said(
        about_key(FindingKind.DELETED_RECORD_RESURRECTED), shows(1, None), shows(2, old), shows(3, None), shows(4, old)
    )
    assert "no value on brokers 1 and 3, value at offset 30 on brokers 2 and 4" in text


def test_one_that_committed_it_as_well_is_not_among_those_that_aborted_it() -> None:
    given = [holding(b, "committed" if b in (2, 5) else "aborted") for b in (1, 2, 5)]
    text = said(claim(FindingKind.ABORTED_RECORD_COMMITTED), *given)
    assert "it was aborted on broker 1." in text
    assert "5" not in text


def test_a_deleted_value_that_is_shown_is_named_by_one_offset_to_the_end() -> None:
    c = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        key_hash_lo=1,
        recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}),
    )
    asked = frozenset({10})
    none = [shows(b, None, asked=asked) for b in (1, 2, 3)]
    stale = shows(2, record(4, producer_id=-1), asked=asked, aborted=((PRODUCER, 10),))
    given = answers(none[0], stale, none[2], leader=1)
    first = made("f", FindingStatus.CONFIRMED, c, decide(c, given), given, None, AT)
    assert "broker 2 still shows a value of it, at offset 4" in first.summary
    over = decide(claim_of(first), answers(*none, leader=1), live_only=True)
    last = made("f", FindingStatus.RESOLVED, claim_of(first), over, answers(*none, leader=1), first, AT)
    assert last.summary == (
        "Broker 2 had aborted a committed transaction of orders-0, and showed a value of a deleted key, at offset 4. "
        "Not healed: broker 2 did not show the value at offset 4 any more. "
        "Consumers that read it there in read_committed could go on seeing what was deleted."
    )
    assert (shown_offset(first), shown_offset(last)) == (4, 4)
    assert ended_in_words(last) == "it shows that value no longer", "the record was gone before the finding was"


@pytest.mark.parametrize("kind", [FindingKind.READ_COMMITTED_FROZEN, FindingKind.ABORTED_RECORD_COMMITTED])
@pytest.mark.parametrize("how", [Resolution.COMPACTED, Resolution.HEALED])
def test_what_consumers_could_see_is_said_once_of_a_finding_that_is_over(kind: FindingKind, how: Resolution) -> None:
    over = Decision(ClaimState.DISMISSED, kind, "it is over", resolution=how)
    event = made("f", FindingStatus.RESOLVED, claim(kind), over, Answers({}), None, AT, repaired=Repairs(("Mended.",)))
    led = Led(("Broker 2 led.",), "Consumers that read it there got nothing.", is_wrong=True)
    is_said = how is Resolution.COMPACTED
    assert led.unsaid(event) == (led.reigns if is_said else led.sentences)
    after = led.added_to(event)
    assert after.summary == " ".join((event.summary, *led.unsaid(event)))
    assert led.unsaid(after) == (), "the event says what its text has, whatever the words"
    assert "Mended." in evidence_of(after)["said"]


def test_one_that_is_frozen_as_well_is_not_among_those_where_it_has_ended() -> None:
    stuck = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (2, 4)]
    text = said(claim(FindingKind.READ_COMMITTED_FROZEN), replica(1), *stuck)
    assert "that has ended on broker 1." in text


def test_a_leader_that_shows_what_the_accused_shows_is_named() -> None:
    old = record(30, producer_id=-1)
    given = shows(1, None), shows(2, old), shows(3, old)
    text = said(about_key(FindingKind.DELETED_RECORD_RESURRECTED), *given, leader=3)
    assert text.endswith("Broker 3 leads the partition and shows the same: consumers read what was deleted.")
    assert "becomes the leader" not in text


def test_values_of_a_key_do_not_say_which_replica_has_aborted_a_transaction() -> None:
    sides = parsed({"a value": (2,), "no value": (1,)})
    c = claim(FindingKind.ABORTED_RECORD_COMMITTED)
    text = summary(
        c, Decision(ClaimState.CONFIRMED, c.kind, "r", accused=2, sides=sides), answers(replica(1), replica(2))
    )
    assert "it was aborted according to what was read earlier. Shown for its key: a value on broker 2" in text


def deletion(broker: int, outcome: str) -> ReplicaAnswer:
    return replica(broker, committed={10: record(outcome=outcome, value_size=-1)}, asked=frozenset({10}))


@pytest.mark.parametrize(
    ("kind", "accused", "others", "said_of_it"),
    [
        (FindingKind.ABORTED_RECORD_COMMITTED, "committed", "aborted", "read a deletion that was rolled back."),
        (FindingKind.COMMITTED_RECORD_ABORTED, "aborted", "committed", "never see a deletion that was committed."),
    ],
)
def test_a_wrong_outcome_of_a_deletion_says_what_that_does_to_consumers(
    kind: FindingKind, accused: str, others: str, said_of_it: str
) -> None:
    text = said(claim(kind), deletion(1, others), deletion(2, accused))
    assert "deletion at offset 10" in text
    assert text.endswith(said_of_it)
    assert "data that was rolled back" not in text


def test_a_hidden_deletion_is_said_to_be_seen_only_where_an_older_value_is_shown() -> None:
    c = claim(FindingKind.COMMITTED_RECORD_ABORTED)
    older = shows(2, record(4, producer_id=-1), committed={10: record(outcome="aborted", value_size=-1)})
    text = said(c, deletion(1, "committed"), replace(older, asked=frozenset({10})))
    assert "and shows an older value of its key, at offset 4;" in text
    assert text.endswith("consumers in read_committed go on seeing what was deleted.")


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("variant", Variant)
def test_title_body_and_explanation_say_one_thing_of_what_consumers_meet(kind: FindingKind, variant: Variant) -> None:
    one = finding(kind=kind, exposed=True, evidence=evidence({}, leader=2, variant=str(variant)))
    effect = effect_of(kind, variant)
    assert headline(FindingState.EXPOSED, one).startswith(effect.headline.format(broker=2, partition="orders-0"))
    if kind is not FindingKind.READ_COMMITTED_FROZEN:  # it names the offset
        assert explain(one).now.endswith(f"consumers {effect.consumers}.")


def test_the_event_of_a_wrong_outcome_keeps_what_it_is_about_when_all_replicas_share_it() -> None:
    c = claim(FindingKind.COMMITTED_RECORD_ABORTED)
    given = answers(deletion(1, "committed"), deletion(2, "aborted"), leader=1, cleanup_policy="compact")
    first = made("f", FindingStatus.CONFIRMED, c, decide(c, given), given, None, AT)
    shared = Decision(ClaimState.DISMISSED, c.kind, "every replica shows it", resolution=Resolution.SPREAD)
    both = answers(deletion(1, "aborted"), deletion(2, "aborted"), leader=1)
    event = made("f", FindingStatus.SPREAD, replace(c, broker=2), shared, both, first, AT)
    for one in (first, event):
        assert effect_in(one).consumers == effect_of(c.kind, Variant.DELETION).consumers
        assert effect_in(one).consumers in one.summary
    over = Decision(ClaimState.DISMISSED, c.kind, "every replica holds newer", resolution=Resolution.SUPERSEDED)
    ended = made("f", FindingStatus.RESOLVED, claim_of(event), over, both, event, AT)
    assert ended.summary == (
        "Every replica hid the committed deletion at offset 10 of orders-0 as aborted. Over, because something newer "
        "was written: every replica held newer. Consumers that read it there in read_committed could never see a "
        "deletion that was committed."
    )
    assert effect_in(ended) == effect_in(event)


@pytest.mark.parametrize(
    ("others", "at", "said_of_it"),
    [
        (20, 4, "Broker 2 still shows an older value of its key, at offset 4. If broker 2 becomes the leader,"),
        (None, 4, "The key was deleted, and broker 2 still shows a value of it, at offset 4. If broker 2 becomes"),
        (40, 40, "holds its record at offset 10 any more. If broker 2 becomes the leader, consumers"),
    ],
)
def test_nobody_is_said_to_hide_a_record_that_no_replica_holds_any_more(
    others: int | None, at: int, said_of_it: str
) -> None:
    c = claim(FindingKind.COMMITTED_RECORD_ABORTED, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}))
    asked = frozenset({10})
    newer = None if others is None else record(others, producer_id=-1)
    given = [shows(1, newer, asked=asked), shows(2, record(at, producer_id=-1), asked=asked, aborted=((PRODUCER, 10),))]
    text = said(c, *given)
    assert text.startswith("Broker 2 has aborted a committed transaction of orders-0; it was committed")
    assert said_of_it in text
    assert ("deleted" in text) is (others is None)
    assert "hides" not in text


def test_a_value_that_a_wrong_outcome_has_taken_is_said_to_be_lacking() -> None:
    c = claim(FindingKind.ABORTED_RECORD_COMMITTED)
    sides = parsed({"no value": (2,), "value at offset 4": (1,)})
    text = summary(
        c, Decision(ClaimState.CONFIRMED, c.kind, "r", accused=2, sides=sides), answers(replica(1), replica(2))
    )
    assert text.startswith("Broker 2 lacks a value of the key of offset 10 of")
    assert "as committed" not in text
    assert text.endswith("consumers miss a value that a cleaner took by mistake.")


def test_values_that_differ_where_outcomes_were_suspected_are_said_of_the_key() -> None:
    c = claim(FindingKind.VISIBILITY_MISMATCH)
    sides = parsed({"no value": (2,), "a value": (1, 3)})
    text = summary(c, Decision(ClaimState.CONFIRMED, c.kind, "r", sides=sides), answers(*map(replica, (1, 2, 3))))
    assert "do not show the same latest value for the key of offset 10: no value on broker 2" in text


def test_a_deletion_is_named_by_the_tombstone_and_not_by_the_value_that_the_claim_was_about() -> None:
    old, tombstone = record(30, producer_id=-1), record(70, producer_id=-1, value_size=-1)
    given = shows(1, tombstone), shows(2, old), shows(3, tombstone)
    assert "was deleted at offset 70." in said(about_key(FindingKind.VISIBILITY_MISMATCH, offset=50), *given)
    deleted = FindingKind.DELETED_RECORD_RESURRECTED
    assert "was deleted at offset 70." in said(about_key(deleted, offset=70), *given)
    assert "was deleted at offset 50." in said(about_key(deleted), shows(1, None), shows(2, old), shows(3, None))


def test_a_replica_that_did_not_answer_is_not_named() -> None:
    text = said(claim(FindingKind.ABORTED_RECORD_COMMITTED), holding(1, "aborted"), holding(2, "committed"), silent(3))
    assert "3" not in text


def test_a_difference_without_direction_names_its_sides_and_warns_of_wiping_any() -> None:
    c = about_key(FindingKind.VISIBILITY_MISMATCH, offset=30)
    value = record(30, producer_id=-1)
    text = said(c, shows(1, None), shows(2, value), shows(3, value))
    assert "no value on broker 1, value at offset 30 on brokers 2 and 3." in text
    assert "wipe no replica on this evidence" in text
    assert "becomes the leader" not in text


def test_a_missing_record_says_which_older_value_is_shown_and_who_shows_the_newer() -> None:
    old, new = record(30, producer_id=-1), record(50, producer_id=-1)
    text = said(about_key(FindingKind.RECORD_MISSING), shows(1, new), shows(2, old), shows(3, new))
    assert "Shown: value at offset 30 on broker 2, value at offset 50 on brokers 1 and 3." in text


def test_content_whose_direction_an_epoch_proves_says_so() -> None:
    c = of_offset(FindingKind.CONTENT_MISMATCH, broker=NOBODY)
    old, new = record(content_hash="aa", leader_epoch=1), record(content_hash="bb", leader_epoch=2)
    c = replace(c, recorded=RecordedByViews(pivot=1))
    text = said(c, replica(1, uncommitted={10: new}), replica(2, uncommitted={10: old}))
    assert "What broker 2 holds there was replaced in a newer leader epoch." in text
    assert "wipe" not in text
    same = said(c, replica(1, uncommitted={10: new}), replica(2, uncommitted={10: replace(old, leader_epoch=2)}))
    assert "wipe no replica on this evidence" in same


@pytest.mark.parametrize("resolution", list(Resolution))
def test_the_end_of_a_difference_without_direction_names_nobody_and_not_what_was_seen(
    resolution: Resolution,
) -> None:
    c = about_key(FindingKind.VISIBILITY_MISMATCH, broker=NOBODY)
    ended = Decision(ClaimState.DISMISSED, c.kind, "broker 1 does not hold offset 50 any more", resolution=resolution)
    stays_open = resolution in (Resolution.SPREAD, *UNSETTLED)
    answers = Answers({}, asked_at_ms=1_702_425_790_000)
    over = "" if stays_open else resolved(c, ended, answers).text
    assert stays_open or "broker 1 did not hold offset 50 any more, asked 2023-12-13 00:03:10Z" in over
    for text in (over, spread(c, ended), unsettled(c, ended)):
        assert "-1" not in text.replace("2023-12-13", "")
        assert "could" not in text


@pytest.mark.parametrize(
    ("kind", "variant", "was"),
    [
        (FindingKind.ABORTED_RECORD_COMMITTED, Variant.PLAIN, "showed the rolled-back record at"),
        (FindingKind.ABORTED_RECORD_COMMITTED, Variant.DELETION, "showed the rolled-back deletion at"),
        (FindingKind.COMMITTED_RECORD_ABORTED, Variant.UNDELETED, "hid the committed deletion at"),
        (FindingKind.COMMITTED_RECORD_ABORTED, Variant.GONE, "had aborted a committed transaction of orders-0 with"),
        (FindingKind.OUTCOME_CONTRADICTS_MARKER, Variant.TAKEN, "lacked a value of the key of"),
    ],
)
def test_the_end_says_what_was_wrong_as_the_beginning_did(kind: FindingKind, variant: Variant, was: str) -> None:
    before = finding(kind=kind, evidence=evidence({}, variant=str(variant)))
    over = Decision(ClaimState.DISMISSED, kind, "r", resolution=Resolution.HEALED)
    ended = made("f", FindingStatus.RESOLVED, claim(kind), over, Answers({}), before, AT)
    assert ended.summary.startswith(f"Broker 2 {was}")


WITHOUT_A_TRACE = (Resolution.COMPACTED, Resolution.DELETED)


def ended(c: Claim, resolution: Resolution, repaired: str = "", begun: str = "") -> str:
    gone = "broker 2 holds neither the transaction open nor its record at offset 10"
    return resolved(
        c,
        Decision(ClaimState.DISMISSED, c.kind, gone, resolution=resolution),
        Answers({}),
        Repairs(tuple(filter(None, [repaired])), tuple(filter(None, [begun]))),
    ).text


@pytest.mark.parametrize("kind", [FindingKind.READ_COMMITTED_FROZEN, FindingKind.MARKER_MISSING])
@pytest.mark.parametrize("resolution", WITHOUT_A_TRACE)
def test_a_transaction_that_is_open_no_more_is_over_for_consumers_and_showed_none_anything(
    kind: FindingKind, resolution: Resolution
) -> None:
    text = ended(claim(kind), resolution)
    assert "Over for consumers: broker 2 held neither the transaction open" in text
    assert "consumers in read_committed got nothing beyond it there. They were shown nothing wrong." in text
    assert text.endswith("Its record is gone from broker 2.")
    assert "could" not in text
    assert "Not healed" not in text


@pytest.mark.parametrize("resolution", WITHOUT_A_TRACE)
def test_what_a_repair_on_record_has_mended_is_said_to_be_repaired(resolution: Resolution) -> None:
    text = ended(claim(FindingKind.READ_COMMITTED_FROZEN), resolution, "Repair aaaa wrote a COMMIT marker.")
    assert " Repair aaaa wrote a COMMIT marker. While broker 2 held the transaction open," in text
    assert "could" not in text
    assert "is gone" not in text


@pytest.mark.parametrize("resolution", [Resolution.HEALED, Resolution.COMPACTED])
def test_a_repair_that_had_begun_is_named_at_the_end_and_ends_nothing_by_itself(resolution: Resolution) -> None:
    c, begun = claim(FindingKind.ABORTED_RECORD_COMMITTED), "Repair aaaa had begun to copy broker 2."
    assert ended(c, resolution, begun=begun) == f"{ended(c, resolution)} {begun}"


def test_no_transaction_that_all_held_open_showed_anybody_anything() -> None:
    c = replace(claim(FindingKind.READ_COMMITTED_FROZEN), spread=True)
    assert "could" not in ended(c, Resolution.SUPERSEDED)
    assert "could" in ended(replace(c, kind=FindingKind.ABORTED_RECORD_COMMITTED), Resolution.SUPERSEDED)


def test_what_consumers_of_a_record_that_was_shown_wrongly_could_see_is_said() -> None:
    text = ended(claim(FindingKind.ABORTED_RECORD_COMMITTED), Resolution.COMPACTED)
    assert "Not healed: " in text
    assert text.endswith("Consumers that read it there in read_committed could read data that was rolled back.")
    assert "cleaner" not in text, "a log that was copied again lacks the record as well"


@pytest.mark.parametrize("kind", [FindingKind.ABORTED_RECORD_COMMITTED, FindingKind.RECORD_MISSING])
@pytest.mark.parametrize("resolution", [*WITHOUT_A_TRACE, Resolution.UNPROVEN, Resolution.INCOMPARABLE])
def test_a_copy_on_record_is_why_nothing_is_left_of_what_was_wrong(kind: FindingKind, resolution: Resolution) -> None:
    text = ended(claim(kind), resolution, "Repair aaaa copied broker 2 again from broker 1.")
    assert " Repair aaaa copied broker 2 again from broker 1. What broker 2 had shown is gone from its log." in text
    assert text.endswith(f"Consumers that read it there {effect_of(kind, Variant.PLAIN).could}.")
    assert "Not healed" not in text


def test_a_log_that_lost_its_head_is_said_to_begin_where_it_begins_now() -> None:
    text = said(claim(FindingKind.LOG_HEAD_MISSING, offset=5), replica(1), replica(2, log_start_offset=4))
    assert "on broker 2 begins at offset 4" in text


def test_one_broker_shows_and_two_are_joined() -> None:
    assert sides_in_words(parsed({"a": (1,), "b": (2, 3), "c": (4, 5, 6)})) == (
        "a on broker 1, b on brokers 2 and 3, c on brokers 4, 5 and 6"
    )


@pytest.mark.parametrize("kind", sorted(TRANSACTION_KINDS))
def test_that_consumers_are_misled_about_an_outcome_is_said_of_those_in_read_committed_only(kind: FindingKind) -> None:
    assert KINDS[kind].consumers.startswith("in read_committed ")


def test_an_incident_that_all_share_is_told_in_the_past_and_with_what_consumers_read() -> None:
    group = MemberGroup(TopicPartition("orders", 0), NOBODY, FindingKind.VISIBILITY_MISMATCH, Rule.LATEST_VALUE)
    assert incident(group, 12, (3, 99), 0, FindingStatus.SPREAD, is_exposed=True) == (
        "The replicas of orders-0 differed in 12 keys (offsets 3 to 99). A probe has proven it of each. No replica "
        "that answered shows otherwise by now: nothing is left to compare with. Consumers may read a value that is "
        "wrong, or miss one."
    )


@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.many])
def test_what_consumers_of_many_records_meet_is_not_told_of_one(kind: FindingKind) -> None:
    assert "that record" not in KINDS[kind].consumers


@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.many])
def test_the_title_of_one_record_is_of_one_and_that_of_an_incident_of_many(kind: FindingKind) -> None:
    many = variant_of_many(MemberGroup(TopicPartition("orders", 0), 2, kind, KINDS[kind].rule))
    one, others = effect_of(kind).headline, effect_of(kind, many).headline
    assert re.search(r"\b(a|an|another) ", one), one
    assert re.search(r"\b(records|transactions|values) of", others), others


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("variant", Variant)
def test_what_consumers_could_see_is_what_they_see_in_the_past(kind: FindingKind, variant: Variant) -> None:
    one = effect_of(kind, str(variant))
    if kind is FindingKind.READ_COMMITTED_FROZEN:
        assert one.could == "in read_committed got nothing beyond the last stable offset there", (
            "nobody was given a choice"
        )
        return
    assert one.could.startswith(("could ", "in read_committed could "))
    assert one.could.replace("could ", "", 1) in (one.consumers, one.consumers.replace("may ", "", 1))
