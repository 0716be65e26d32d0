"""The process from which Spark forks its Python workers (``spark.python.daemon.module``).

Spark's own daemon imports nothing before it forks. So each worker would import pyarrow and load compiled code again,
which takes seconds and memory. This daemon imports both once, and then runs Spark's daemon; the workers share its
memory. Threads do not survive a fork, so the daemon keeps the imported libraries from starting any.
"""

from __future__ import annotations

import os
import sys

from parallax.release import unlike

_SINGLE_THREADED = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def preload() -> None:
    """Import the modules that Spark's Python workers use: to read replicas, to record rows and to compare them.

    That also loads the machine code of compiled functions from numba's cache, because their signatures are given.
    """
    import gc
    from importlib import import_module

    for module in (
        "pyspark.worker",
        "pyspark.sql.worker.plan_data_source_read",
        "parallax.views.recording",
        "parallax.source.reading",
        "parallax.views.commits",
        "parallax.compare.feed",
        "parallax.compare.recorded",
        "parallax.compare.together",
        "pyarrow.parquet",
    ):
        import_module(module)
    import_module("parallax.conversions").keep_pandas_out()
    # What is here to stay is kept out of collections, which would copy the shared pages.
    gc.freeze()


def main() -> None:
    """Import the modules that workers use, then run Spark's own daemon in this process."""
    problem = unlike()
    if problem is not None:
        sys.exit(problem)  # What a pickle of another release does is anybody's guess; Spark passes this line on.
    for name in _SINGLE_THREADED:
        os.environ.setdefault(name, "1")
    # Workers of other modules (they plan a source, once) come through a daemon as well, and need none of this.
    if sys.argv[1:2] in ([], ["pyspark.worker"]):
        preload()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
