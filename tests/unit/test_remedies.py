"""Plans, explanations and the runbook advise no repair that is not in the table for the kind of finding."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from parallax.findings.explain import explain, section_of
from parallax.findings.finding import Finding, has_spread, is_unsettled
from parallax.kinds import KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.remedies import CASES, REMEDIES, REMOVED_FOLDER, SHARED, WITHOUT_DIRECTION, Act, Case
from tests.unit.findings.explained import PROVEN, assigned_as, explained, index_wrong

RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()
REPAIRS = re.compile(
    r"kafka-(reassign-partitions|leader-election|console-producer|transactions)\.sh|\.(txn)?index\b|cleanshutdown"
    r"|\bwrit(e|es|ten)\b[^.]*\b(again|once more)\b|\bcop(y|ied|ies)\b[^.]*\b(again|anew|back)\b|\bnew copy\b"
    r"|\b(tombstone|end marker)s?\b[^.]*\bagain\b|\b(wipe|remove)\b[^.]*\b(folder|replica)\b|\bdrop\b[^.]*\bcopy\b"
    r"|repair plan .*--right|\bletting? [^.]*\blead\b|\babort (it|the)\b",
    re.IGNORECASE,
)
"""Words by which a repair is advised."""
OF_AN_ABSENCE = "ParallaxReplicaOutage"
"""A replica that is away is no finding; what is done about it is no repair of one."""


def by_hand() -> dict[str, str]:
    """What is not generated of the runbook, by heading."""
    head, rest = RUNBOOK.split("<!-- From here to the end mark", 1)
    text = head + rest.split("<!-- End mark. -->", 1)[1]
    return {part.split("\n", 1)[0]: part for part in re.split(r"(?m)^#{2,3} ", text)[1:]}


def test_no_part_of_the_runbook_that_is_written_by_hand_advises_a_repair() -> None:
    parts = by_hand()
    assert len(parts) > 30
    for heading, text in parts.items():
        found = REPAIRS.search(re.sub(r"\s+", " ", text))
        assert found is None or heading == OF_AN_ABSENCE, f"{heading}: {found[0]}"


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.name)
def test_the_table_itself_would_be_noticed_in_a_part_that_is_written_by_hand(remedy: object) -> None:
    lines = [act.begin() for one in REMEDIES if one is remedy for act in one.acts]
    told = [line for line in lines if REPAIRS.search(line)]
    assert told or lines in ([Act.END_MARKER.begin()], [Act.REBUILD_INDEX.begin()])


def line_of(act: Act) -> re.Pattern[str]:
    """What a text has that advises a step, whomever it names."""
    parts = [re.escape(part) for part in re.split(r"\{\w+\}", act.template)]
    return re.compile(".+?".join(parts), re.IGNORECASE)


def case_of(one: Finding) -> Case:
    if has_spread(one):
        return SHARED
    is_open = one.broker == NOBODY or is_unsettled(one)
    return WITHOUT_DIRECTION if is_open else KINDS[one.kind].case


CHANGES = re.compile(
    r"--execute|kafka-leader-election\.sh|kafka-console-producer\.sh|repair run|\brm\b|transactions\.sh.* abort"
)
SIDES = (PROVEN, {"no value": [1], "value at offset 0": [2]}, {"value at offset 1": [1, 3], "value at offset 0": [2]})
OPEN = explained(
    {"open": [2], "ended": [1, 3]},
    kind=FindingKind.READ_COMMITTED_FROZEN,
    transaction_start_offset=4,
    marker_offset=9,
    producer_id=7,
)
MANY = [
    *(
        explained(sides, leader, kind=kind, exposed=leader == 2)
        for sides in SIDES
        for leader in (1, 2)
        for kind in KINDS
    ),
    *(
        explained(PROVEN, kind=kind, status=status)
        for kind in KINDS
        for status in (FindingStatus.SPREAD, FindingStatus.UNSETTLED)
    ),
    explained(PROVEN, broker=NOBODY, kind=FindingKind.VISIBILITY_MISMATCH),
    explained({"no value": [1], "value at offset 0": [2]}, replicas=(1, 2)),
    explained({}, replicas=(), leader=NOBODY, suspect_id="", exposed=True),
    assigned_as(explained(PROVEN, leader=2, exposed=True), [2, 3, 1]),
    assigned_as(index_wrong({"aborted": [1, 3], "committed": [2]}, 1, leader=2, exposed=True), [2, 3, 1]),
    index_wrong({"aborted": [1], "committed": [2]}, 2),
    OPEN,
    replace(OPEN, kind=FindingKind.MARKER_MISSING),
]


def test_every_step_of_an_explanation_that_repairs_is_one_of_its_kind_in_the_table() -> None:
    seen = set[Act]()
    for one in MANY:
        for step in explain(one).steps:
            assert step.act is not None or not CHANGES.search(step.run), f"{one.kind}: {step.text}"
            if step.act is None:
                continue
            assert line_of(step.act).search(step.text), step.text
            assert case_of(one).has(step.act), f"{one.kind}, {one.status}, {one.broker}: {step.act.name}"
            seen.add(step.act)
    assert seen == {*Act} - {Act.ABORT}, "each step of the table was advised once"


def test_the_section_about_each_finding_is_generated_from_its_case() -> None:
    for case in CASES:
        assert f"\n### {case.title}\n" in RUNBOOK
    for one in MANY:
        anchors = {case_of(one).anchor, "parallaxlosscomplete", "parallaxdivergenceunsettled"}
        assert section_of(one) in anchors


def test_the_advice_on_folders_names_what_makes_them_dangerous() -> None:
    section = RUNBOOK.split(f"### {REMOVED_FOLDER.title}\n")[1].split("\n#")[0]
    assert [word for word in (".kafka_cleanshutdown", "ELR", "min.insync.replicas") if word not in section] == []
