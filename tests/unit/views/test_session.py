"""Starting Spark: what goes wrong with its JVM is reported in one line."""

from __future__ import annotations

import subprocess
import sys


def test_a_jvm_that_does_not_start_is_one_line_that_names_the_settings() -> None:
    program = (
        "from parallax.config import SparkSettings\n"
        "from parallax.errors import SetupError\n"
        "from parallax.views.session import build_session\n"
        "try:\n"
        "    build_session(SparkSettings(driver_java_options='--add-modules=no.such.module'))\n"
        "except SetupError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    *before, line = ended.stdout.splitlines()
    assert "did not start" in line
    assert "spark.driver_java_options" in line
    assert "no.such.module" in " ".join([*before, ended.stderr]), "the JVM's own words reach the terminal"
