"""A machine on which a Python process takes longer to import its modules than Spark waits for it to connect back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SLOW_IMPORTS = """
import os, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "pyspark":
            sys.meta_path.remove(self)
            time.sleep(11)

if "PYTHON_WORKER_FACTORY_PORT" in os.environ:
    sys.meta_path.insert(0, Slow())
"""
"""Of a process that Spark waits for; ten seconds is what it waits."""

PROGRAM = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from parallax.config import SparkSettings
from parallax.views.session import build_session

class Counting(DataSource):
    @classmethod
    def name(cls):
        return "counting"

    def schema(self):
        return "n int"

    def simpleStreamReader(self, schema):
        return Reader()

class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"n": 0}

    def read(self, start):
        return iter([(start["n"],)]), {"n": start["n"] + 1}

    def readBetweenOffsets(self, start, end):
        return iter([(n,) for n in range(start["n"], end["n"])])

    def commit(self, end):
        pass

session = build_session(SparkSettings(master="local[1]", driver_memory="512m"))
session.dataSource.register(Counting)
sources = session._jsparkSession.sessionState().dataSourceManager()
variables = sources.lookupDataSource("counting").dataSourceCls().envVars()
before = sorted(variables.keySet())
query = session.readStream.format("counting").load().writeStream.format("memory").queryName("seen").start()
while query.isActive and not session.table("seen").count():
    query.awaitTermination(1)
print("it runs")
print("as before" if sorted(variables.keySet()) == before else sorted(set(variables.keySet()) - set(before)))
session.stop()
"""


@pytest.mark.release
def test_a_process_that_plans_a_source_may_take_as_long_as_it_needs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORTS)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path
    )
    assert "it runs" in ran.stdout.splitlines(), ran.stderr[-3000:]
    assert "as before" in ran.stdout.splitlines(), f"queries that begin together would break it: {ran.stdout}"
