"""Which tests a mutant is put to: those that run the changed statement, and no other can notice it."""

from __future__ import annotations

import threading
from textwrap import dedent
from typing import Any

import pytest

from tests.mutation.reach import Watch, own_lines

TEXT = dedent(
    """\
    LIMIT = 3


    class Counted:
        most: int = LIMIT

        @property
        def twice(
            self, by: int = 2
        ) -> int:
            return self.most * by


    def counted(several):
        found = [
            one
            for one in several
            if one
        ]
        for one in found:
            if one > LIMIT:
                return one
            elif one < 0:
                continue
        else:
            found = None
        try:
            def inner(one, by=LIMIT):
                return one * by
        except ValueError:
            raise
        finally:
            found = 1
        return found
    """
)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (1, None),
        (5, None),
        (7, None),
        (9, None),
        (11, {11}),
        (15, {15, 16, 17, 18, 19}),
        (18, {15, 16, 17, 18, 19}),
        (20, {20, 25}),
        (21, {21}),
        (22, {22}),
        (23, {23}),
        (24, {24}),
        (26, {26}),
        (28, {28}),
        (29, {29}),
        (31, {31}),
        (33, {33}),
        (34, {34}),
    ],
)
def test_a_line_is_of_one_statement_without_those_within_it_or_runs_on_import(
    line: int, lines: set[int] | None
) -> None:
    assert own_lines(TEXT, line) == lines


def test_a_watch_notes_the_lines_that_each_test_runs_in_any_of_its_threads() -> None:
    module: dict[str, Any] = {}
    exec(compile(TEXT, "counted.py", "exec"), module)
    watch = Watch({"counted.py": "parallax/counted.py"})
    with watch.of("finds"):
        assert module["counted"]([0, 4]) == 4
    with watch.of("in a thread"):
        thread = threading.Thread(target=module["counted"], args=([-1],))
        thread.start()
        thread.join()
    with watch.of("nothing"):
        assert module["LIMIT"] == 3
    assert module["counted"]([]) == 1
    assert watch.lines["nothing"] == {}
    assert {21, 22} <= watch.lines["finds"]["parallax/counted.py"]
    assert watch.lines["finds"]["parallax/counted.py"].isdisjoint({23, 26, 34})
    assert {23, 24, 26, 33, 34} <= watch.lines["in a thread"]["parallax/counted.py"]
    assert watch.cpu_s.keys() == watch.lines.keys()
