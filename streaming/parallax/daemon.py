"""The process from which Spark's Python workers are forked (``spark.python.daemon.module``): it imports all they need.

Spark's own daemon imports nothing before it forks. So each worker would import pyarrow and load compiled kernels again,
which takes seconds and memory. This daemon imports them once, and then runs Spark's; the workers share its memory.
Threads do not survive a fork, so the imported libraries are kept from starting any.
"""

from __future__ import annotations

import os
import sys

from parallax.release import unlike

_SINGLE_THREADED = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def preload() -> None:
    """Import what a worker of Spark needs to run, to read replicas, to record and to compare.

    Importing the compiled kernels also loads their machine code from numba's cache, because their signatures are given.
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
    """Import what workers need, then serve as Spark's own daemon does."""
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
