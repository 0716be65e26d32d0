"""The map of topics by brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallax.alerting.page.glance import State, verdicts
from parallax.alerting.page.render import TOPICS_PER_PAGE, Renderer, Wanted
from parallax.alerting.page.topic_map import Cell, Topic, TopicMap, topic_map
from parallax.alerting.status import Watch
from parallax.model import NOBODY, MissingRight, UnknownReason
from tests.builders.coverage import BROKERS, coverage, progress
from tests.pages import Job, shown_again


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.follow()
    return job


def shown(job: Job) -> TopicMap:
    return topic_map(verdicts(job.state.snapshot()))


def overview(job: Job, wanted: Wanted | None = None) -> str:
    snapshot = job.state.snapshot()
    return Renderer().overview(snapshot, Watch().look(snapshot), wanted or Wanted())


def test_a_cell_counts_the_replicas_of_a_topic_on_a_broker_the_gravest_first(job: Job) -> None:
    job.follow("zebra", 2)
    job.find(shown_again(topic="zebra", partition=1))
    zebra = shown(job).topics[0]
    assert (zebra.name, zebra.partitions, zebra.state, zebra.is_calm) == ("zebra", 2, State.DIVERGED, False)
    assert list(zebra.cells[3].states.items()) == [(State.DIVERGED, 1), (State.CONSISTENT, 1)]
    assert [zebra.cells[b].state for b in BROKERS] == [State.CONSISTENT, State.CONSISTENT, State.DIVERGED]


def test_the_worst_topics_come_first_and_the_others_by_name(job: Job) -> None:
    for name in ("zebra", "audited", "gap", "away"):
        job.follow(name)
    job.find(shown_again(topic="zebra"))
    job.state.update_coverage([coverage("gap", unknown={UnknownReason.RETENTION_GAP: (1, 1)})])
    job.state.update_coverage([coverage("away", unknown={UnknownReason.SKIPPED: (1, 1)})])
    assert [topic.name for topic in shown(job).topics] == ["zebra", "away", "gap", "audited", "orders"]


def test_the_whole_map_counts_states_and_offsets_without_a_verdict(job: Job) -> None:
    job.follow("gap", 2)
    job.state.update_coverage([coverage("gap", p, unknown={UnknownReason.RETENTION_GAP: (3, 4)}) for p in range(2)])
    whole = shown(job)
    assert whole.brokers == BROKERS
    assert list(whole.states.items()) == [(State.NOT_FULLY_COMPARED, 6), (State.CONSISTENT, 3)]
    assert whole.unknown == {UnknownReason.RETENTION_GAP: 8}
    assert whole.topics[0].unknown == {UnknownReason.RETENTION_GAP: 8}


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({State.CONSISTENT: 3}, "consistent"),
        ({State.NOT_FULLY_COMPARED: 2, State.CONSISTENT: 1}, "2 of 3 not fully compared"),
        ({State.DIVERGED: 1, State.CONSISTENT: 9_899}, "1 of 9,900 diverged"),
        ({State.DIVERGED: 1, State.UNKNOWN: 2, State.LOADING: 3}, "1 of 6 diverged, 2 of 6 unknown"),
    ],
)
def test_a_cell_says_in_words_what_somebody_has_to_look_after(states: dict[State, int], text: str) -> None:
    assert Cell(states).text == text


def test_a_topic_without_replicas_is_unknown() -> None:
    lone = Topic("lone", {}, 1, {})
    assert (lone.state, lone.is_calm, lone.states) == (State.UNKNOWN, False, frozenset())


def test_nothing_is_on_the_map_where_nothing_is_followed(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.state.update_refusals([("secret", NOBODY, NOBODY)], MissingRight.DESCRIBE, "not authorized")
    assert shown(job) == TopicMap((), (), {}, {})


def test_a_broker_that_holds_no_replica_of_a_topic_has_a_tile_that_says_so(job: Job) -> None:
    job.state.update_progress([progress(broker=7, topic="else", replicas=[7])])
    text = overview(job)
    assert text.count("no replica") == 4
    assert shown(job).brokers == (*BROKERS, 7)


def test_what_nobody_has_to_look_after_is_said_by_its_sign_and_to_a_screen_reader(job: Job) -> None:
    text = overview(job)
    assert text.count('class="consistent"><i aria-hidden="true">1 ✓</i> <b class="unseen">consistent</b>') == 1
    job.find(shown_again())
    assert 'class="diverged"><i aria-hidden="true">3 ✗</i> <b>diverged</b>' in overview(job)


def test_what_follows_on_the_next_pages_is_no_worse_than_is_said(job: Job) -> None:
    for number in range(TOPICS_PER_PAGE):
        job.follow(f"topic-{number:03}")
    job.find(shown_again())
    text = overview(job)
    assert "No topic on the next pages is worse than" in text
    assert f"1 to {TOPICS_PER_PAGE} of {TOPICS_PER_PAGE + 1}" in text
    assert "next pages" not in overview(job, Wanted(page=2))
    assert "next pages" not in overview(job, Wanted(state="diverged"))


def test_why_replicas_are_not_seen_is_said_once_a_topic_and_the_tiles_stay_small() -> None:
    unknown = Cell({State.UNKNOWN: 1}, "one stands still")
    topic = Topic("frozen", {1: unknown, 2: unknown, 3: Cell({State.DIVERGED: 1})}, 1, {})
    assert [cell.text for cell in topic.cells.values()] == ["unknown", "unknown", "diverged"]
    assert topic.unseen == ("one stands still",)
