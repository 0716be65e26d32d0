"""Evidence of another form than events have: a line and exit code 2 for people, left out and counted by the job."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.answers import (
    Answers,
    CoordinatorAnswer,
    KeyShown,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.evidence import check_form
from parallax.findings.finding import Finding
from parallax.findings.table import FindingsTable
from parallax.kinds import KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus
from tests.builders.answers import marker, silent
from tests.builders.findings import finding

_RECORD = RecordShown(17, "committed", 1, 4, 0, 0, "0" * 32, "0" * 16, 1, 1)
_ANSWER = ReplicaAnswer(
    broker=1,
    high_watermark=30,
    last_stable_offset=30,
    log_start_offset=0,
    log_end_offset=30,
    committed={17: _RECORD},
    asked=frozenset({17}),
    uncommitted={17: _RECORD},
    markers=(marker(18, "commit", 4, epoch=0),),
    aborted=((4, 17),),
    open_transactions=(OpenTransaction(4, 17),),
    key=KeyShown(_RECORD, complete=True, newest_offset=17),
    epoch_ends={0: 30},
)
_ANSWERS = Answers({1: _ANSWER, 2: _ANSWER, 3: silent(3)}, leader=1, coordinator=CoordinatorAnswer(4))
_SAMPLE: dict[str, Any] = {
    "offset": 17,
    "key_hash": "0" * 32,
    "suspect_id": "s",
    "kind": str(FindingKind.DELETED_RECORD_RESURRECTED),
    "rule": str(KINDS[FindingKind.DELETED_RECORD_RESURRECTED].rule),
    "broker": 2,
    "producer_id": -1,
    "marker_offset": -1,
    "recorded": {},
    "raised_at_ms": 0,
}
_SIDES = {"value at offset 17": [2], "value at offset 3": [3], "no value": [1]}
_SOUND: dict[str, Any] = _ANSWERS.evidence() | {
    "reason": "it is so",
    "recorded": {
        "markers": {"1": "commit"},
        "outcomes": {"1": "committed", "2": "aborted"},
        "sides": _SIDES,
        "pivot": 2,
        "differed": {"newest": 17, "below": 30, "epoch": 0, "one_key": True},
    },
    "pivot": 2,
    "sides": _SIDES,
    "all_compared": True,
    "showed": [2, 3],
    "resolution": "healed",
    "was_shown": True,
    "proven_by": {"what": "tombstone", "offset": 17, "leader_epoch": 3, "read_on": [1, 3], "read_ms": 5},
    "leans_on": ["aaaa"],
    "incident": {
        "count": 3,
        "waiting": 1,
        "ended": {"healed": 2},
        "lowest_offset": 5,
        "highest_offset": 17,
        "samples": [_SAMPLE],
    },
    "proofs": [{"offset": 17, "key_hash": "", "key": "k"} | _ANSWERS.evidence()],
}

_LEFT = _SOUND | {
    "shown_by": [3],
    "differing": [{"offset": 17, "producer_id": -1, "key": [0, 7], "sides": {"no value": [1]}, "pivot": 3}],
}
"""Of a finding that has ended and leaves something to be judged."""
_PART = _SOUND | {"resolution": "part_of_incident", "incident": "bbbb", "spread": False, "unsettled": False}
"""Of a finding that has become part of an incident."""

_LEAVES = st.sampled_from(
    [None, True, 5, -1, 1.5, float("nan"), float("inf"), 10**40, "", "x", "17", "²", "\ud800", "a\nb", "\x1b[2J"]
)
_JSON = st.one_of(
    _LEAVES,
    st.recursive(
        _LEAVES,
        lambda part: (
            st.lists(part, max_size=2)
            | st.dictionaries(st.sampled_from(["1", "x", "offset", "value at offset x"]), part, max_size=2)
        ),
        max_leaves=4,
    ),
)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document, with each key or index in it."""
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _places(document[key])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Evidence as it is written, of which a part or two are replaced, renamed or missing."""
    document = copy.deepcopy(draw(st.sampled_from([_SOUND, _LEFT, _PART])))
    for _ in range(draw(st.integers(1, 2))):
        within, key = draw(st.sampled_from(list(_places(document))))
        how = draw(st.sampled_from(["replaced", "replaced", "replaced", "missing", "renamed"]))
        if how == "replaced":
            within[key] = draw(_JSON)
        else:
            part = within.pop(key)
            if how == "renamed" and isinstance(within, dict):
                within[draw(st.sampled_from(["x", "1.0", "²", "--1", "value at offset x", "value at offset ²"]))] = part
    return json.dumps(document)


@st.composite
def events(draw: st.DrawFn) -> list[Finding]:
    """An event with mutated evidence, and a sound one of the same partition that accuses another broker."""
    kind = draw(st.sampled_from(list(FindingKind)))
    more: dict[str, Any] = {
        "kind": kind,
        "rule": KINDS[kind].rule,
        "producer_id": 4,
        "transaction_start_offset": 17,
        "marker_offset": 18,
    }
    status = draw(st.sampled_from([s for s in FindingStatus if s is not FindingStatus.DISMISSED]))
    broker = draw(st.sampled_from([1, 2, 3, NOBODY]))
    suspect = draw(st.sampled_from(["", "s"]))
    damaged = finding("aaaa", evidence=draw(mutated()), status=status, broker=broker, suspect_id=suspect, **more)
    return [damaged, finding("bbbb", evidence=json.dumps(_SOUND), **(more | {"broker": 1 if broker != 1 else 2}))]


def _run(folder: Path, written: list[Finding]) -> list[tuple[list[str], Any]]:
    FindingsTable(str(folder)).append(written)
    page = str(folder / "report.html")
    commands = [["findings", "--all"], ["report", "-o", page]]
    commands += [["findings", what, event.finding_id] for event in written for what in ("show", "explain")]
    return [(command, CliRunner().invoke(app, [*command, "--data", str(folder)])) for command in commands]


def _check(folder: Path, written: list[Finding]) -> set[int]:
    codes = set()
    for command, ended in _run(folder, written):
        assert ended.exception is None or isinstance(ended.exception, SystemExit), (command, ended.exception)
        codes.add(ended.exit_code)
        if ended.exit_code:
            assert ended.exit_code == 2, command
            assert ended.stderr.count("\n") == 1, (command, ended.stderr)
            assert "event 1 is damaged (its evidence is of another form" in ended.stderr, (command, ended.stderr)
    return codes


@settings(max_examples=20, deadline=None)
@given(written=events())
def test_whatever_the_evidence_is_the_commands_print_or_end_with_one_line(written: list[Finding]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        assert len(_check(folder, written)) == 1
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "evidence",
    [
        '{"leader": "x"}',
        '{"leader": NaN}',
        '{"leader": 1e999}',
        '{"leader": null}',
        '{"sides": {"a": 5}}',
        '{"sides": {"value at offset x": [1]}}',
        '{"recorded": [1]}',
        '{"recorded": {"markers": {"a": "commit"}}}',
        '{"recorded": {"sides": {"value at offset x": [1]}}}',
        '{"replicas": [1]}',
        '{"replicas": {"x": {}}}',
        '{"replicas": {"1": null}}',
        '{"replicas": {"1": {"error": [1]}}}',
        '{"replicas": {"1": {"key": 5}}}',
        '{"replicas": {"1": {"key": {"visible": 7}}}}',
        '{"replicas": {"1": {"markers": [{"x": 1}]}}}',
        '{"replicas": {"1": {"committed": [{"offset": 17, "outcome": "aborted"}]}}}',
    ],
)
def test_evidence_of_another_form_is_named_by_each_command_and_left_out_by_the_job(
    tmp_path: Path, evidence: str
) -> None:
    assert _check(tmp_path, [finding("aaaa", evidence=evidence), finding("bbbb", broker=1)]) == {2}
    job = FindingsTable(str(tmp_path))
    assert [event.finding_id for event in job.load()] == ["bbbb"]
    assert job.skipped == 1


@pytest.mark.parametrize("suspect", ["", "s"], ids=["incident", "finding"])
@pytest.mark.parametrize("evidence", [json.dumps(_SOUND), "{}", '{"sides": null, "a newer part": [1]}'])
def test_evidence_that_is_whole_or_lacks_parts_is_read(tmp_path: Path, evidence: str, suspect: str) -> None:
    assert _check(tmp_path, [finding("aaaa", evidence=evidence, suspect_id=suspect)]) == {0}


def test_evidence_of_a_finding_that_is_part_of_an_incident_is_read(tmp_path: Path) -> None:
    part = finding("aaaa", evidence=json.dumps(_PART), status=FindingStatus.RESOLVED)
    assert _check(tmp_path, [part]) == {0}


_OFFSETS = st.integers(-1, 2**63 - 1)
_RECORDS = st.builds(RecordShown, _OFFSETS, st.sampled_from(["none", "committed", "aborted"]), producer_id=_OFFSETS)
_REPLICAS = st.builds(
    ReplicaAnswer,
    st.integers(0, 2**31 - 1),
    error=st.none() | st.just("no answer"),
    log_start_offset=_OFFSETS,
    committed=st.dictionaries(_OFFSETS, _RECORDS, max_size=2),
    markers=st.tuples() | st.tuples(st.builds(MarkerShown, _OFFSETS, _OFFSETS, st.sampled_from(["commit", "abort"]))),
    aborted=st.tuples() | st.tuples(st.tuples(_OFFSETS, _OFFSETS)),
    open_transactions=st.none() | st.tuples() | st.tuples(st.builds(OpenTransaction, _OFFSETS, _OFFSETS)),
    open_error=st.none() | st.just("not granted"),
    key=st.none() | st.builds(KeyShown, st.none() | _RECORDS, st.booleans()),
)


@given(
    answers=st.builds(
        Answers,
        st.lists(_REPLICAS, max_size=3).map(lambda all_: {a.broker: a for a in all_}),
        leader=st.integers(-1, 2**31 - 1),
        coordinator=st.none() | st.builds(CoordinatorAnswer, _OFFSETS),
        isr=st.tuples() | st.just((1, 2)),
    )
)
def test_whatever_a_probe_writes_has_the_form(answers: Answers) -> None:
    check_form(json.loads(json.dumps(answers.evidence())))


@pytest.mark.parametrize("name", ["asked", "asked_uncommitted", "committed", "uncommitted"])
@pytest.mark.parametrize("part", [True, 17, [None]])
def test_what_readers_list_has_to_be_a_list_of_what_is_listed(name: str, part: object) -> None:
    with pytest.raises(ValueError, match="another form"):
        check_form({"replicas": {"1": {name: part}}})
