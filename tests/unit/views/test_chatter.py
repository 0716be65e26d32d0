"""What Spark's processes print becomes one line for each thing, and noise none."""

from __future__ import annotations

import subprocess
import sys

import pytest
import structlog

from parallax.views.chatter import Chatter, Line, heard


@pytest.mark.parametrize(
    "line",
    [
        "\n",
        "WARNING: Using incubator modules: jdk.incubator.vector\n",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n",
        'Setting default log level to "WARN".\n',
        "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).\n",
        "26/11/23 12:29:05 WARN Utils: Your hostname, vm, resolves to a loopback address\n",
        "26/11/23 12:29:10 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform\n",
        "26/11/23 12:29:10 INFO SparkContext: Running Spark\n",
        "Starting Streaming TransformWithStateInPandas Python worker.\n",
        "Streaming TransformWithStateInPandas Python worker Completed execution of UDF: <bound method at 0x7ef>\n",
        "26/11/23 12:29:05 ERROR MicroBatchExecution: Query progress [id = 5, runId = 7] terminated with error\n",
        "\tat org.apache.spark.sql.execution.QueryExecution.run(QueryExecution.scala:1)\n",
        "Caused by: java.io.IOException: No space left on device\n",
        "\t... 12 more\n",
        "Traceback (most recent call last):\n",
        '  File "worker.py", line 1, in main\n',
    ],
)
def test_what_is_said_at_each_start_and_what_goes_on_about_a_line_is_left_out(line: str) -> None:
    assert heard(line) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "26/11/23 12:29:05 ERROR MicroBatchExecution: Query compare cannot be planned\n",
            Line("error", "MicroBatchExecution", "Query compare cannot be planned"),
        ),
        ("26/11/23 12:29:05 WARN TaskSetManager: Lost task: x\n", Line("warning", "TaskSetManager", "Lost task: x")),
        ("26/11/23 12:29:05 ERROR Utils: Aborting task\n", Line("error", "Utils", "Aborting task")),
        (
            "Error occurred during initialization of VM\n",
            Line("warning", "", "Error occurred during initialization of VM"),
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\n",
            Line("warning", "", "java.lang.OutOfMemoryError: Java heap space"),
        ),
    ],
)
def test_what_went_wrong_is_a_line_with_its_level(line: str, said: Line) -> None:
    assert heard(line) == said


def test_no_line_is_endless() -> None:
    found = heard("x" * 1_000_000)
    assert found is not None
    assert len(found.text) == 2000


def test_what_a_process_prints_is_logged_until_it_ends() -> None:
    chatter = Chatter()
    program = "import os; os.write(1, b'a' * 200_000 + b'\\n\\xff\\n'); os.write(2, b'26/11/23 12:29:05 ERROR X: y\\n')"
    with structlog.testing.capture_logs() as logged:
        with subprocess.Popen([sys.executable, "-c", program], **chatter.options) as process:
            chatter.started()
        assert process.returncode == 0, "it was not kept waiting by what it printed"
        chatter.ended()
    assert [line["said"][:3] for line in logged] == ["aaa", "\ufffd", "y"]
    assert (logged[2]["log_level"], logged[2]["logger"]) == ("error", "X")


def test_the_innermost_cause_of_a_stack_trace_is_kept() -> None:
    chatter = Chatter()
    trace = 'Exception in thread "main" a.B\n\tat c.D\nCaused by: e.F: outer\n\tat g.H\nCaused by: i.J: inner\n'
    with subprocess.Popen([sys.executable, "-c", f"print({trace!r})"], **chatter.options):
        chatter.started()
    chatter.ended()
    assert chatter.cause == "i.J: inner"
