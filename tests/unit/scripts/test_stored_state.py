"""What released versions left behind is taken over by this one: tables, findings, checkpoints, the comparison's state.

``scripts/stored_state.py`` keeps one archive with each release. A comparison whose layout has changed since may be
rebuilt from the tables: then the program sets its checkpoint aside, and the parts of ``told`` that go by it are left
out here for the versions before that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parallax.alerting.page.render import finding_values
from parallax.config import ReadSettings
from parallax.findings.finding import claim_of, current
from parallax.findings.report import print_explanation
from parallax.findings.table import FindingsTable, read_events
from parallax.model import FindingStatus
from parallax.source.schema import PROGRESS as PROGRESS_SCHEMA
from parallax.source.schema import VIEW
from parallax.views.hash_key import hash_key, name_of
from parallax.views.tables import PROGRESS, VIEWS, create_tables, rust_uri
from tests.archives import unpack

ROOT = Path(__file__).parents[3]
ARCHIVES = sorted((ROOT / "tests" / "stored").glob("*.tar.xz"))
LARGEST = 300_000
NOT_PROVEN = ". Which of the others is right is not proven."
"""What a release left open may be proven by a later one, from the same evidence."""


def reading() -> Callable[[str], dict[str, Any]]:
    spec = util.spec_from_file_location("stored_state", ROOT / "scripts" / "stored_state.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    told: Callable[[str], dict[str, Any]] = module.told
    return told


@pytest.fixture(params=ARCHIVES, ids=lambda file: file.name.removesuffix(".tar.xz"))
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with ``storage``, as a release left it, and ``told.json``, what that release read there."""
    unpack(request.param, tmp_path)
    return tmp_path


def test_the_first_release_is_kept_and_no_archive_is_large() -> None:
    assert "0.1.0.tar.xz" in [file.name for file in ARCHIVES]
    assert all(file.stat().st_size <= LARGEST for file in ARCHIVES)


def test_what_a_release_left_is_read_as_that_release_read_it(left: Path) -> None:
    then = json.loads((left / "told.json").read_text())
    now = json.loads(json.dumps(reading()(str(left / "storage"))))
    assert {part: now[part] for part in then if part != "right"} == {p: v for p, v in then.items() if p != "right"}
    assert now["right"].keys() == then["right"].keys()
    for finding, right in then["right"].items():
        accusation, is_open, _ = right.partition(NOT_PROVEN)
        assert now["right"][finding] == right or (is_open and now["right"][finding].startswith(accusation)), finding
    assert len(then["findings"]) >= 5
    assert then["states"]
    assert then["positions"]


def test_its_tables_get_the_columns_of_today_and_keep_their_rows(left: Path) -> None:
    storage = str(left / "storage")
    then = json.loads((left / "told.json").read_text())
    create_tables(storage, name_of(hash_key(storage, ReadSettings())))
    assert {name: DeltaTable(rust_uri(storage, name)).count() for name in (*VIEWS, PROGRESS)} == then["rows"]
    for name, schema in ((VIEWS[0], VIEW), (VIEWS[1], VIEW), (PROGRESS, PROGRESS_SCHEMA)):
        assert set(schema.names) <= {field.name for field in DeltaTable(rust_uri(storage, name)).schema().fields}


def test_its_findings_are_checked_explained_shown_and_gone_on_with(
    left: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = str(left / "storage")
    events = read_events(storage)
    standing = current(events)
    reported = [finding for finding in standing.values() if finding.status is not FindingStatus.DISMISSED]
    for finding in reported:
        assert claim_of(finding).place == finding.place
        assert finding_values(finding, events, standing.values())["versions"]
        print_explanation(storage, finding.finding_id)
    assert capsys.readouterr().out.count("What happened") == len(reported) > 0
    table = FindingsTable(storage, strict=True)
    known = table.load()
    table.append([known[-1]])
    assert [event.sequence for event in read_events(storage)] == list(range(1, len(known) + 2))
    assert any(event.status is FindingStatus.CONFIRMED for event in known)
