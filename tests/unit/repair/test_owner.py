from __future__ import annotations

import subprocess
import sys

from parallax.repair.owner import SILENT_MS, in_words, is_at_work, myself

NOW = 1_700_000_000_000


def test_a_process_is_at_work_until_it_has_ended() -> None:
    code = "from parallax.repair.owner import myself; print(myself(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    owner = child.stdout.readline().strip()
    assert is_at_work(owner, 0, NOW), "however long it has been silent"
    child.communicate("\n")
    assert not is_at_work(owner, NOW, NOW), "however new its last word is"


def test_a_number_that_was_given_out_again_is_another_process() -> None:
    who, _, _ = myself().rpartition(":")
    assert not is_at_work(f"{who}:1.00", NOW, NOW)


def test_of_a_process_on_another_machine_its_last_word_counts() -> None:
    assert is_at_work("ann@elsewhere:7:1.00", NOW - SILENT_MS + 1, NOW)
    assert not is_at_work("ann@elsewhere:7:1.00", NOW - SILENT_MS, NOW)


def test_it_is_named_for_people() -> None:
    assert in_words("ann@elsewhere:7:1.00") == "ann@elsewhere (process 7)"
